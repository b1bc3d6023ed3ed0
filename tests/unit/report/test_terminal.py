"""The table in a terminal."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from skymark.model.record import Cause, StabilityWarning, Status
from skymark.report.html import render
from skymark.report.markdown import run_markdown
from skymark.report.ranking_table import ranked
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run, open_run


def shown(run: Run, width: int = 140, *, wide: bool = False) -> str:
    output = io.StringIO()
    print_report(run, Console(file=output, width=width), wide=wide)
    return output.getvalue()


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(saved: Run, width: int) -> None:
    text = shown(saved, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert line_of(text, "numpy").split()[:3] == ["numpy", "60.0", "k"]


def test_wider_terminals_show_more_columns_and_wide_tables_all(saved: Run) -> None:
    headings = [len(line_of(shown(saved, width), "loader").split()) for width in (60, 80, 100)]
    headings.append(len(line_of(shown(saved, 60, wide=True), "loader").split()))
    assert headings == sorted(set(headings))


def test_a_table_has_the_columns_that_decide_and_wide_ones_the_others(
    make: ModuleType, tmp_path: Path
) -> None:
    records = []
    for name, speed in (("numpy", 1000), ("grain", 2000)):
        rounds = make.rounds_of(speed, name=name)
        rounds = [
            one.model_copy(update={"metrics": one.metrics | {"cores_used": 1.7}}) for one in rounds
        ]
        records.append(make.measured(make.cell("TAB-1", name), rounds))
    run = open_run(make.write_run(tmp_path / "run", records))
    assert re.split("  +", line_of(shown(run), "loader")) == [
        *("loader", "samples/s", "±", "vs best", "order", "CPU s per 1000"),
        *("median wait", "p99 wait", "cores used", "memory"),
    ]
    assert "× numpy" not in shown(run)
    assert "× numpy" in shown(run, wide=True)


def test_bold_is_a_row_that_is_shown_to_be_the_best(make: ModuleType, tmp_path: Path) -> None:
    for name, speed, won in (("tied", 1000, []), ("decided", 2000, ["grain"])):
        records = [
            make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, name="numpy")),
            make.measured(make.cell("TAB-1", "grain"), make.rounds_of(speed, name="grain")),
        ]
        run = open_run(make.write_run(tmp_path / name, records))
        rows = ranked(run.records, run.declaration)
        assert [row.record.cell.adapter for row in rows if row.wins] == won
        bold = re.findall(r"\*\*Google Grain\*\*", run_markdown(run))
        assert bool(bold) is bool(won)


def test_the_fastest_comes_first_and_ratios_are_to_it_and_to_the_baseline(saved: Run) -> None:
    text = shown(saved, wide=True)
    order = [line.split()[0] for line in text.splitlines() if line.split(" ")[0] in ADAPTERS]
    assert order[:4] == ["tfdata", "grain", "pytorch", "numpy"]
    assert "100 %" in line_of(text, "tfdata")
    assert " 4.9 " in line_of(text, "tfdata")
    assert "±2.7 %" in line_of(text, "tfdata")


ADAPTERS = {"tfdata", "pytorch", "grain", "numpy"}


def test_what_is_missing_is_a_dash_not_a_zero(saved: Run) -> None:
    assert line_of(shown(saved), "tfdata").rstrip().endswith("–")


def test_cells_that_did_not_end_ok_show_their_cause_and_what_to_do(saved: Run) -> None:
    text = shown(saved)
    assert "invalid  TAB-1:small  webdataset" in text
    (wrong,) = [one.cause for one in saved.records if one.status is Status.INVALID]
    assert wrong.message in text
    assert f"→ {wrong.action}" in text
    assert "skipped  dali  (TAB-1)" in text
    assert "unsupported  spdl  (PC-1)" in text


def test_a_refused_cell_shows_no_speed(saved: Run) -> None:
    assert "900 k" not in shown(saved)


def test_the_last_line_counts_by_status(saved: Run) -> None:
    last = shown(saved).rstrip().splitlines()[-1]
    counts = "5 measured · 1 invalid · 1 failed · 1 timeout · 1 skipped · 1 unsupported"
    assert re.fullmatch(rf"{counts}\D+1\D+1 scenario\D+", last)


def test_warnings_appear_once_per_kind_with_an_action(saved: Run) -> None:
    text = shown(saved)
    assert text.count("! leaked-processes") == 1
    (leak,) = saved.by_id["loading.TAB-1.small.pytorch"].warnings
    assert f"→ {leak.action}" in text
    assert "pytorch !" in text


def with_warnings(run: Run, kinds: int, of_each: int) -> Run:
    first, *others = run.records
    warnings = tuple(
        StabilityWarning(kind=f"kind-{kind}", message=f"message {number}", action="do")
        for kind in range(kinds)
        for number in range(of_each)
    )
    many = first.model_copy(update={"warnings": warnings})
    return dataclasses.replace(run, records=(many, *others))


def test_many_warnings_of_a_kind_or_many_kinds_are_counted_and_not_listed(saved: Run) -> None:
    alike = with_warnings(saved, 1, 200_000)
    assert "! kind-0" in shown(alike)
    assert "(and 199999 more)" in shown(alike)
    page = render(alike)
    assert "and 199900 more" in page
    assert len(page) < 2 * len(render(saved))
    different = with_warnings(saved, 3000, 1)
    assert shown(different).count("! kind-") == 100
    assert "more kinds" in shown(different)
    assert "more kinds</li>" in render(different)


def test_utilisation_appears_only_where_batches_have_a_think_time(saved: Run) -> None:
    text = shown(saved)
    first, second = text.split("PC-1:small depth=5", 1)
    assert "busy" not in first
    assert "17 %" in second


def test_a_difference_that_is_not_shown_to_be_real_is_marked(
    make: ModuleType, tmp_path: Path
) -> None:
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(speed, name=name, noise=0.1))
        for name, speed in (("numpy", 1000), ("grain", 1050))
    ]
    text = shown(open_run(make.write_run(tmp_path / "run", records)))
    slower = min(
        (line_of(text, name) for name in ("numpy", "grain")), key=lambda one: "≈" not in one
    )
    assert "≈" in slower


def test_adapters_whose_order_is_not_shown_share_places_and_a_bracket(saved: Run) -> None:
    text = shown(saved)
    places = {name: line_of(text, name).split("%")[2][:9] for name in ADAPTERS}
    assert places == {
        "tfdata": "    1    ", "grain": "  2–3 ┐  ", "pytorch": "  2–3 ┘  ", "numpy": "    4    "
    }  # fmt: skip
    assert "┐│┘ " in text


def test_a_table_in_which_every_order_is_shown_has_no_bracket(
    make: ModuleType, tmp_path: Path
) -> None:
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(speed, name=name))
        for name, speed in (("numpy", 1000), ("grain", 2000))
    ]
    table = shown(open_run(make.write_run(tmp_path / "run", records))).partition("bold:")[0]
    assert set("┐│┘").isdisjoint(table)


def test_bold_are_those_than_which_none_is_shown_to_be_faster(
    make: ModuleType, tmp_path: Path
) -> None:
    """One of which little is known leads by its mean; that raises nobody who is shown slower."""
    speeds = {"grain": (3000, 0.9), "tfdata": (2000, 0.002), "numpy": (1000, 0.002)}
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(speed, name=name, noise=noise))
        for name, (speed, noise) in speeds.items()
    ]
    run = open_run(make.write_run(tmp_path / "run", records))
    rows = {row.record.cell.adapter: row for row in ranked(run.records, run.declaration)}
    assert {name: row.leads for name, row in rows.items()} == {
        "grain": True, "tfdata": True, "numpy": False
    }  # fmt: skip
    assert len({row.place.group for row in rows.values()}) == 1


def test_text_from_a_record_can_neither_steer_the_terminal_nor_be_markup(
    make: ModuleType, tmp_path: Path
) -> None:
    hostile = Cause(kind="x", message="\x1b[31mred\x1b[0m [bold]loud[/bold] \x07", action="[red]")
    record = make.ended(make.cell("TAB-1", "numpy"), Status.FAILED, hostile)
    text = shown(open_run(make.write_run(tmp_path / "run", [record])))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]loud[/bold]" in text


def test_an_interrupted_run_says_so(make: ModuleType, tmp_path: Path) -> None:
    todo = [make.cell("CV-1", "numpy")]
    path = make.write_run(tmp_path / "run", make.one_of_each(), planned=todo, finished=False)
    last = shown(open_run(path), width=200).rstrip().splitlines()[-1]
    assert re.search(r"\b1 without .*--resume", last)


def test_an_unreadable_record_is_mentioned(make: ModuleType, tmp_path: Path) -> None:
    path = make.write_run(tmp_path / "run", make.one_of_each())
    (path / "records" / "loading.TAB-1.small.numpy.json").write_text("{")
    assert "unreadable: records/loading.TAB-1.small.numpy.json" in shown(open_run(path))
