"""PC-1: transform chains of growing depth, for a library's own cost per step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.transforms.field import Vector


@scenario
class TransformChain(Scenario):
    """Apply ``depth`` cheap operations one after another to ``values`` float32 ``[W]``.

    Each operation is a stage of its own; a library that has pipelines of transforms gets one
    transform per stage.
    """

    id: ClassVar = "PC-1"
    title: ClassVar = "transform chains"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=6_500, batch_size=128, values={"width": 64}),
        "medium": Size(elements=40_000, batch_size=256, values={"width": 256}),
        "large": Size(elements=400_000, batch_size=1024, values={"width": 256}),
    }
    holds_lock: ClassVar = True
    axis_values: ClassVar = {"depth": (1, 5, 10, 50)}
    in_double: ClassVar = True
    version: ClassVar = 2

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``values`` float32 ``[W]``, the same for every depth."""
        from skymark.suites.loading.dataset.vectors import write_vectors

        return write_vectors(directory, self.size.elements, self.size["width"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the work."""
        return ("values",)

    def stages(self) -> tuple[Stage, ...]:
        """Apply the links of `skymark.suites.loading.transforms.field`, over and over."""
        from skymark.suites.loading.transforms.field import LINKS

        links = islice(cycle(LINKS.items()), int(self.axes["depth"]))
        return tuple(
            Stage(f"{place} {name}", _on_values(link))
            for place, (name, link) in enumerate(links, 1)
        )


def _on_values(link: Callable[[Vector], Vector]) -> Callable[[Element, Parameters], Element]:
    def apply(element: Element, parameters: Parameters) -> Element:
        del parameters
        return {**element, "values": link(element["values"])}

    return apply
