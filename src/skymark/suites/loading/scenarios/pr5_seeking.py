"""PR-5: a start in the middle of a shuffled epoch of a billion elements, by index arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.model.cell import Setting
    from skymark.suites.loading.dataset.canonical import Dataset, Element


@scenario
class Seeking(Scenario):
    """Centre features that are computed from an element's index: ``features`` float32 ``[F]``.

    Nothing is stored and nothing drawn but the order, so that what an index costs is all there is.
    """

    id: ClassVar = "PR-5"
    title: ClassVar = "start in mid-epoch of up to a billion elements that are not stored"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle", "seek"})
    variants: ClassVar = {
        "small": Size(elements=10_000_000, batch_size=64, values={"features": 8}),
        "medium": Size(elements=100_000_000, batch_size=256, values={"features": 8}),
        "large": Size(elements=1_000_000_000, batch_size=256, values={"features": 8}),
    }
    own_process: ClassVar = True
    drive: ClassVar = "seeking"

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Read from no storage."""
        del axes
        return "computed"

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``features`` float32 ``[F]``, uniform in [0, 1)."""
        from skymark.suites.loading.dataset.computed import write_computed

        widths = {"features": self.size["features"]}
        return write_computed(directory, "computed rows", self.size.elements, widths)

    def open_dataset(self, directory: Path) -> Dataset:
        """Open what computes the elements."""
        from skymark.suites.loading.dataset.computed import ComputedDataset

        return ComputedDataset(directory)

    def stages(self) -> tuple[Stage, ...]:
        """Centre."""

        def centre(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "features": 2 * element["features"] - 1}

        return (Stage("centre", centre),)
