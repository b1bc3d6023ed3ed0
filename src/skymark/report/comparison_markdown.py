"""A comparison of two runs as a comment on GitHub: verdict, changes, and the rest folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skymark.report.compare import CellComparison, Comparison
from skymark.report.comparison_table import LIMITLESS, counts, entries_of, is_open
from skymark.report.markdown import markdown, markdown_table
from skymark.statistics.difference import Verdict

LONGEST = 65_536
"""Characters of a comment on GitHub."""
LONGEST_FIELD = 100
MOST_REMARKS = 10
ENDS = 1_000
"""Characters that are kept free for the end of a table and for what follows it."""


def comparison_markdown(comparison: Comparison, longest: int = LONGEST) -> str:
    """Return a comparison as Markdown of bounded length; what changed comes first.

    Args:
        comparison: of two runs, whose text is anybody's.
        longest: its length in bytes of UTF-8, and so in characters, too; 10,000 or more.
    """
    changed = [cell for cell in comparison.cells if _is_changed(cell)]
    same = [cell for cell in comparison.cells if not _is_changed(cell)]
    text = "".join(f"{line}\n" for line in _head(comparison, len(changed)))
    if changed:
        text += f"\n{_table(changed, comparison, longest - len(text.encode()))}"
    if same:
        room = longest - len(text.encode())
        title = f"{_cells(len(same))} without a shown change"
        text += _folded(title, _table(same, comparison, room), room)
    unjudged = [f"{id}: {reason}" for id, reason in comparison.unjudged.items()]
    lists = (
        ("of the baseline that cannot be judged", unjudged),
        ("only before", comparison.only_before),
        ("only after", comparison.only_after),
    )
    for title, names in lists:
        if names:
            room = longest - len(text.encode())
            listed = _listed([f"- {_field(name)}" for name in names], room)
            text += _folded(f"{_cells(len(names))} {title}", listed, room)
    return text


def _cells(number: int) -> str:
    return "1 cell" if number == 1 else f"{number} cells"


def _head(comparison: Comparison, changed: int) -> Iterator[str]:
    yield f"### {_verdict(comparison, changed)}"
    yield ""
    found = counts(comparison) or "nothing was measured in both"
    yield (
        f"{_field(comparison.before)} → {_field(comparison.after)}: {markdown(found)} "
        f"(a difference counts from {comparison.practical:.0%} on)"
    )
    remarks = comparison.differs[:MOST_REMARKS]
    if remarks:
        yield ""
    yield from (f"- differs: {_field(remark)}" for remark in remarks)
    if more := len(comparison.differs) - len(remarks):
        yield f"- and {more} more differences"


def _verdict(comparison: Comparison, changed: int) -> str:
    """Return the verdict on all cells; a tick only where each that is compared has its own."""
    total, compared = len(comparison.cells), comparison.compared
    lost = len(comparison.unjudged)
    worse = sum(cell.regressed or _is_worse(cell) for cell in comparison.cells)
    undecided = sum(any(is_open(one) for one in cell.metrics) for cell in comparison.cells)
    if worse or lost:
        parts = [f"{worse} of {_cells(total)} got worse"] if worse else []
        parts += [f"{_cells(lost)} of the baseline cannot be judged"] if lost else []
        return f"❌ {', '.join(parts)}"
    if not compared:
        return "❔ No cell was measured in both"
    if undecided:
        also = f", {changed} changed" if changed else ""
        return f"❔ {undecided} of {_cells(compared)} are inconclusive{also}"
    if changed:
        return f"✅ None of {_cells(compared)} got worse, {changed} changed"
    return f"✅ No change is shown in {_cells(compared)}"


def _is_worse(cell: CellComparison) -> bool:
    verdicts = (one.difference.verdict for one in cell.metrics if one.difference is not None)
    return Verdict.WORSE in verdicts


def _is_changed(cell: CellComparison) -> bool:
    """Whether a verdict or a status tells the two runs apart."""
    real = (one.difference.is_real for one in cell.metrics if one.difference is not None)
    return cell.regressed or cell.status_before is not cell.status_after or any(real)


def _table(cells: Sequence[CellComparison], comparison: Comparison, room: int) -> str:
    several = len(comparison.metrics) > 1
    lacking = any(is_open(one) for cell in cells for one in cell.metrics)
    names = ("scenario", "adapter", *(["metric"] if several else []))
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
    """Return as many lines as there is room for, and how many are left out."""
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
