"""Verdicts: what the figures of a run say about each scenario, in sentences."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.metric import Declaration, Figure
from skymark.model.record import Record
from skymark.model.sizes import count_of, percent
from skymark.report.ranking_table import (
    RankedRow,
    not_ranked,
    rankings_of,
    share_of_limit,
    values_of,
    why_not_ranked,
)
from skymark.report.text import margin, noun_of, share, significant, writer
from skymark.rundir.reader import Run
from skymark.statistics.difference import PRACTICAL, Verdict, contrast, corrected, difference
from skymark.statistics.power import rounds_to_verdict
from skymark.statistics.stability import disturbance
from skymark.suite.registry import suite_named

MOST_NAMES = 6
"""Names in a sentence; more are counted."""
MINUTE_S = 60
MOST_S = 60 * MINUTE_S
"""Beyond an hour the estimate says that the machine is too noisy, rather than how long."""
SECOND = 2
"""The order of an adapter that only the best beats."""


class ScenarioVerdict(Frozen):
    """The verdict on one scenario: the best adapter, if the rounds show one."""

    label: str
    """The scenario with its variant and axes, such as ``CV-1:small``."""
    decided: bool | None
    """Whether the rounds show one best adapter; null if fewer than two were ranked."""
    best: tuple[str, ...]
    """The best adapter, or all that are tied for first; the highest figure comes first."""
    ratio: Figure | None = None
    """Ratio of the best to the next, with its 95 % interval; null while undecided, and for exact
    figures."""
    cheapest: str | None = None
    """The adapter shown to need least of the declared cost among those tied for first."""
    more_s: float | None = None
    """Seconds of rounds that decide it with 80 % probability. Null if it is decided, if one round
    leaves the spread unknown, or if a thousand rounds are too few."""
    sentences: tuple[str, ...]

    @property
    def mark(self) -> str:
        """The outcome as a sign and a word; only a decision has a tick."""
        return {True: "✓ Decided", False: "? Undecided", None: "– Not compared"}[self.decided]

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


def verdicts_of(
    run: Run, rankings: Mapping[str, Sequence[RankedRow]] | None = None
) -> tuple[ScenarioVerdict, ...]:
    """Return the verdict on each scenario of a run, in the order of its tables.

    Args:
        run: the run.
        rankings: the ranked rows of each scenario by label; None to rank them here.
    """
    rows = rankings or rankings_of(run)
    return tuple(
        _verdict(label, records, rows[label], run.declaration)
        for label, records in run.by_label().items()
    )


class RunReport(Frozen):
    """A run as JSON: its verdicts, and the records behind them."""

    run_id: str
    directory: Path
    finished: bool
    """Whether every planned cell has a record."""
    verdicts: tuple[ScenarioVerdict, ...]
    records: tuple[Record, ...]

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the report of a run."""
        return cls(
            run_id=run.manifest.run_id,
            directory=run.directory,
            finished=not run.missing,
            verdicts=verdicts_of(run),
            records=run.records,
        )


def told_of(verdicts: Sequence[ScenarioVerdict]) -> list[ScenarioVerdict]:
    """Return the verdicts that tell more than a table with a single row does."""
    return [
        one for one in verdicts if one.decided is not None or not one.best or len(one.sentences) > 1
    ]


def decided_in(verdicts: Sequence[ScenarioVerdict]) -> str | None:
    """Return how many scenarios are decided, such as ``2 of 3 scenarios decided``.

    Returns:
        None where no scenario has adapters to compare.
    """
    compared = [one for one in verdicts if one.decided is not None]
    if not compared:
        return None
    decided = sum(one.decided is True for one in compared)
    return f"{decided} of {count_of(len(compared), 'scenario')} decided"


def question_of(run: Run) -> str:
    """Return the question that a run answers: ``Which loader is fastest on CV-1 and TAB-1?``."""
    declaration = run.declaration
    scenarios = list(dict.fromkeys(cell.scenario for cell in run.manifest.cells.values()))
    best = declaration.primary_metric.words.best
    return f"Which {noun_of(declaration)} is {best} on {_listed(scenarios, 'and')}?"


