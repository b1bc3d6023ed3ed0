"""Reports of metrics that are no rates: lower is better, exact, several compared."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from rich.console import Console

from skymark.model.errors import GateError
from skymark.model.metric import Declaration, Metric, Shown, Spread, Words
from skymark.model.record import Cell, Record, Round
from skymark.model.schema import KEY, seal
from skymark.report.compare import compare_runs, gate
from skymark.report.comparison_tables import print_comparison
from skymark.report.html import render
from skymark.report.ranking_table import ranked
from skymark.report.sheet import write_csv, write_parquet
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import Verdict
from skymark.statistics.interval import figures_of

LATENCY = Metric(
    name="latency_s",
    heading="latency",
    unit="s",
    description="time of an answer",
    better="lower",
    words=Words(better="quicker", worse="slower", best="quickest"),
    compared=True,
    gated=True,
    shown=Shown(format="duration"),
)
STEPS = Metric(
    name="steps",
    heading="steps",
    better="lower",
    scale="exact",
    compared=True,
    gated=True,
    integer=True,
    shown=Shown(),
)
RECALL = Metric(
    name="recall",
    heading="recall",
    better="higher",
    scale="linear",
    compared=True,
    shown=Shown(format="share", gives_way=1),
)
DEPTH = Metric(name="depth_used", heading="depth used", own=True, shown=Shown(gives_way=10))
HIDDEN = Metric(name="hidden_s", heading="hidden s")
DECLARATION = Declaration(
    suite="answers",
    metrics=(LATENCY, STEPS, RECALL, HIDDEN, DEPTH),
    primary="latency_s",
    baseline="plain",
    conditions=("engine",),
    legend="latency per answer",
    scenario_titles={"ASK-1": "short questions"},
    adapter_names={"plain": "Plain loop", "swift": "Swift"},
)
PLAIN = {"latency_s": (0.400, 0.404, 0.402), "steps": (100,), "recall": (0.50, 0.51, 0.52)}
SWIFT = {"latency_s": (0.100, 0.101, 0.102), "steps": (80,), "recall": (0.40, 0.41, 0.42)}

Values = Mapping[str, tuple[float, ...]]
Build = Callable[..., Run]


def record_of(make: ModuleType, adapter: str, values: Values, declaration: Declaration) -> Record:
    """Return a record of these values, one per round; a single one is that of all rounds."""
    rounds = tuple(
        Round(
            round=number,
            started_at=make.BEGIN,
            setup_s=0.1,
            timed_ns=10**9,
            metrics={name: each[number % len(each)] for name, each in values.items()},
        )
        for number in range(max(map(len, values.values())))
    )
    cell = Cell(suite="answers", scenario="ASK-1", variant="small", adapter=adapter)
    return Record(
        cell=cell,
        cell_hash=cell.hash,
        status="ok",
        rounds=rounds,
        metrics=figures_of(rounds, declaration.metrics),
        conditions={"engine": "c"},
        started_at=make.BEGIN,
        ended_at=make.BEGIN,
    )


@pytest.fixture
def build(make: ModuleType, tmp_path: Path) -> Build:
    """Returns a maker of runs of a suite that is not installed."""

    def run(
        name: str = "a",
        declaration: Declaration = DECLARATION,
        swift: Values = SWIFT,
        plain: Values = PLAIN,
    ) -> Run:
        records = [
            record_of(make, adapter, values, declaration)
            for adapter, values in (("plain", plain), ("swift", swift))
        ]
        path = make.write_run(tmp_path / name, records)
        manifest = json.loads((path / "manifest.json").read_bytes())
        manifest["declaration"] = declaration.model_dump(mode="json")
        del manifest[KEY]
        (path / "manifest.json").write_bytes(seal(json.dumps(manifest)))
        return open_run(path)

    return run


def shown(run: Run, width: int = 200, *, wide: bool = True) -> list[str]:
    output = io.StringIO()
    print_report(run, Console(file=output, width=width), wide=wide)
    return output.getvalue().splitlines()


def compared(before: Run, after: Run) -> str:
    output = io.StringIO()
    print_comparison(compare_runs(before, after), Console(file=output, width=200))
    return output.getvalue()


def test_the_lowest_comes_first_where_lower_is_better(build: Build) -> None:
    run = build()
    best, other = ranked(run.records, run.declaration)
    assert [row.record.cell.adapter for row in (best, other)] == ["swift", "plain"]
    assert (best.leads, other.leads) == (True, False)
    assert other.share == pytest.approx(0.25, rel=0.02)
    assert best.multiple == pytest.approx(4, rel=0.02)
    assert other.to_best.verdict is Verdict.WORSE


def test_a_table_has_the_columns_words_and_titles_of_the_declaration(build: Build) -> None:
    text = shown(build())
    start = text.index("ASK-1:small  short questions")
    headings, first, second = text[start + 1 : start + 4]
    assert headings.split("  ")[0] == "adapter"
    assert headings.split()[1:] == [
        "latency", "±", "vs", "best", "order", "×", "plain", "steps", "recall"
    ]  # fmt: skip
    assert first.split()[:3] == ["swift", "101", "ms"]
    assert "100 %" in first
    assert "80" in first.split()
    assert "25 %" in second
    (legend,) = [line for line in text if line.startswith("bold:")]
    assert "quickest" in legend
    assert legend.endswith("latency per answer")


def test_without_a_baseline_there_is_no_multiple_of_it(build: Build) -> None:
    run = build(declaration=DECLARATION.model_copy(update={"baseline": None}))
    heading = next(line for line in shown(run) if line.startswith("adapter"))
    assert "×" not in heading
    assert "× plain" not in render(run)


def test_a_metric_that_only_some_scenarios_have_shows_where_there_is_room(build: Build) -> None:
    run = build(swift=SWIFT | {"depth_used": (7.0, 7.0, 7.0), "undeclared_x": (1.0, 2.0, 3.0)})
    wide, narrow = "\n".join(shown(run)), "\n".join(shown(run, wide=False))
    assert "depth used" in wide
    assert "undeclared x" in wide
    assert "depth used" not in narrow
    assert "recall" in narrow
    page = render(run)
    assert "depth used" in page
    assert "hidden s" not in page


def test_the_page_speaks_in_the_words_of_the_declaration(build: Build) -> None:
    page = render(build())
    assert re.search("latency: .*quickest", page)
    assert "be the quickest" in page
    assert "“Quicker” and “slower”" in page
    assert "Plain loop" in page
    assert 'data-first="ascending"><button type="button" title="time of an answer">latency' in page
    assert 'aria-label="101 ms latency, ' in page
    assert '<td data-value="80">80</td>' in page


def test_a_primary_metric_that_does_not_vary_has_neither_interval_nor_rounds(build: Build) -> None:
    run = build(declaration=DECLARATION.model_copy(update={"primary": "steps"}))
    best, other = ranked(run.records, run.declaration)
    assert (best.record.cell.adapter, best.share, other.share) == ("swift", 1.0, 0.8)
    assert other.to_best.verdict is Verdict.WORSE
    assert "interval" not in "\n".join(shown(run))
    page = render(run)
    assert 'class="round"' not in page
    assert "95 % interval" not in page


def test_equal_exact_values_lead_together_without_a_doubt(build: Build) -> None:
    steps = DECLARATION.model_copy(update={"primary": "steps"})
    run = build(declaration=steps, swift=SWIFT | {"steps": (100,)})
    rows = ranked(run.records, run.declaration)
    assert [(row.share, row.leads) for row in rows] == [(1.0, True), (1.0, True)]
    assert "≈" not in "\n".join(shown(run)).partition("bold:")[0]


def test_a_zero_has_no_ratio_and_breaks_nothing(build: Build) -> None:
    steps = DECLARATION.model_copy(update={"primary": "steps"})
    run = build(declaration=steps, swift=SWIFT | {"steps": (0,)})
    rows = ranked(run.records, run.declaration)
    assert [(row.share, row.leads) for row in rows] == [(1.0, True), (None, False)]
    assert render(run)
    assert shown(run)
    other = build("b", declaration=steps, swift=SWIFT | {"steps": (3,)})
    with pytest.raises(GateError, match=r"swift \(steps 0\D+3\)"):
        gate(compare_runs(run, other))


def test_each_compared_metric_gets_a_row_and_a_verdict_in_its_own_words(build: Build) -> None:
    slow = {"latency_s": (0.200, 0.202, 0.204), "steps": (70,), "recall": (0.60, 0.61, 0.62)}
    text = compared(build("a"), build("b", swift=slow))
    rows = [line.split() for line in text.splitlines() if " swift " in line]
    assert [row[2] for row in rows] == ["latency", "steps", "recall"]
    assert [row[-1] for row in rows] == ["slower", "better", "better"]
    assert rows[1][3:6] == ["80", "70", "0.875"]
    assert re.search(r"2 better\D+1 slower", text)


def test_the_comparison_as_json_names_its_metrics(build: Build) -> None:
    found = json.loads(compare_runs(build("a"), build("b")).model_dump_json())
    assert [one["name"] for one in found["metrics"]] == ["latency_s", "steps", "recall"]
    assert [one["metric"] for one in found["cells"][0]["metrics"]] == [
        "latency_s", "steps", "recall"
    ]  # fmt: skip


def test_the_gate_heeds_the_gated_metrics_only(build: Build) -> None:
    before = build("a")
    gate(compare_runs(before, build("b", swift=SWIFT | {"recall": (0.1, 0.11, 0.12)})))
    after = build("c", swift=SWIFT | {"steps": (88,), "latency_s": (0.2, 0.201, 0.202)})
    with pytest.raises(GateError, match=r"\b1\D+2 .*swift \(latency \+99\D+10 %\)"):
        gate(compare_runs(before, after))


def test_a_gated_metric_that_is_not_there_any_more_is_a_regression(build: Build) -> None:
    before, less = build("a"), {name: SWIFT[name] for name in ("latency_s", "recall")}
    after = build("b", swift=less)
    assert "one side" in compared(before, after)
    with pytest.raises(GateError, match="steps not measured"):
        gate(compare_runs(before, after))
    gate(compare_runs(after, before))


def test_an_export_has_a_column_per_metric_and_condition(build: Build, tmp_path: Path) -> None:
    run = build(swift=SWIFT | {"depth_used": (7.0, 7.0, 7.0)})
    write_parquet(run, tmp_path / "run.parquet")
    write_csv(run, tmp_path / "run.csv")
    plain, swift = pq.read_table(tmp_path / "run.parquet").to_pylist()
    names = list(swift)
    assert names[names.index("rounds") + 1 : names.index("verified")] == [
        "latency_s", "latency_s_low", "latency_s_high", "steps",
        "recall", "recall_low", "recall_high",
        "hidden_s", "hidden_s_low", "hidden_s_high", "engine",
    ]  # fmt: skip
    assert (swift["steps"], type(swift["steps"])) == (80, int)
    assert swift["latency_s_low"] < swift["latency_s"] < swift["latency_s_high"]
    assert swift["hidden_s"] is None
    assert swift["engine"] == "c"
    assert json.loads(swift["extra"]) == {"depth_used": pytest.approx(7)}
    assert json.loads(plain["extra"]) == {}
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        assert [line["steps"] for line in csv.DictReader(file)] == ["100", "80"]


def test_three_metrics_of_a_spread_share_a_chart(build: Build) -> None:
    spread = Spread(
        heading="bounds", metrics=("hidden_s", "latency_s", "recall"), labels=("a", "b", "c")
    )
    run = build(
        declaration=DECLARATION.model_copy(update={"spreads": (spread,)}),
        swift=SWIFT | {"hidden_s": (0.01, 0.01, 0.01)},
    )
    page = render(run)
    assert "bounds: ● a  | b  ○ c" in page
    assert page.count('aria-label="bounds: a 0.0100, b 101 ms, c 41 %"') == 1


def test_text_of_a_declaration_is_no_markup_and_steers_no_terminal(build: Build) -> None:
    evil = "<b>\x1b[31m"
    hostile = DECLARATION.model_copy(
        update={
            "metrics": (
                LATENCY.model_copy(update={"heading": evil, "words": Words(best=evil)}),
                *DECLARATION.metrics[1:],
            ),
            "scenario_titles": {"ASK-1": evil},
            "adapter_names": {"plain": evil},
            "method": (evil,),
            "oracle": evil,
            "legend": evil,
        }
    )
    run = build(declaration=hostile)
    for text in (render(run), "\n".join(shown(run)), compared(run, run)):
        assert "\x1b" not in text
    assert "<b>\ufffd" not in render(run)


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ({"primary": "unknown"}, r"\['unknown'\] are named"),
        ({"primary": "hidden_s"}, "hidden_s .*better"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(
    update: dict[str, object], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        Declaration.model_validate(DECLARATION.model_dump() | update)


@pytest.mark.parametrize(
    ("more", "told"),
    [({"compared": True}, "more is better"), ({"better": "lower", "gated": True}, "compared")],
)
def test_a_metric_that_cannot_be_judged_is_refused(more: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Metric.model_validate({"name": "x", "heading": "x", **more})
