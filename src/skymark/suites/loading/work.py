"""The parts of a scenario's work: sizes, stages, mixtures of sources, and the batches made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from skymark.model.base import Frozen

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element

Batch = Mapping[str, Any]
"""A loader's batch: ``index`` int64 ``[B]`` and arrays ``[B, ...]`` of any array library."""

Parameters = Mapping[str, Any]
"""The random parameters of one element: name to one row of the table that `Scenario.draw` made."""

Work: TypeAlias = "Callable[[Element, Parameters], Element]"
"""Work on one element."""

Mixing = Literal["schedule", "draws", "worker draws"]
"""Choice of the next element's source: by an exact schedule; at random; or at random in each
worker, which has a share of every source."""

Caches = Literal["nothing", "objects", "decoded", "finished"]
"""Work of one epoch that an adapter keeps for the next: nothing, objects fetched from a store,
decoded elements, or finished ones."""


class Size(Frozen):
    """The size of a variant: elements, batch size, and the scenario's own dimensions."""

    elements: int
    batch_size: int
    values: dict[str, int | float | str] = Field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def three_sizes(
    elements: tuple[int, int, int],
    batch_size: tuple[int, int, int],
    **dimensions: tuple[float, float, float] | float,
) -> dict[str, Size]:
    """Return the variants ``small``, ``medium`` and ``large``.

    Args:
        elements: of each.
        batch_size: of each.
        dimensions: the scenario's own; one number stands for all three.
    """
    each = {
        name: given if isinstance(given, tuple) else (given, given, given)
        for name, given in dimensions.items()
    }
    return {
        variant: Size(
            elements=elements[place],
            batch_size=batch_size[place],
            values={name: given[place] for name, given in each.items()},
        )
        for place, variant in enumerate(("small", "medium", "large"))
    }


class Stage(NamedTuple):
    """One named step of a transform: ``apply(element, parameters) -> element``.

    The name appears in verdicts ("the normalise stage was skipped"), so it is a verb or a noun
    that a user knows. `mistakes` are wrong versions worth recognising, by their description.
    """

    name: str
    apply: Work
    mistakes: Mapping[str, Work] = {}


def on(field: str, work: Callable[[Any], Any], into: str | None = None) -> Work:
    """Return the work of a stage that draws nothing: replace a field by ``work(field)``.

    Args:
        field: what the work reads.
        work: called with the field's value.
        into: the result's name where it is another; `field` is then dropped.
    """

    def replace(element: Element, parameters: Parameters) -> Element:
        del parameters
        return {**element, field: work(element[field])}

    def rename(element: Element, parameters: Parameters) -> Element:
        del parameters
        kept = {name: value for name, value in element.items() if name != field}
        return {**kept, into: work(element[field])}  # type: ignore[dict-item]  # is no None here

    return replace if into is None else rename


class Mixture(Frozen):
    """Sources that follow one another in the data set, and the stream to be made of them.

    Each source is gone through again and again, each element once in every pass.
    """

    sizes: tuple[int, ...]
    """Elements of each source."""
    weights: tuple[float, ...]
    """Share of each source in the stream; their sum is 1."""
    elements: int
    """Elements of an epoch of the stream."""

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The first element of each source, and the one after its last."""
        return list(pairwise(accumulate(self.sizes, initial=0)))

    def draw(self, random: Any) -> Any:
        """Draw an epoch's elements, int64 ``[elements]``: sources by weight, each gone through.

        A source's elements come in one permutation of it after another, by a `Generator` of NumPy.
        """
        import numpy as np

        source = random.choice(len(self.sizes), self.elements, p=self.weights)
        indices = np.empty(self.elements, np.int64)
        for number, (begin, end) in enumerate(self.bounds):
            places = np.flatnonzero(source == number)
            passes = -(-len(places) // (end - begin))
            drawn = [begin + random.permutation(end - begin) for _ in range(passes)]
            indices[places] = np.concatenate([*drawn, places[:0]])[: len(places)]
        return indices

    def share(self, worker: int, workers: int, batch_size: int) -> int:
        """Return one worker's number of elements in an epoch, with batches dealt in turn."""
        starts = range(worker * batch_size, self.elements, workers * batch_size)
        return sum(min(batch_size, self.elements - start) for start in starts)
