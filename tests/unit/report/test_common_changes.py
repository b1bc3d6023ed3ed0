"""Two runs between which the machine changed: what is said of it, and of single libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from skymark.report.compare import RunComparison, compare_runs, gate
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import Verdict

LIBRARIES = "abcdefgh"
Build = Callable[..., Run]


@pytest.fixture
def build(make: ModuleType, tmp_path: Path) -> Build:
    """Returns a maker of runs in which all libraries have one speed, but for those named."""

    def run(name: str, speed: float, others: Mapping[str, float] | None = None, **more: object):
        libraries = str(more.pop("libraries", LIBRARIES))
        extra = {"versions": versions} if (versions := more.pop("versions", None)) else {}
        records = [
            make.measured(
                make.cell(scenario, one),
                make.rounds_of(
                    (others or {}).get(one, speed),
                    name=f"{name}{scenario}{one}",
                    noise=0.005,
                    count=6,
                ),
                **extra,
            )
            for scenario in ("S-1", "S-2")
            for one in libraries
        ]
        return open_run(make.write_run(tmp_path / name, records, **more))

    return run


def verdicts(found: RunComparison) -> dict[str, Verdict]:
    """Return the verdict on each library, which is the same for both of its cells."""
    each: dict[str, Verdict] = {}
    for cell in found.cells:
        (one,) = cell.metrics
        assert one.difference is not None
        assert each.setdefault(cell.adapter, one.difference.verdict) is one.difference.verdict
    return each


def test_what_all_libraries_did_alike_is_no_librarys_change(build: Build) -> None:
    found = compare_runs(build("before", 1000), build("after", 880))
    assert verdicts(found) == dict.fromkeys(LIBRARIES, Verdict.INCONCLUSIVE)
    assert {one.more_rounds for cell in found.cells for one in cell.metrics} == {None}
    (remark,) = found.differs
    assert "by -11.9 %" in remark
    assert "--against" in remark
    gate(found)


def test_a_library_that_stands_out_has_its_verdict_on_a_changed_machine(build: Build) -> None:
    found = compare_runs(build("before", 1000), build("after", 880, {"c": 600, "d": 1300}))
    assert verdicts(found) == {
        **dict.fromkeys(LIBRARIES, Verdict.INCONCLUSIVE),
        "c": Verdict.WORSE,
        "d": Verdict.BETTER,
    }


def test_a_library_that_alone_stayed_the_same_is_not_said_to(build: Build) -> None:
    found = compare_runs(build("before", 1000), build("after", 880, {"c": 1000}))
    assert verdicts(found)["c"] == Verdict.INCONCLUSIVE


def test_on_a_machine_that_stayed_the_same_nothing_is_lost(build: Build) -> None:
    found = compare_runs(build("before", 1000), build("after", 1000, {"c": 900}))
    assert verdicts(found) == {
        **dict.fromkeys(LIBRARIES, Verdict.NO_DIFFERENCE),
        "c": Verdict.WORSE,
    }
    assert found.differs == ()


def test_too_few_libraries_say_nothing_of_the_machine(build: Build) -> None:
    libraries = LIBRARIES[:5]
    found = compare_runs(
        build("before", 1000, libraries=libraries), build("after", 880, libraries=libraries)
    )
    assert verdicts(found) == dict.fromkeys(libraries, Verdict.WORSE)


def test_libraries_of_another_version_are_no_measure_of_the_machine(build: Build) -> None:
    before, after = build("before", 1000), build("after", 880, versions={"numpy": "3.0.0"})
    found = compare_runs(before, after, across=["versions"])
    assert verdicts(found) == dict.fromkeys(LIBRARIES, Verdict.WORSE)


def test_where_two_machines_are_compared_what_all_did_is_the_answer(
    build: Build, make: ModuleType
) -> None:
    hardware = make.MACHINE.hardware.model_copy(update={"cpu_model": "Another CPU"})
    other = make.MACHINE.model_copy(update={"hardware": hardware})
    found = compare_runs(
        build("before", 1000), build("after", 880, machine=other), across=["hardware"]
    )
    assert verdicts(found) == dict.fromkeys(LIBRARIES, Verdict.WORSE)
