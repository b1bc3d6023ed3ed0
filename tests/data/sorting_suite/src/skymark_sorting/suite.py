"""The planning side: what there is to sort, how, and with how much effort."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import product
from typing import ClassVar

from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError
from skymark.model.metric import Declaration
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cause, Cell, Status
from skymark.suite.contract import Row, Suite
from skymark_sorting.algorithms import ALGORITHMS
from skymark_sorting.metrics import DECLARATION
from skymark_sorting.shapes import LENGTHS, SHAPES
from skymark_sorting.specification import SortingSpecification, read_options, read_settings

MIN_SECONDS = "min_seconds"
"""The limit of an effort that says how long a round sorts."""


def _effort(
    name: str, rounds: tuple[int, int], interval: float, seconds: float, timeout_s: float
) -> Effort:
    return Effort(
        name=name,
        min_rounds=rounds[0],
        max_rounds=rounds[1],
        target_relative_interval=interval,
        cell_timeout_s=timeout_s,
        limits={MIN_SECONDS: seconds},
    )


EFFORTS = {
    effort.name: effort
    for effort in (
        _effort("quick", (3, 3), 0.10, seconds=0.06, timeout_s=60),
        _effort("standard", (5, 15), 0.05, seconds=0.5, timeout_s=120),
        _effort("rigorous", (10, 40), 0.02, seconds=2, timeout_s=300),
    )
}


class SortingSuite(Suite):
    """Shapes of arrays × sorting algorithms."""

    name: ClassVar = "sorting"
    title: ClassVar = "sorting algorithms, with proof that they sorted"
    runner: ClassVar = "skymark_sorting.runner:SortingRunner"
    declaration: ClassVar[Declaration] = DECLARATION
    efforts: ClassVar[Mapping[str, Effort]] = EFFORTS
    shares_machine: ClassVar = True  # comparisons do not vary
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            name="length",
            group="what",
            kind="integer",
            help="Elements of every array, in place of the variant's.",
        ),
        Option(
            name="element",
            choices=("int", "float"),
            setting=True,
            help="Type of the elements. [default: int]",
        ),
    )

    def scenarios(self) -> list[Row]:
        """Return a line per shape."""
        return [
            {"id": name, "work": shape.title, "variants": list(LENGTHS)}
            for name, shape in SHAPES.items()
        ]

    def adapters(self) -> list[Row]:
        """Return a line per algorithm."""
        return [
            {"slug": slug, "name": one.name, "language": one.language, "longest": one.longest}
            for slug, one in ALGORITHMS.items()
        ]

    def declared(self, cells: Iterable[Cell]) -> Declaration:
        """Return the metrics with the titles of shapes and the names of algorithms."""
        cells = list(cells)
        return self.declaration.model_copy(
            update={
                "scenario_titles": {one.scenario: SHAPES[one.scenario].title for one in cells},
                "adapter_names": {one.adapter: ALGORITHMS[one.adapter].name for one in cells},
            }
        )

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection: shape by shape, algorithm by algorithm."""
        settings = selection.settings
        read_settings(settings)
        asked = read_options(selection.options).length
        names = every(selection.adapters, ALGORITHMS)
        names = names or [slug for slug, one in ALGORITHMS.items() if one.by_default]
        for name in names:
            if name not in ALGORITHMS:
                raise UnknownNameError("adapter", name, ALGORITHMS)
        chosen = dict.fromkeys(map(scenario_variant, every(selection.scenarios, SHAPES) or SHAPES))
        return [
            planned_cell(
                Cell(
                    suite=self.name,
                    scenario=shape,
                    variant=variant,
                    adapter=name,
                    settings=settings,
                    specification=SortingSpecification(
                        length=asked or LENGTHS[variant]
                    ).model_dump(),
                ),
                effort,
            )
            for (shape, variant), name in product(chosen, dict.fromkeys(names))
        ]

    def venv(self, cell: Cell) -> None:
        """Return None: every algorithm runs in the interpreter that skymark runs in."""
        del cell

    def self_test(self) -> dict[str, str]:
        """Return what it costs to time one sorting."""
        readings = 100_000
        begin = time.perf_counter_ns()
        for _ in range(readings):
            time.perf_counter_ns()
        cost_ns = (time.perf_counter_ns() - begin) / readings
        return {"reading the clock": f"{cost_ns:.0f} ns"}


def scenario_variant(name: str) -> tuple[str, str]:
    """Return the shape and the variant that ``SHAPE`` or ``SHAPE:variant`` names.

    Raises:
        UnknownNameError: there is no such shape or variant.
    """
    shape, _, variant = name.partition(":")
    variant = variant or "small"
    if shape not in SHAPES:
        raise UnknownNameError("scenario", shape, SHAPES)
    if variant not in LENGTHS:
        raise UnknownNameError(f"variant of {shape}", variant, LENGTHS)
    return shape, variant


def every(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return names, with all known ones in the place of ``all``."""
    return [each for name in names for each in (known if name == "all" else (name,))]


def planned_cell(cell: Cell, effort: Effort) -> PlannedCell:
    """Return a cell with its process, its machine and its time, or the reason against it.

    An algorithm's cells share a process, and those of one array a machine, to be compared.
    """
    length, algorithm = SortingSpecification.of(cell).length, ALGORITHMS[cell.adapter]
    refusal: tuple[Status, Cause] | None = None
    if algorithm.longest is not None and length > algorithm.longest:
        refusal = (
            Status.UNSUPPORTED,
            Cause(
                kind="too-long",
                message=f"{algorithm.name} takes quadratic time, too much for {length} elements",
                action=f"give it at most {algorithm.longest}",
            ),
        )
    seconds = effort.limits[MIN_SECONDS]
    return PlannedCell(
        cell=cell,
        group=cell.adapter,
        shard_key=cell.label,
        guess=Span(low_s=seconds, expected_s=2 * seconds, high_s=effort.cell_timeout_s),
        refusal=refusal,
    )
