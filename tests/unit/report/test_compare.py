"""Two runs side by side: what may be compared, and what follows."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from skymark.model.errors import GateError, UsageError
from skymark.model.manifest import Pair
from skymark.model.record import Cause, Status
from skymark.report.compare import EFFORT_WORDS, CellComparison, compare_runs, gate
from skymark.report.comparison_tables import comparison_markdown, print_comparison
from skymark.report.html import render
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import Verdict

Build = Callable[..., Run]


@pytest.fixture
def build(make: ModuleType, tmp_path: Path) -> Build:
    """Returns a maker of runs with two adapters at given speeds."""

    def run(name: str, numpy: float = 1000, grain: float = 2000, **more: object) -> Run:
        noise = float(str(more.pop("noise", 0.005)))
        settings = more.pop("settings", None)
        extra = {"versions": versions} if (versions := more.pop("versions", None)) else {}
        records = [
            make.measured(
                make.cell("TAB-1", adapter, settings=settings),
                make.rounds_of(speed, name=f"{name}{adapter}", noise=noise, count=4),
                **extra,
            )
            for adapter, speed in (("numpy", numpy), ("grain", grain))
        ]
        return open_run(make.write_run(tmp_path / name, records, **more))

    return run


def verdict_of(cell: CellComparison) -> Verdict:
    (one,) = cell.metrics
    assert one.difference is not None
    return one.difference.verdict


def test_each_cell_gets_a_verdict(build: Build) -> None:
    found = compare_runs(build("a"), build("b", numpy=1000, grain=2600))
    verdicts = {cell.adapter: verdict_of(cell) for cell in found.cells}
    assert verdicts == {"numpy": Verdict.NO_DIFFERENCE, "grain": Verdict.BETTER}
    assert found.count(Verdict.BETTER) == 1
    assert found.differs == ()


def test_noise_is_inconclusive(build: Build) -> None:
    found = compare_runs(build("a", noise=0.2), build("b", noise=0.2))
    assert found.count(Verdict.INCONCLUSIVE) == 2


def test_figures_of_disturbed_rounds_are_inconclusive(build: Build) -> None:
    before, after = build("a"), build("b", numpy=1000, grain=2600)
    records = tuple(one.model_copy(update={"disturbed": True}) for one in after.records)
    found = compare_runs(before, replace(after, records=records))
    assert found.count(Verdict.INCONCLUSIVE) == 2
    assert not any(cell.metrics[0].difference.is_real for cell in found.cells)


def test_the_practical_margin_decides_what_counts(build: Build) -> None:
    before, after = build("a", noise=0.001), build("b", numpy=1030, grain=2060, noise=0.001)
    assert compare_runs(before, after).count(Verdict.NO_DIFFERENCE) == 2
    assert compare_runs(before, after, practical=0.01).count(Verdict.BETTER) == 2
    with pytest.raises(UsageError, match="negative"):
        compare_runs(before, after, practical=-1)


def test_other_hardware_is_refused_by_name_and_allowed_on_request(
    build: Build, make: ModuleType
) -> None:
    hardware = make.MACHINE.hardware.model_copy(update={"cpu_model": "Another CPU"})
    other = make.MACHINE.model_copy(update={"hardware": hardware})
    before, after = build("a"), build("b", machine=other)
    told = "cpu_model .*Example CPU 3000 .*Another CPU.*--across hardware"
    with pytest.raises(UsageError, match=told):
        compare_runs(before, after)
    assert "cpu_model" in compare_runs(before, after, across=["hardware"]).differs[0]


def test_other_library_versions_are_refused_by_name_and_allowed_on_request(build: Build) -> None:
    before, after = build("a"), build("b", versions={"grain": "9.9"})
    with pytest.raises(UsageError, match=r"grain\b.* 1\.2\.3\b.* 9\.9\b.*--across"):
        compare_runs(before, after)
    assert compare_runs(before, after, across=["versions"]).cells


def test_another_python_is_refused(build: Build, make: ModuleType) -> None:
    other = make.MACHINE.model_copy(update={"python": "CPython 3.13.0"})
    with pytest.raises(UsageError, match=r"3\.12\.4 .*3\.13\.0"):
        compare_runs(build("a"), build("b", machine=other))


def test_other_settings_are_refused_by_cell_and_allowed_on_request(build: Build) -> None:
    before, after = build("a"), build("b", settings={"workers": 4})
    with pytest.raises(UsageError, match=r"loading\.TAB-1\.small\.numpy.*--across cells"):
        compare_runs(before, after)
    assert compare_runs(before, after, across=["cells"]).cells


def test_every_reason_to_refuse_is_told_at_once(build: Build, make: ModuleType) -> None:
    other = make.MACHINE.model_copy(update={"python": "CPython 3.13.0"})
    after = build("b", machine=other, settings={"workers": 4})
    with pytest.raises(UsageError, match="--across versions cells"):
        compare_runs(build("a"), after)


def test_what_does_not_change_speed_is_remarked_only(build: Build, make: ModuleType) -> None:
    other = make.MACHINE.model_copy(update={"system": "Linux 6.9.0", "skymark": "0.2.0"})
    after = build("b", machine=other, effort="standard")
    differs = compare_runs(build("a"), after).differs
    told = (
        "effort .*quick .*standard",
        r"system .*Linux 6\.8\.0 .*Linux 6\.9\.0",
        r"skymark .*0\.1\.0 .*0\.2\.0",
    )
    assert all(map(re.fullmatch, told, differs))
    assert len(differs) == len(told)


def test_two_efforts_of_one_name_are_told_apart_by_what_differs(build: Build) -> None:
    after = build("b")
    plan = after.manifest.plan
    more = plan.effort.model_copy(update={"min_rounds": 7, "cell_timeout_s": 9.0})
    manifest = after.manifest.model_copy(update={"plan": plan.model_copy(update={"effort": more})})
    differs = compare_runs(build("a"), replace(after, manifest=manifest)).differs
    assert differs == (
        f"{EFFORT_WORDS['min_rounds']} is {plan.effort.min_rounds} and 7",
        f"{EFFORT_WORDS['cell_timeout_s']} is {plan.effort.cell_timeout_s} and 9.0",
    )


def test_runs_without_a_common_cell_are_refused(
    build: Build, make: ModuleType, tmp_path: Path
) -> None:
    other = [make.measured(make.cell("CV-1", "numpy"), make.rounds_of(10))]
    with pytest.raises(UsageError, match="in common"):
        compare_runs(build("a"), open_run(make.write_run(tmp_path / "b", other)))


def test_an_unknown_kind_of_difference_is_refused(build: Build) -> None:
    with pytest.raises(UsageError, match="hardware, versions, cells"):
        compare_runs(build("a"), build("b"), across=["luck"])  # type: ignore[list-item]


def test_the_gate_lets_pass_what_did_not_get_worse(build: Build) -> None:
    gate(compare_runs(build("a"), build("b", grain=3000)))


def test_the_gate_names_the_cells_that_got_slower(build: Build) -> None:
    with pytest.raises(GateError, match=r"\b1\D+2 .*TAB-1\.small\.grain \(-25") as caught:
        gate(compare_runs(build("a"), build("b", grain=1500)))
    assert caught.value.exit_code == 3


def test_the_gate_stops_a_cell_that_is_not_ok_any_more(
    build: Build, make: ModuleType, tmp_path: Path
) -> None:
    cause = Cause(kind="x", message="broken")
    records = [
        make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, name="bnumpy")),
        make.ended(make.cell("TAB-1", "grain"), Status.INVALID, cause),
    ]
    after = open_run(make.write_run(tmp_path / "b", records))
    found = compare_runs(build("a"), after)
    assert "ok → invalid" in shown(found)
    with pytest.raises(GateError, match="ok → invalid"):
        gate(found)


OK, FAILED, SKIPPED = Status.OK, Status.FAILED, Status.SKIPPED
NO_VENV = Cause(kind="venv", message="no network")
ABSENT = Cause(kind="library-absent", message="not here")


@pytest.fixture
def one_cell(make: ModuleType, tmp_path: Path) -> Callable[..., Run]:
    """Returns a maker of runs whose plan has two cells: one is ok, the other as is told."""

    def run(name: str, status: Status | None, cause: Cause | None = None) -> Run:
        cells = {one: make.cell("TAB-1", one) for one in ("numpy", "grain")}
        records = [make.measured(one, make.rounds_of(1000, count=4)) for one in cells.values()]
        if status is None:
            planned = [cells["grain"]]
            return open_run(make.write_run(tmp_path / name, records[:1], planned=planned))
        if status is not OK:
            records[1] = make.ended(cells["grain"], status, cause or ABSENT)
        return open_run(make.write_run(tmp_path / name, records))

    return run


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((OK,), (OK,), None),
        ((OK,), (None,), r"grain \(no record .*b\)"),
        ((OK,), (FAILED,), "ok → failed"),
        ((OK,), (SKIPPED,), "ok → skipped"),
        ((None,), (OK,), r"grain \(no record .*a\)"),
        ((FAILED, NO_VENV), (OK,), r"grain \(not set up .*a\)"),
        ((SKIPPED, NO_VENV), (OK,), r"grain \(not set up .*a\)"),  # as earlier versions wrote it
        ((FAILED,), (OK,), None),  # mended
        ((SKIPPED,), (OK,), None),  # the library is here now
        ((SKIPPED,), (SKIPPED,), None),
        ((FAILED, NO_VENV), (FAILED, NO_VENV), None),  # its run says so
        ((None,), (None,), None),  # a part of a plan
    ],
)
def test_the_gate_passes_no_cell_of_the_baseline_that_cannot_be_judged(
    one_cell: Callable[..., Run],
    before: tuple[Status, ...],
    after: tuple[Status, ...],
    said: str | None,
) -> None:
    found = compare_runs(one_cell("a", *before), one_cell("b", *after))
    if said is None:
        gate(found)
        return
    with pytest.raises(GateError, match=said):
        gate(found)
    assert re.search(said, shown(found, 300))
    assert comparison_markdown(found).startswith("### ❌ ")


def test_the_gate_does_not_pass_where_nothing_was_measured_in_both(
    make: ModuleType, tmp_path: Path
) -> None:
    def run(name: str) -> Run:
        records = [make.ended(make.cell("TAB-1", "numpy"), SKIPPED, ABSENT)]
        return open_run(make.write_run(tmp_path / name, records))

    found = compare_runs(run("a"), run("b"))
    with pytest.raises(GateError, match=r"\ba and b;"):
        gate(found)
    assert comparison_markdown(found).startswith("### ❔ No ")


def test_cells_of_one_run_only_are_listed(build: Build, make: ModuleType, tmp_path: Path) -> None:
    only = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, name="x"))]
    found = compare_runs(build("a"), open_run(make.write_run(tmp_path / "b", only)))
    assert found.only_before == ("loading.TAB-1.small.grain",)
    assert f"only before: {found.only_before[0]}" in shown(found)


def shown(comparison: object, width: int = 100) -> str:
    output = io.StringIO()
    print_comparison(comparison, Console(file=output, width=width))
    return output.getvalue()


def test_the_table_shows_rates_ratio_interval_and_verdict(build: Build) -> None:
    text = shown(compare_runs(build("a"), build("b", grain=2600)))
    line = next(line for line in text.splitlines() if "grain" in line)
    assert "2.0" in line
    assert "1.3" in line
    assert line.rstrip().endswith("faster")
    assert re.search(r"1 faster\D+1 \D+\b5 %.*\)$", text.rstrip())


def many(make: ModuleType, path: Path, cells: int, better: float) -> Run:
    """A run of as many cells as many scenarios have, of which the first has another speed."""
    records = [
        make.measured(
            make.cell(f"S-{number}", "numpy"),
            make.rounds_of(better if number == 0 else 1000, name=path.name, noise=0.1, count=4),
        )
        for number in range(cells)
    ]
    return open_run(make.write_run(path, records))


def test_a_verdict_is_corrected_for_the_number_of_cells(make: ModuleType, tmp_path: Path) -> None:
    def verdict(cells: int) -> tuple[Verdict, float | None]:
        before, after = (
            many(make, tmp_path / f"{cells}-{speed}", cells, speed) for speed in (1000, 1300)
        )
        (one,) = compare_runs(before, after).cells[0].metrics
        assert one.difference is not None
        return one.difference.verdict, one.difference.p_value

    alone, p_value = verdict(1)
    among, _ = verdict(40)
    assert p_value is not None
    assert 0.05 / 40 < p_value < 0.05
    assert (alone, among) == (Verdict.BETTER, Verdict.INCONCLUSIVE)


def test_an_inconclusive_cell_says_how_many_more_rounds_settle_it(build: Build) -> None:
    found = compare_runs(build("a", noise=0.2), build("b", noise=0.2))
    lacking = {cell.adapter: cell.metrics[0].more_rounds for cell in found.cells}
    assert all(more is not None and more > 0 for more in lacking.values())
    text = shown(found)
    assert "rounds more" in text.splitlines()[1]
    for adapter, more in lacking.items():
        assert next(line for line in text.splitlines() if adapter in line).endswith(f" +{more}")
    assert f", {max(filter(None, lacking.values()))} all " in " ".join(text.split())


def test_where_every_cell_has_a_verdict_no_more_rounds_are_spoken_of(build: Build) -> None:
    found = compare_runs(build("a"), build("b"))
    assert "rounds" not in shown(found)
    assert {one.more_rounds for cell in found.cells for one in cell.metrics} == {None}


def test_a_single_round_says_that_nobody_knows_how_many_more(
    make: ModuleType, tmp_path: Path
) -> None:
    runs = [
        open_run(
            make.write_run(
                tmp_path / name,
                [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, count=1))],
            )
        )
        for name in "ab"
    ]
    text = shown(compare_runs(*runs))
    assert next(line for line in text.splitlines() if "numpy" in line).endswith(" ?")
    assert "a single round" in text


def test_a_run_continued_on_other_hardware_is_compared_only_on_request(
    build: Build, make: ModuleType
) -> None:
    hardware = make.MACHINE.hardware.model_copy(update={"cpu_model": "Example CPU 4000"})
    other = make.MACHINE.model_copy(update={"hardware": hardware})
    before, mixed = build("a"), build("b")
    manifest = mixed.manifest.model_copy(update={"continued_on": (other,)})
    mixed = dataclasses.replace(mixed, manifest=manifest)
    with pytest.raises(UsageError, match=r"b .*CPU 4000"):
        compare_runs(before, mixed)
    assert compare_runs(before, mixed, across=("hardware",)).differs
    shown = io.StringIO()
    print_report(mixed, Console(file=shown, width=200))
    assert "CPU 4000" in shown.getvalue()
    assert "Continued on" in render(mixed)
    assert "Continued on" not in render(before)


# Two sides in pairs


@pytest.fixture
def sides(make: ModuleType, tmp_path: Path) -> Callable[..., tuple[Run, Run]]:
    """Returns a maker of two sides that rise and fall together, by a half and more."""

    def both(
        ratio: float, partner: str = "after", status: Status = Status.OK, **more: object
    ) -> tuple[Run, Run]:
        def run(name: str, speed: float, duet: Pair, **more: object) -> Run:
            rounds = make.rounds_of(1000, name="shared", noise=0.3, count=5)
            scaled = [
                one.model_copy(update={"metrics": {**one.metrics, "samples_per_s": value}})
                for one in rounds
                for value in (speed * one.metrics["samples_per_s"],)
            ]
            record = make.measured(make.cell("TAB-1", "numpy"), scaled, **more)
            return open_run(make.write_run(tmp_path / name, [record], duet=duet))

        commit = "c" * 40
        before = Pair(side="baseline", partner=partner, commit=commit)
        after = Pair(side="candidate", partner="before", commit=commit)
        return run("before", 1, before), run("after", ratio, after, status=status, **more)

    return both


def test_sides_are_compared_pair_by_pair(sides: Callable[..., tuple[Run, Run]]) -> None:
    found = compare_runs(*sides(0.97))
    assert found.in_pairs
    assert found.practical == 0.02
    (cell,) = found.cells
    assert cell.pairs == 5
    assert verdict_of(cell) is Verdict.WORSE
    assert ": 5 pairs" in shown(found)
    with pytest.raises(GateError, match="-3 %"):
        gate(found)


def test_runs_that_name_others_as_their_side_are_no_pair(
    sides: Callable[..., tuple[Run, Run]],
) -> None:
    found = compare_runs(*sides(0.97, partner="another"))
    assert not found.in_pairs
    assert found.practical == 0.05
    assert verdict_of(found.cells[0]) is Verdict.INCONCLUSIVE


def test_the_gate_of_sides_lets_pass_what_is_within_the_margin(
    sides: Callable[..., tuple[Run, Run]],
) -> None:
    gate(compare_runs(*sides(0.99)))


def test_the_gate_of_sides_leaves_a_lost_cell_to_the_run(
    sides: Callable[..., tuple[Run, Run]],
) -> None:
    found = compare_runs(*sides(0.5, status=Status.FAILED, metrics={}))
    assert found.cells[0].is_lost
    gate(found, counts_lost=False)
    with pytest.raises(GateError, match="ok → failed"):  # of two finished runs there is no other
        gate(found)


def test_sides_may_have_the_pins_of_their_revisions(
    sides: Callable[..., tuple[Run, Run]],
) -> None:
    found = compare_runs(*sides(1.0, versions={"numpy": "9.9.9"}))
    assert any({"numpy", "2.3.0", "9.9.9"} <= set(text.split()) for text in found.differs)