def repeating_command(run: Run) -> str:
    """Return the command that measures a run's plan again."""
    return shlex.join(["skymark", "run", "--plan", _path_of(run)])


def comparing_command(run: Run) -> str | None:
    """Return the command that compares a run with its partner; None for a run without one."""
    if run.manifest.duet is None:
        return None
    candidate = _path_of(run).removesuffix("-baseline")
    return shlex.join(["skymark", "compare", f"{candidate}-baseline", candidate])


def next_command(run: Run, verdict: ScenarioVerdict, rows: Sequence[RankedRow]) -> str | None:
    """Return the command that decides a scenario, or tunes its best adapter; None for none."""
    metric = run.declaration.primary_metric
    best = [row.record for row in rows if row.leads]
    disturbed = not rows and any(
        one.disturbed and metric.name in one.metrics for one in run.by_label()[verdict.label]
    )
    is_open = disturbed or (verdict.decided is False and metric.scale != "exact")
    if not is_open and not (verdict.decided and _can_be_tuned(run)):
        return None
    if not best or any(one.data is not None for one in best):
        return repeating_command(run) if is_open else None
    cell = best[0].cell
    words = ["skymark", "run" if is_open else "tune", "--profile", run.manifest.profile]
    words += ["--scenarios", f"{cell.scenario}:{cell.variant}"]
    axes = sorted((k, v) for k, v in cell.axes.items() if k not in cell.settings)
    words += [word for k, v in axes for word in ("--axis", f"{k}={v}")]
    words += ["--adapters", *(one.cell.adapter for one in best)]
    if not is_open:
        return shlex.join(words)
    plan = run.manifest.plan
    own = [name for name, source in plan.settings_from.items() if source != "profile"]
    values = {name: plan.settings[name] for name in own} | {
        name: cell.settings[name] for name in (*own, *cell.axes) if name in cell.settings
    }
    words += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    if any(len(one.rounds) < SECOND for one in best):
        return shlex.join([*words, "--rounds", "3"])
    if verdict.more_s is None:
        return "skymark doctor"
    whole_s = verdict.more_s + sum(one.measured_s for one in best)
    return shlex.join([*words, "--time", f"{math.ceil(whole_s / MINUTE_S)}m", "--goal", "best"])


def _can_be_tuned(run: Run) -> bool:
    try:
        return suite_named(run.declaration.suite).tuning is not None
    except UsageError:
        return False


def _path_of(run: Run) -> str:
    """Return the path of a run from here, or its name where it lies elsewhere."""
    directory = run.directory.resolve()
    here = Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory.name)


def _verdict(
    label: str, records: Sequence[Record], rows: Sequence[RankedRow], declaration: Declaration
) -> ScenarioVerdict:
    names = _names(records, declaration)
    refused = (*_refused(records, names), *_disturbed(records))
    if not rows:
        said = _nothing_ranked(label, records, declaration)
        disturbed = [record for record in records if record.disturbed]
        cheapest, uses = _cheapest(disturbed, names, declaration)
        costs = () if uses is None else (f"{uses}.",)
        return ScenarioVerdict(
            label=label,
            decided=None,
            best=(),
            cheapest=cheapest,
            sentences=(said, *costs, *refused),
        )
    refused = (*_limit(rows[0], names, declaration), *refused)
    best = [row for row in rows if row.leads]
    slugs = tuple(row.record.cell.adapter for row in best)
    if len(rows) == 1:
        alone = f"{_name(rows[0], names)} alone was measured"
        said = f"{label}: {alone}, {_figure(rows[0], declaration)}."
        return ScenarioVerdict(label=label, decided=None, best=slugs, sentences=(said, *refused))
    if len(best) == 1:
        ratio, said = _decided(label, rows, names, declaration)
        second = [_name(row, names) for row in rows[1:] if row.place.first == SECOND]
        ties = [f"{_listed(second, 'and')}: no difference shown."] if len(second) > 1 else []
        return ScenarioVerdict(
            label=label, decided=True, best=slugs, ratio=ratio, sentences=(said, *ties, *refused)
        )
    cheapest, uses = _cheapest([row.record for row in best], names, declaration)
    heading = declaration.primary_metric.heading
    costs = () if uses is None else (f"No difference in {heading} is shown; {uses}.",)
    listed = _listed([_name(row, names) for row in best], "or")
    said = f"{label} is not decided: {listed}."
    more_s = _seconds_to_decide(best, declaration)
    return ScenarioVerdict(
        label=label,
        decided=False,
        best=slugs,
        cheapest=cheapest,
        more_s=more_s,
        sentences=(said, *costs, _what_would_decide(best, more_s, declaration), *refused),
    )


