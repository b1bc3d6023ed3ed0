"""`--grid`: the points of a grid of settings, and a table that compares their runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from skymark.cli.rented_options import NAME
from skymark.cli.tables import print_rows
from skymark.model.errors import UsageError
from skymark.model.option import read_pair, read_value
from skymark.model.requests import Job, Work
from skymark.report.text import MISSING, margin, writer

if TYPE_CHECKING:
    from skymark.rundir.reader import Run

PLACE = re.compile(r"\{([^{}]+)\}")
"""Place of a point's value in a command."""
UNSAFE = re.compile("[^A-Za-z0-9._-]+")


def points(work: Work, grid: Sequence[str]) -> dict[str, Work]:
    """Return the request of each point of a grid, by a name that suits a directory.

    Args:
        work: what all points share.
        grid: ``NAME=VALUE,VALUE,…`` of settings that ``skymark run --set`` takes; their product is
            taken.

    Raises:
        UsageError: a name or value is wrong, or there twice.
    """
    axes = axes_of(grid, work.settings)
    found: dict[str, Work] = {}
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        point = "_".join(UNSAFE.sub("-", f"{name}={value}") for name, value in settings.items())
        if point in found:
            raise UsageError(f"--grid has two points that would both be called {point}")
        read = {name: read_value(value) for name, value in settings.items()}
        found[point] = work.changed(settings={**work.settings, **read})
    return found


def points_of_job(job: Job, grid: Sequence[str]) -> list[Job]:
    """Return a user's job for each point of a grid.

    A value stands in the place of ``{NAME}`` in a command. A YAML has it as variable NAME.

    Raises:
        UsageError: a name or value is wrong, or there twice, or a command has no place for it.
    """
    axes = axes_of(grid)
    is_command = not job.is_yaml
    places = {name.replace("-", "_") for word in job.words for name in PLACE.findall(word)}
    for name in axes:
        if is_command and name not in places:
            raise UsageError(
                f"--grid {name}=…: the command has no {{{name}}}, which the value would replace; "
                f"write it, such as: -- python train.py --{name} {{{name}}}"
            )
        if not is_command and not NAME.fullmatch(name):
            raise UsageError(f"--grid {name}=…: no variable of a YAML can have that name")
    return [
        _at_point(job, dict(zip(axes, values, strict=True)), is_command=is_command)
        for values in itertools.product(*axes.values())
    ]


def _at_point(job: Job, point: Mapping[str, str], *, is_command: bool) -> Job:
    def value_of(place: re.Match[str]) -> str:
        return point.get(place[1].replace("-", "_"), place[0])

    behind = UNSAFE.sub("-", "_".join(f"{name}={value}" for name, value in point.items()))
    changes: dict[str, object] = {"name": None if job.name is None else f"{job.name}-{behind}"}
    if is_command:
        changes["words"] = tuple(PLACE.sub(value_of, word) for word in job.words)
    else:
        changes["variables"] = {**job.variables, **point}
    return job.changed(**changes)


def axes_of(grid: Sequence[str], given: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the values of each name, as they were typed.

    Args:
        grid: ``NAME=VALUE,VALUE,…``.
        given: names that have a value already.

    Raises:
        UsageError: a name or value is wrong, or there twice.
    """
    axes: dict[str, list[str]] = {}
    for text in grid:
        typed, _, listed = text.partition("=")
        values = [value.strip() for value in listed.split(",")]
        if not typed.strip() or not all(values):
            raise UsageError(f"--grid {text!r} must be NAME=VALUE,VALUE,… such as workers=1,4,16")
        read = [read_pair(f"{typed}={value}") for value in values]
        name = read[0][0]
        if name in axes:
            raise UsageError(f"--grid has {name} twice; give all its values at once")
        if name in given:
            raise UsageError(f"{name} has a value, so --grid cannot vary it; leave out either")
        if len(set(read)) < len(read):
            raise UsageError(f"--grid {text!r} has a value twice")
        axes[name] = values
    return axes


def print_points(runs: Mapping[str, Run]) -> None:
    """Print the figures of each point of a grid, the points of a cell below one another."""
    headings = {run.declaration.primary_metric.heading: None for run in runs.values()}
    print_rows(
        ("scenario", "adapter", "point", "status", ", ".join(headings), "interval"),
        sorted(_rows(runs), key=itemgetter(0, 1)),
    )


def _rows(runs: Mapping[str, Run]) -> Iterable[tuple[str, ...]]:
    for point, run in runs.items():
        for record in run.records:
            metric = run.declaration.deciding(record.metrics)
            cell, figure = record.cell, record.metrics.get(metric.name)
            shown = MISSING if figure is None else writer(metric)(figure.value)
            if metric.name != run.declaration.primary:
                shown = f"{shown} {metric.heading}"
            known = MISSING if figure is None else margin(figure)
            yield (cell.label, cell.adapter, point, record.status.value, shown, known)
