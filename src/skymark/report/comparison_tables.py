"""Tables of a comparison of two runs: in a terminal, and as a comment on GitHub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from skymark.model.sizes import count_of
from skymark.report.compare import CellComparison, RunComparison
from skymark.report.markdown import markdown, markdown_table
from skymark.report.text import MISSING, plain, significant, writer
from skymark.statistics.difference import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from skymark.model.metric import Metric
    from skymark.report.compare import MetricComparison
    from skymark.statistics.difference import Difference


LIMITLESS = "?"
"""Stands for rounds of which no number is known to be enough."""

STYLES = {
    Verdict.BETTER: "green",
    Verdict.WORSE: "bold red",
    Verdict.NO_DIFFERENCE: "",
    Verdict.INCONCLUSIVE: "yellow",
}


def print_comparison(comparison: RunComparison, console: Console) -> None:
    """Print two runs side by side, what else differs between them, and a summary line."""
    console.print(Text(f"{plain(comparison.before)} → {plain(comparison.after)}", style="bold"))
    for remark in comparison.differs:
        console.print(Text(f"differs: {plain(remark)}", style="yellow"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    several = len(comparison.metrics) > 1
    for heading in ("scenario", comparison.noun, *(["metric"] if several else [])):
        table.add_column(heading, overflow="fold")
    for heading in ("before", "after", "ratio", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    lacking = any(is_open(one) for cell in comparison.cells for one in cell.metrics)
    if lacking:
        table.add_column("rounds more", justify="right", no_wrap=True)
    for cell in comparison.cells:
        names = (Text(plain(cell.label)), Text(plain(cell.adapter)))
        for metric, entries in entries_of(cell, comparison.metrics):
            shown = entries if lacking else entries[:-1]
            table.add_row(*names, *([Text(plain(metric))] if several else []), *shown)
    console.print(table)
    for title, ids in (("before", comparison.only_before), ("after", comparison.only_after)):
        if ids:
            console.print(Text(f"only {title}: {plain(', '.join(ids))}", style="dim"))
    if comparison.unjudged:
        named = (f"{id} ({reason})" for id, reason in comparison.unjudged.items())
        console.print(Text(f"cannot be judged: {plain(', '.join(named))}", style="bold red"))
    margin = comparison.margin
    console.print(Text(f"{counts(comparison) or 'nothing was measured in both'}  ({margin})"))
    if comparison.in_pairs:
        console.print(Text(_pairs(comparison), style="dim"))
    if lacking:
        console.print(Text(_more_rounds(comparison), style="dim"))


def _pairs(comparison: RunComparison) -> str:
    """Return the number of pairs that verdicts rest on."""
    counts = sorted({cell.pairs for cell in comparison.cells if cell.pairs})
    many = " to ".join(map(str, dict.fromkeys(counts[:1] + counts[-1:]))) or "no"
    return f"measured in turn: {many} pairs of rounds a cell, each of which gives one ratio"


def _more_rounds(comparison: RunComparison) -> str:
    """Return the numbers of rounds that settle half, and all, of the open verdicts."""
    found = sorted(
        one.more_rounds
        for cell in comparison.cells
        for one in cell.metrics
        if one.more_rounds is not None
    )
    if not found:
        return (
            f"rounds more: {LIMITLESS}, a change at the margin itself, a single round, or what the "
            "libraries did alike"
        )
    least = found[(len(found) - 1) // 2]
    return (
        "rounds more: what each side needs for a verdict with 80 % probability, if all stays as "
        f"seen; {least} settle half, {found[-1]} all that can be settled"
    )


def is_open(one: MetricComparison) -> bool:
    """Whether there is no verdict yet, so that more rounds may help."""
    return one.difference is not None and one.difference.verdict is Verdict.INCONCLUSIVE


def counts(comparison: RunComparison) -> str:
    """Return the number of verdicts, in the words of the metrics."""
    words = {one.name: words_of(one) for one in comparison.metrics}
    ordered = [words[one.name][verdict] for verdict in Verdict for one in comparison.metrics]
    found = Counter(
        words[one.metric][one.difference.verdict]
        for cell in comparison.cells
        for one in cell.metrics
        if one.difference is not None
    )
    return " · ".join(f"{found[word]} {word}" for word in dict.fromkeys(ordered) if found[word])


def words_of(metric: Metric) -> dict[Verdict, str]:
    """Return the word for each verdict on a metric, such as ``slower``."""
    own = {Verdict.BETTER: metric.words.better, Verdict.WORSE: metric.words.worse}
    return {verdict: plain(own.get(verdict, verdict.value)) for verdict in Verdict}


def entries_of(cell: CellComparison, metrics: Sequence[Metric]) -> Iterator[tuple[str, list[Text]]]:
    """Yield a heading and entries per metric that a side has, else one row of dashes.

    The entries: before, after, ratio, interval, verdict, rounds more.
    """
    by_name = {one.name: one for one in metrics}
    if not cell.metrics:
        yield MISSING, [*(Text(MISSING) for _ in range(2)), *_change(cell), Text()]
    for one in cell.metrics:
        metric = by_name[one.metric]
        write = writer(metric)
        values = [Text(MISSING if x is None else write(x)) for x in (one.before, one.after)]
        change = _change(cell) if one.difference is None else _verdict(one.difference, metric)
        more = LIMITLESS if one.more_rounds is None else f"+{one.more_rounds}"
        yield metric.heading, [*values, *change, Text(more if is_open(one) else "")]


def _change(cell: CellComparison) -> list[Text]:
    """Return what became of a cell that cannot be compared: no ratio, no interval, no verdict."""
    before, after = cell.status_before.value, cell.status_after.value
    change = "only on one side" if before == after == "ok" else f"{before} → {after}"
    return [Text(), Text(), Text(change, "bold red" if cell.regressed else "")]


def _verdict(difference: Difference, metric: Metric) -> list[Text]:
    ratio, verdict = difference.ratio, difference.verdict
    interval = ""
    if ratio is not None and ratio.low is not None and ratio.high is not None:
        interval = f"{significant(ratio.low)} to {significant(ratio.high)}"
    return [
        Text(MISSING if ratio is None else significant(ratio.value)),
        Text(interval),
        Text(words_of(metric)[verdict], STYLES[verdict]),
    ]


LONGEST = 65_536
"""Characters of a comment on GitHub; the bytes of UTF-8 are counted, which are never fewer."""
LONGEST_FIELD = 100
MOST_REMARKS = 10
ENDS = 1_000
"""Characters reserved for the end of a table and the text after it."""


def comparison_markdown(comparison: RunComparison) -> str:
    """Return a comparison as Markdown of bounded length; what changed comes first.

    Args:
        comparison: of two runs, whose text is anybody's.
    """
    changed = [cell for cell in comparison.cells if _is_changed(cell)]
    same = [cell for cell in comparison.cells if not _is_changed(cell)]
    text = "".join(f"{line}\n" for line in _head(comparison, len(changed)))
    if changed:
        text += f"\n{_table(changed, comparison, LONGEST - len(text.encode()))}"
    if same:
        room = LONGEST - len(text.encode())
        title = f"{count_of(len(same), 'cell')} without a shown change"
        text += _folded(title, _table(same, comparison, room), room)
    unjudged = [f"{id}: {reason}" for id, reason in comparison.unjudged.items()]
    lists = (
        ("of the baseline that cannot be judged", unjudged),
        ("only before", comparison.only_before),
        ("only after", comparison.only_after),
    )
    for title, names in lists:
        if names:
            room = LONGEST - len(text.encode())
            listed = _listed([f"- {_field(name)}" for name in names], room)
            text += _folded(f"{count_of(len(names), 'cell')} {title}", listed, room)
    return text


def _head(comparison: RunComparison, changed: int) -> Iterator[str]:
    yield f"### {_verdict_line(comparison, changed)}"
    yield ""
    found = counts(comparison) or "nothing was measured in both"
    yield (
        f"{_field(comparison.before)} → {_field(comparison.after)}: {markdown(found)} "
        f"({comparison.margin})"
    )
    remarks = comparison.differs[:MOST_REMARKS]
    if remarks:
        yield ""
    yield from (f"- differs: {_field(remark)}" for remark in remarks)
    if more := len(comparison.differs) - len(remarks):
        yield f"- and {more} more differences"


def _verdict_line(comparison: RunComparison, changed: int) -> str:
    """Return the verdict on all cells; a tick only where each that is compared has its own."""
    total, compared = len(comparison.cells), comparison.compared
    lost = len(comparison.unjudged)
    worse = sum(cell.regressed or _is_worse(cell) for cell in comparison.cells)
    undecided = sum(any(is_open(one) for one in cell.metrics) for cell in comparison.cells)
    if worse or lost:
        parts = [f"{worse} of {count_of(total, 'cell')} got worse"] if worse else []
        parts += [f"{count_of(lost, 'cell')} of the baseline cannot be judged"] if lost else []
        return f"❌ {', '.join(parts)}"
    if not compared:
        return "❔ No cell was measured in both"
    if undecided:
        also = f", {changed} changed" if changed else ""
        return f"❔ {undecided} of {count_of(compared, 'cell')} are inconclusive{also}"
    if changed:
        return f"✅ None of {count_of(compared, 'cell')} got worse, {changed} changed"
    return f"✅ No change is shown in {count_of(compared, 'cell')}"


def _is_worse(cell: CellComparison) -> bool:
    verdicts = (one.difference.verdict for one in cell.metrics if one.difference is not None)
    return Verdict.WORSE in verdicts


def _is_changed(cell: CellComparison) -> bool:
    """Whether a verdict or a status tells the two runs apart."""
    real = (one.difference.is_real for one in cell.metrics if one.difference is not None)
    return cell.regressed or cell.status_before is not cell.status_after or any(real)


def _table(cells: Sequence[CellComparison], comparison: RunComparison, room: int) -> str:
    several = len(comparison.metrics) > 1
    lacking = any(is_open(one) for cell in cells for one in cell.metrics)
    names = ("scenario", _field(comparison.noun), *(["metric"] if several else []))
    values = ("before", "after", "ratio", "95 % interval", "verdict")
    rows = []
    for cell in cells:
        for heading, entries in entries_of(cell, comparison.metrics):
            words = (cell.label, cell.adapter, *([heading] if several else []))
            shown = entries if lacking else entries[:-1]
            rows.append([_field(word) for word in (*words, *(one.plain for one in shown))])
    head = (*names, *values, *(["rounds more"] if lacking else []))
    text = _listed(list(markdown_table(head, rows, len(names))), room)
    return text + (f"\n{LIMITLESS}: no number is known to be enough.\n" if lacking else "")


def _listed(lines: Sequence[str], room: int) -> str:
    """Return the lines that fit, and the number of the rest."""
    text, left = "", room - ENDS
    for number, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            return f"{text}\n… and {len(lines) - number} more; `skymark compare` shows them.\n"
        text += f"{line}\n"
    return text


def _folded(title: str, text: str, room: int) -> str:
    """Return text that is shown when one asks for it; nothing where there is no room."""
    folded = f"\n<details><summary>{title}</summary>\n\n{text}\n</details>\n"
    return folded if len(folded.encode()) <= room else ""


def _field(text: str) -> str:
    """Return text of bounded length, without power."""
    return markdown(text if len(text) <= LONGEST_FIELD else f"{text[: LONGEST_FIELD - 1]}…")
