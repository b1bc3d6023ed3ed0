"""Text that others wrote, in Markdown for GitHub: it is shown, and neither links nor calls."""

from __future__ import annotations

import re

from skymark.report.text import plain

POWERFUL = re.compile(r"[\\`*\[\]<>|~&]")
AT = "@\u200b"
"""An at sign that calls nobody: a space of no width follows it."""


def markdown(text: str) -> str:
    """Return text for a line or a table's cell, with what Markdown and HTML give power as entities.

    CommonMark takes no entity for a sign that gives a document structure.
    """
    line = " ".join(plain(text).split())
    return POWERFUL.sub(lambda found: f"&#{ord(found[0])};", line).replace("@", AT)


def code_span(text: str) -> str:
    """Return text as code within a line, between more backticks than it has in a row."""
    line = " ".join(plain(text).split())
    fence = "`" * (longest_run(line) + 1)
    return f"{fence}{line}{fence}" if fence == "`" else f"{fence} {line} {fence}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
