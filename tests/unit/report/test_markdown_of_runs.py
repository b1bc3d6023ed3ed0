"""A run and a comparison of runs as Markdown for GitHub."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skymark.cli.main import main
from skymark.model.effort import Allotment
from skymark.report.compare import RunComparison, compare_runs
from skymark.report.comparison_tables import LONGEST, comparison_markdown
from skymark.report.markdown import run_markdown
from skymark.rundir.reader import Run, open_run


def rows_of(text: str) -> list[list[str]]:
    """The cells of all tables' lines."""
    lines = (line for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_run_has_its_places_and_groups_in_markdown(saved: Run) -> None:
    text = run_markdown(saved)
    head, *lines = rows_of(text)
    rows = {row[0]: row for row in reversed(lines)}
    place = head.index("order")
    assert rows["**tf.data**"][place] == "1"
    assert rows["Google Grain"][place] == "2–3 ┐"
    assert rows["PyTorch DataLoader"][place] == "2–3 ┘"
    assert "stopped by" not in head
    assert ["unsupported", "PC-1:small depth=5", "spdl"] in [row[:3] for row in rows_of(text)]


def test_every_table_in_markdown_has_as_many_cells_in_each_line(saved: Run) -> None:
    tables = [part.splitlines() for part in run_markdown(saved).split("\n\n") if part[0] == "|"]
    assert len(tables) == 3
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1


def test_a_run_in_a_time_says_what_ended_each_cells_rounds(
    make: ModuleType, tmp_path: Path
) -> None:
    ends = {"numpy": "decided", "grain": "interval"}
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(rate, name=name), stopped_by=end)
        for (name, end), rate in zip(ends.items(), (1000, 9000), strict=True)
    ]
    run = open_run(make.write_run(tmp_path / "run", records))
    plan = run.manifest.plan.model_copy(update={"allotment": Allotment(time_s=60, goal="table")})
    timed = dataclasses.replace(run, manifest=run.manifest.model_copy(update={"plan": plan}))
    head, _, grain, numpy = rows_of(run_markdown(timed))[:4]
    column = head.index("stopped by")
    assert (grain[column], numpy[column]) == ("interval", "decided")