def _decided(
    label: str, rows: Sequence[RankedRow], names: dict[str, str], declaration: Declaration
) -> tuple[Figure | None, str]:
    """Return the ratio of the best to the next, and the sentence that tells it."""
    metric = declaration.primary_metric
    first, second = rows[0], rows[1]
    winner, next_one = _name(first, names), _name(second, names)
    found = difference(values_of(first.record, metric), values_of(second.record, metric), metric)
    if metric.scale == "exact" or found.ratio is None or found.ratio.value == 0:
        told = f"{_figure(first, declaration)}; {next_one} has {_figure(second, declaration)}"
        return None, f"{label}: {winner} is {metric.words.best} with {told}."
    ratio = found.ratio if metric.better == "higher" else _inverse(found.ratio)
    times = f"{significant(ratio.value, 2)} × {next_one}"
    if ratio.low is not None and ratio.high is not None:
        ends = (ratio.low, ratio.high)
        short = [significant(one, 2) for one in ends]
        digits = 3 if short[0] in {short[1], significant(1.0, 2)} else 2
        low, high = (significant(one, digits) for one in ends)
        times = f"{significant(ratio.value, digits)} × {next_one} ({low} to {high})"
    return ratio, f"{label}: {winner} is {metric.words.best}, {times}."


def _cheapest(
    records: Sequence[Record], names: dict[str, str], declaration: Declaration
) -> tuple[str | None, str | None]:
    """Return the adapter shown to be cheaper than each other, and the words that tell it.

    Both are None where the rounds show none. The verdicts are corrected for their number.
    """
    metric = declaration.cost_metric
    costs = [] if metric is None else [one for one in records if metric.name in one.metrics]
    if metric is None or len(costs) < max(2, len(records)):
        return None, None
    costs.sort(key=lambda record: record.metrics[metric.name].value)
    least = values_of(costs[0], metric)
    others = [difference(least, values_of(other, metric), metric) for other in costs[1:]]
    ratio = others[0].ratio
    if ratio is None or any(one.verdict is not Verdict.BETTER for one in corrected(others)):
        return None, None
    than = names[costs[1].cell.id]
    less = percent(1 - ratio.value)
    return (
        costs[0].cell.adapter,
        f"{names[costs[0].cell.id]} uses {less} {metric.words.better} than {than}",
    )


def _limit(row: RankedRow, names: dict[str, str], declaration: Declaration) -> Iterator[str]:
    """Yield a sentence that says how near a row comes to what the machine itself can do."""
    limits = row.record.limits
    lowest, reached = None if limits is None else limits.lowest, share_of_limit(row)
    if lowest is None or reached is None:
        return
    metric = declaration.primary_metric
    limit = f"{lowest.name}, {writer(metric)(lowest.rate)} {metric.heading}"
    yield f"{_name(row, names)} reaches {share(reached)} of this machine's limit: {limit}."


