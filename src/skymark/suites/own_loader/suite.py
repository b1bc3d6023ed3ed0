"""The planning side: candidates of a user's own loader."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import ClassVar

from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.metric import Declaration
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cell, Record, Setting
from skymark.model.requests import Work
from skymark.suite.contract import Grid, Row, Suite, Tuning
from skymark.suite.given import options_of, read_given
from skymark.suites.own_loader.maker import (
    FORM,
    NOTHING,
    STEP,
    OwnOptions,
    OwnSpecification,
    points_of,
    read_maker,
    split,
)
from skymark.suites.own_loader.metrics import COST, DECLARATION, UTILISATION

SCENARIO = "loop"
ROUNDS = {"check": (1, 1), "quick": (3, 3), "standard": (5, 9), "rigorous": (10, 30)}
"""Least and most rounds by effort."""
SECONDS = {"check": 0.2, "quick": 1.0, "standard": 2.0, "rigorous": 5.0}
BATCHES = 16
"""Least batches of a round."""
START_S = 10.0
"""Assumed time to start Python, import a library and fill the loader."""
TIMEOUT_S = 300.0


def _effort(name: str, rounds: tuple[int, int], seconds: float, step_s: float = 0.0) -> Effort:
    return Effort(
        name=name,
        min_rounds=rounds[0],
        max_rounds=rounds[1],
        target_relative_interval=0.05,
        cell_timeout_s=TIMEOUT_S + 10 * seconds + 20 * BATCHES * step_s,
        limits={"seconds": seconds, "batches": BATCHES},
    )


def stage_effort(name: str, rounds: int, seconds: float, step_ms: float) -> Effort:
    """Return the effort of a tune's stage."""
    return _effort(name, (rounds, rounds), seconds, step_ms / 1000)


def points(work: Work, given: Grid, cores: int) -> list[dict[str, Setting]]:
    """Return the settings to try.

    Raises:
        UsageError: the request names not exactly one function, or it has nothing to try.
    """
    if len(work.adapters) != 1:
        raise UsageError("a tune takes one loader of your own; name one FILE.py:NAME")
    maker = read_maker(work.adapters[0])
    return points_of(maker, split(work.settings)[1], given, cores)


class OwnSuite(Suite):
    """Functions of the user's files that make loaders."""

    name: ClassVar = "own_loader"
    title: ClassVar = "your own loaders, as your training loop uses them"
    runner: ClassVar = "skymark.suites.own_loader.runner:OwnRunner"
    declaration: ClassVar[Declaration] = DECLARATION
    efforts: ClassVar[Mapping[str, Effort]] = {
        name: _effort(name, rounds, SECONDS[name]) for name, rounds in ROUNDS.items()
    }
    options: ClassVar[tuple[Option, ...]] = options_of(OwnOptions, {"python"}, group="what")
    tuning: ClassVar = Tuning(
        goal=UTILISATION,
        cost=COST,
        step=STEP,
        batch="batch_size",
        scenario=SCENARIO,
        points=points,
        effort=stage_effort,
        loader=FORM,
        profile="own_loader",
        limits="skymark.suites.own_loader.runner:limits",
    )

    def scenarios(self) -> list[Row]:
        """Return the one scenario."""
        return [{"id": SCENARIO, "work": "your own loader's batches", "variants": ["own"]}]

    def adapters(self) -> list[Row]:
        """Return nothing: each user has their own."""
        return []

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return a cell per function."""
        for name in selection.scenarios:
            if name not in {SCENARIO, f"{SCENARIO}:own"}:
                raise UnknownNameError("scenario", name, [SCENARIO])
        if not selection.adapters:
            raise UsageError("name your loader: --adapters FILE.py:NAME")
        options = read_given(OwnOptions, "option", selection.options)
        if shutil.which(options.python) is None:
            raise UsageError(
                f"there is no {options.python} here; give the Python that has your loader's "
                "libraries, such as --python ./.venv/bin/python"
            )
        step_s, parameters = split(selection.settings)
        cells = []
        for reference in selection.adapters:
            maker = read_maker(reference)
            maker.require(parameters)
            cell = Cell(
                suite=self.name,
                scenario=SCENARIO,
                variant="own",
                adapter=re.sub(r"[^\w.-]", "-", maker.name),
                settings=selection.settings,
                specification=OwnSpecification(maker=maker, python=options.python).model_dump(
                    mode="json"
                ),
            )
            seconds = max(effort.limits["seconds"], effort.limits["batches"] * step_s)
            low, expected = seconds + START_S / 5, seconds + START_S
            guess = Span(low_s=low, expected_s=expected, high_s=effort.cell_timeout_s)
            cells.append(
                PlannedCell(
                    cell=cell,
                    group=cell.id,
                    shard_key=cell.label,
                    guess=guess,
                    local_files=(maker.file,),
                    notes=(f"{maker.file} is run by {options.python}",),
                )
            )
        return cells

    def venv(self, cell: Cell) -> None:
        """Return None: a round starts the user's own Python."""
        del cell

    def adapter_reference(self, cell: Cell) -> str:
        """Return ``FILE.py:NAME``."""
        return OwnSpecification.of(cell).maker.reference

    def code_of(self, record: Record) -> str:
        """Return the call with a record's parameters."""
        maker = OwnSpecification.of(record.cell).maker
        parameters = split({**record.cell.settings, **record.cell.axes})[1]
        words = ", ".join(f"{name}={_literal(value)}" for name, value in parameters.items())
        return f"loader = {maker.function}({words})"


def _literal(value: Setting) -> str:
    return NOTHING if value == NOTHING else repr(value)
