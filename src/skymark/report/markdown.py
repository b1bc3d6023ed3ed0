"""Text that others wrote, in Markdown for GitHub: it is shown, and neither links nor calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skymark.report.text import plain

POWERFUL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
SPACE = "&#8203;"
"""A space of no width (U+200B), as an entity."""
AT = f"@{SPACE}"
"""An at sign that calls nobody: a space of no width follows it."""
ADDRESSED = re.compile(
    r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=mailto:)(?=.)|(?<=xmpp:)(?=.)|(?<=#)(?=\d)|(?<=gh-)(?=\d)|(?<=@)",
    re.IGNORECASE,
)
"""Places within what GitHub makes a link or a reference of: a space of no width undoes it."""


def markdown(text: str) -> str:
    """Return text for a line or a table's cell, with what Markdown and HTML give power as entities.

    CommonMark takes no entity for a sign that gives a document structure.
    """
    line = " ".join(plain(text).split())
    parts = (
        POWERFUL.sub(lambda found: f"&#{ord(found[0])};", part) for part in ADDRESSED.split(line)
    )
    return SPACE.join(parts)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1
) -> Iterable[str]:
    """Yield the lines of a table whose cells are Markdown already.

    Args:
        head: headings.
        rows: as many cells each.
        names: so many first columns are aligned to the left, all others to the right.
    """
    yield _row(head)
    yield _row(["---"] * names + ["---:"] * (len(head) - names))
    yield from map(_row, rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code_span(text: str) -> str:
    """Return text as code within a line, between more backticks than it has in a row."""
    line = " ".join(plain(text).split())
    fence = "`" * (longest_run(line) + 1)
    return f"{fence}{line}{fence}" if fence == "`" else f"{fence} {line} {fence}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