def test_the_command_prints_markdown_and_not_two_formats_at_once(
    saved: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = str(saved.directory)
    assert main(["compare", place, place, "--format", "md"]) == 0
    assert re.match(r"### ❔ 2\D+5 ", capsys.readouterr().out)
    assert main(["compare", place, place, "--format", "md", "--json"]) == 2
    assert re.search("--json .*--format md", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("noise", "speeds", "head"),
    [
        (0.001, (1000, 1000), "✅ .*No change .*2 cells"),
        (0.001, (500, 1000), "✅ .*2 cells .*1 changed"),
        (0.2, (1000, 1000), "❔ 2 of 2 .*"),
        (0.001, (1000, 500), "❌ 1 of 2 .*"),
    ],
)
def test_an_inconclusive_comparison_has_no_tick(
    make: ModuleType, tmp_path: Path, noise: float, speeds: tuple[int, int], head: str
) -> None:
    text = comparison_markdown(compared(make, tmp_path, speeds, noise))
    assert re.fullmatch(f"### {head}", text.splitlines()[0])


def compared(
    make: ModuleType, tmp_path: Path, speeds: tuple[int, int], noise: float = 0.001
) -> RunComparison:
    runs = []
    for name, speed in zip(("before", "after"), speeds, strict=True):
        records = [
            make.measured(
                make.cell("TAB-1", adapter),
                make.rounds_of(rate, name=name + adapter, noise=noise, count=4),
            )
            for adapter, rate in (("numpy", speed), ("grain", 2000))
        ]
        runs.append(open_run(make.write_run(tmp_path / name, records)))
    return compare_runs(*runs)


def test_the_verdict_comes_first_and_what_did_not_change_is_folded(
    make: ModuleType, tmp_path: Path
) -> None:
    text = comparison_markdown(compared(make, tmp_path, (1000, 500)))
    assert re.match(r"### ❌ 1\D+2 ", text)
    open_part, folded = text.split("<details>")
    assert "| TAB-1:small | numpy |" in open_part
    assert "slower" in open_part
    assert "grain" not in open_part
    assert "| TAB-1:small | grain |" in folded
    assert folded.endswith("</details>\n")


POWERFUL = st.lists(
    st.sampled_from(
        ["|", "</details>", "<img src=x>", "[a](http://x.invalid)", "`", "@team", "#12", "\n## x",
         "\x1b[2J", "\u202e", "\ud800", "&lt;b&gt;", "-->", "w" * 90]
    ) | st.text(max_size=5),
    min_size=1,
    max_size=6,
).map("".join)  # fmt: skip
"""Text that a terminal, a browser or GitHub might obey."""


@pytest.fixture(scope="module")
def worse(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> RunComparison:
    """A comparison in which one of two cells got worse."""
    return compared(make, tmp_path_factory.mktemp("worse"), (1000, 500))


@settings(max_examples=50, derandomize=True, database=None)
@given(text=POWERFUL)
def test_no_text_of_a_run_has_power_in_a_comment(worse: RunComparison, text: str) -> None:
    named = {"label": text, "adapter": text, "cell_id": text}
    fields = {
        "before": text,
        "after": text,
        "differs": (text,),
        "only_before": (text,),
        "cells": tuple(one.model_copy(update=named) for one in worse.cells),
    }
    plain, odd = (
        comparison_markdown(worse.model_copy(update=fields | {"only_before": ("x",)} | more))
        for more in ({"cells": worse.cells, "before": "x", "after": "x", "differs": ("x",)}, fields)
    )
    assert odd.count("\n") == plain.count("\n")
    assert re.findall(r"<[^>]*>", odd) == re.findall(r"<[^>]*>", plain)
    assert odd.count("|") == plain.count("|")
    assert not re.search(r"@\w|#\d(?!\d*;)|://|[\[\]`\x1b\u202e]", odd)


@settings(max_examples=50, derandomize=True, database=None)
@given(text=POWERFUL)
def test_no_text_of_a_run_has_power_in_its_markdown(saved: Run, text: str) -> None:
    plain, odd = (run_markdown(named(saved, one)) for one in ("x", text))
    assert odd.count("\n") == plain.count("\n")
    assert re.findall(r"<[^>]*>", odd) == re.findall(r"<[^>]*>", plain)
    assert odd.count("|") == plain.count("|")
    assert not re.search(r"@\w|#\d(?!\d*;)|://|[\[\]`\x1b\u202e]", odd)


def named(run: Run, text: str) -> Run:
    """A run in which a text stands wherever its writer may put any."""
    records = tuple(
        one.model_copy(
            update={
                "cell": one.cell.model_copy(update={"adapter": text, "variant": text}),
                "cause": one.cause
                and one.cause.model_copy(update={"message": text, "action": text}),
            }
        )
        for one in run.records
    )
    machine = run.manifest.machine
    hardware = machine.hardware.model_copy(update={"cpu_model": text})
    manifest = run.manifest.model_copy(
        update={"machine": machine.model_copy(update={"hardware": hardware})}
    )
    return dataclasses.replace(run, manifest=manifest, records=records, problems=(text,))


def test_a_gain_is_no_loss(make: ModuleType, tmp_path: Path) -> None:
    text = comparison_markdown(compared(make, tmp_path, (500, 1000)))
    assert re.match(r"### ✅\D+2 \D+1 changed\n", text)


def test_a_comment_is_never_longer_than_github_takes(make: ModuleType, tmp_path: Path) -> None:
    found = compared(make, tmp_path, (1000, 500))
    evil = "|<b>`@\u6f22" * 60
    cells = tuple(
        one.model_copy(update={"label": evil, "adapter": evil}) for one in found.cells * 500
    )
    names = (evil,) * 1000
    many = found.model_copy(
        update={"cells": cells, "only_before": names, "differs": names, "before": evil}
    )
    text = comparison_markdown(many)
    assert len(text.encode()) <= LONGEST
    assert "more; `skymark compare`" in text
    assert text.count("<details>") == text.count("</details>")
    assert "<b>" not in text
    assert len({row.count("|") for row in text.splitlines() if row.startswith("|")}) == 1