def _seconds_to_decide(best: Sequence[RankedRow], declaration: Declaration) -> float | None:
    """Return the seconds of rounds that are likely to show the best, or a tie within 5 %."""
    metric = declaration.primary_metric
    values = [values_of(row.record, metric) for row in best]
    rounds = [
        rounds_to_verdict(contrast(values[0], other, metric, PRACTICAL)) for other in values[1:]
    ]
    each_s = sum(row.record.measured_s / max(1, len(row.record.rounds)) for row in best)
    known = [one for one in rounds if one is not None]
    return max(known) * each_s if len(known) == len(rounds) else None


def _what_would_decide(
    best: Sequence[RankedRow], more_s: float | None, declaration: Declaration
) -> str:
    widest = max(best, key=lambda row: row.figure.relative_half_width or 0.0).figure
    if declaration.primary_metric.scale == "exact":
        return "Their figures are equal."
    if widest.relative_half_width is None:
        return "One round each says nothing of the error: run more rounds."
    if widest.relative_half_width > 1:
        return (
            "Their 95 % intervals are wider than the figures themselves: use a quiet machine, or "
            "more rounds."
        )
    if more_s is None:
        return (
            f"Their 95 % intervals are up to {margin(widest)}: more rounds alone will not decide "
            "it; use a quiet machine."
        )
    if more_s > MOST_S:
        return (
            f"Their 95 % intervals are up to {margin(widest)}: more than an hour of rounds would "
            "decide it; use a quiet machine."
        )
    minutes = max(1, round(more_s / MINUTE_S))
    unit = "minute" if minutes == 1 else "minutes"
    return (
        f"Their 95 % intervals are up to {margin(widest)}; about {minutes} more {unit} of rounds "
        "would decide it, fewer on a quiet machine."
    )


def _nothing_ranked(label: str, records: Sequence[Record], declaration: Declaration) -> str:
    stand_in = declaration.stand_in_metric
    others = not_ranked(records, declaration)
    disturbed = [record for record in others if record.disturbed]
    if disturbed and len(disturbed) == len(others):
        return f"{label} has no ranking: {why_not_ranked(others, declaration)}."
    if stand_in is None or not others:
        return f"{label}: nothing was measured."
    return (
        f"{label} has no ranking: only {stand_in.heading} was measured "
        f"({why_not_ranked(others, declaration)})."
    )


def _refused(records: Sequence[Record], names: dict[str, str]) -> Iterator[str]:
    """Yield a sentence that names the adapters without a result, by status."""
    bad = [record for record in records if record.status.is_bad]
    if bad:
        told = [f"{names[record.cell.id]} ({record.status.value})" for record in bad]
        yield f"Without a result: {_listed(told, 'and')}."


def _disturbed(records: Sequence[Record]) -> Iterator[str]:
    """Yield a sentence on the rounds that others disturbed."""
    if (found := disturbance([one for record in records for one in record.rounds])) is not None:
        yield f"{found.message[:1].upper()}{found.message[1:]}."


def _names(records: Sequence[Record], declaration: Declaration) -> dict[str, str]:
    """Return a name by cell id: the adapter's title, or its own name where several share one."""
    own = {one.cell.id: declaration.adapter_name(one.cell.adapter) for one in records}
    times = Counter(own.values())
    return {
        one.cell.id: own[one.cell.id] if times[own[one.cell.id]] == 1 else one.cell.adapter
        for one in records
    }


def _name(row: RankedRow, names: dict[str, str]) -> str:
    return names[row.record.cell.id]


def _figure(row: RankedRow, declaration: Declaration) -> str:
    metric = declaration.primary_metric
    told = f"{writer(metric)(row.figure.value)} {metric.heading}"
    if metric.scale == "exact" or row.figure.relative_half_width is None:
        return told
    return f"{told} ({margin(row.figure)})"


def _inverse(figure: Figure) -> Figure:
    low, high = figure.low, figure.high
    return Figure(
        value=1 / figure.value,
        low=1 / high if high else None,
        high=1 / low if low else None,
    )


def _listed(names: Sequence[str], last: str) -> str:
    """Return names in a sentence: ``A, B or C``; more than six are counted."""
    shown = list(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown[-1:] = [f"{len(names) - MOST_NAMES + 1} others"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"
