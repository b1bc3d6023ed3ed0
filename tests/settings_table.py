"""Make the table of docs/reference/settings.md: loaders with settings that nobody tries together.

A pairwise covering array has each value of a setting with each value of every other one, in as few
cells as can be (D. Cohen et al., "The AETG system", IEEE Transactions on Software Engineering
23(7), 1997). Sets are very small, so that a cell takes a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

from skymark.execute.planner import load_profile, make_plan, write_plan
from skymark.execute.tune import candidates_of
from skymark.model.plan import Plan
from skymark.model.record import Record, Status
from skymark.model.requests import Work
from skymark.rundir.reader import read_record
from skymark.suites.loading.registry import adapters, scenario_class
from skymark.suites.loading.storage_formats import HTTP
from tests.faults.table import renew
from tests.in_library import run_in_library

LOADERS = tuple(slug for slug, cls in adapters().items() if not cls.install_hint)
BATCHES = ("1", "7", "the set", "larger")
SETTINGS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "CV-1": {"workers": (0, 1, 2, 5, 8, 16), "prefetch": (1, 4), "batch": BATCHES},
    "DIST-1": {"ranks": (1, 2, 4), "workers": (0, 1, 2, 5), "batch": BATCHES},
}
"""Values of the settings of each scenario. DIST-1 has 673 elements, which no ranks divide."""

TIMEOUT_S = 300
"""Of a cell, also where other programs take the cores."""

Point = Mapping[str, Any]


def pairwise(factors: Mapping[str, Sequence[Any]]) -> list[Point]:
    """Return points such that each two values of two factors are together in one.

    Greedy: each point takes, factor by factor, the value that covers most pairs which are left.
    """
    names = list(factors)
    left = {
        ((one, a), (other, b))
        for one, other in combinations(names, 2)
        for a, b in product(factors[one], factors[other])
    }
    points = []
    while left:
        (first, second) = min(left, key=repr)
        point = dict([first, second])
        for name in names:
            if name not in point:
                point[name] = max(
                    factors[name],
                    key=lambda value, name=name: len(left & covered({**point, name: value}, names)),
                )
        left -= covered(point, names)
        points.append({name: point[name] for name in names})
    return points


def covered(point: Point, names: Sequence[str]) -> set[tuple[Any, Any]]:
    """Return the pairs of a point."""
    return set(combinations([(name, point[name]) for name in names if name in point], 2))


def plan_of(scenario: str, points: Sequence[Point]) -> Plan:
    """Return one plan of all points; their settings are axes, so that ids differ."""
    elements = scenario_class(scenario).sizes()["tiny"].elements
    sizes = {"1": 1, "7": 7, "the set": elements, "larger": elements + 3}
    plans = []
    for point in points:
        settings = {name: point[name] for name in ("workers", "prefetch") if name in point}
        settings |= {"batch_size": sizes[point["batch"]]}
        axis = [f"ranks={point['ranks']}"] if "ranks" in point else []
        work = Work(
            scenarios=(f"{scenario}:tiny",),
            effort="check",
            timeout_s=TIMEOUT_S,
            adapters=(point["loader"],),
            settings=settings,
            options={"axis": axis},
        )
        plan = make_plan(load_profile("ci_cpu"), work)
        plans.append((settings, plan))
    return candidates_of(plans)


def measured(scenario: str, points: Sequence[Point], directory: Path) -> list[Record]:
    """Measure the points of a scenario, and return their records in order."""
    plan, place = plan_of(scenario, points), directory / scenario
    write_plan(plan, directory / f"{scenario}.json")
    command = [sys.executable, "-m", "skymark", "run", "--plan", f"{scenario}.json"]
    subprocess.run([*command, "--output", str(place)], cwd=directory, check=False)
    return [read_record(place / "records" / f"{one.cell.id}.json") for one in plan.cells]


def table_of(
    loaders: Sequence[str],
    directory: Path,
    settings: Mapping[str, Mapping[str, Sequence[Any]]] = SETTINGS,
) -> Iterator[tuple[str, Point, Record]]:
    """Measure a pairwise table of loaders and settings, scenario by scenario."""
    for scenario, factors in settings.items():
        points = pairwise({"loader": loaders, **factors})
        for point, record in zip(points, measured(scenario, points, directory), strict=True):
            yield scenario, point, record


def is_right(record: Record) -> bool:
    """Whether a cell was measured, or refused with a reason before anything was measured."""
    return record.status in {Status.OK, Status.UNSUPPORTED}


def dropped(loader: str, directory: Path) -> str:
    """Return whether a loader whose job drops short batches does; see `tests.dropped_last`.

    Loaders of media only, and of data on a server only, are not opened on rows of numbers.
    """
    cls = adapters()[loader]
    if cls.native_only or cls.media_only or HTTP.issuperset(cls.formats):
        return "–"
    done = run_in_library(loader, "tests.dropped_last", str(directory / loader))
    if done.returncode:
        return done.stderr.splitlines()[-1]
    wrong = [
        fault for faults in json.loads(done.stdout.splitlines()[-1]).values() for fault in faults
    ]
    return "; ".join(wrong) or "ok"


def ends_in_words(records: Sequence[Record]) -> str:
    """Return how cells ended, such as ``6 ok, 1 unsupported``."""
    counts = Counter(record.status.value for record in records)
    return ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))


def main() -> None:
    """Measure the table, and renew it in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = list(table_of(asked.loaders, Path(directory)))
        last = {loader: dropped(loader, Path(directory)) for loader in asked.loaders}
    rows = {
        loader: [
            *(
                ends_in_words([one for s, point, one in found if (s, point["loader"]) == at])
                for at in product(SETTINGS, (loader,))
            ),
            last[loader],
        ]
        for loader in asked.loaders
    }
    renew(asked.page, "settings", ("loader", *SETTINGS, "`drop_last`"), LOADERS, rows)
    wrong = [(scenario, point, record) for scenario, point, record in found if not is_right(record)]
    for scenario, point, record in wrong:
        print(scenario, dict(point), record.status.value, record.cause, file=sys.stderr)
    raise SystemExit(1 if wrong or set(last.values()) - {"ok", "–"} else 0)


if __name__ == "__main__":
    main()
