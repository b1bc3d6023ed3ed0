"""Pages of declared tables: kinds of causes and warnings."""

from __future__ import annotations

from skymark.model.causes import Explanation, Given, explanations
from tests.reference_pages.markdown import document, table

CAUSES = """
`skymark show KIND` prints an entry of this page. In a record, `status` says how a cell ended, and
`cause.kind` says why. A cell is one scenario and one library at one size. `warnings` lists reasons
to distrust a figure; they do not change the status. The `message` beside a kind names the values
of your run.
"""
GROUPS: dict[Given, tuple[str, str]] = {
    "invalid": (
        "Status `invalid`",
        """
The loader or model did other work than the scenario asks for. The record has no figures.
The remedies are for the author of the adapter. [Verification](../verification.md) tells how skymark
finds such work.
""",
    ),
    "unsupported": (
        "Status `unsupported`",
        "The library cannot do this work. `skymark plan` shows these cells beforehand.",
    ),
    "skipped": ("Status `skipped`", "The library is not installed."),
    "timeout": ("Status `timeout`", ""),
    "failed": (
        "Status `failed`",
        """
An exception of the library or the adapter gives the name of its class as the kind, such as
`KeyError`; the log of the cell has the traceback.
""",
    ),
    "warning": ("Warnings", "Tables mark these cells with `!`."),
    "doctor": (
        "Findings of `skymark doctor`",
        "`skymark doctor` looks for these before you measure.",
    ),
}


def causes_page() -> str:
    """Return the page of causes, warnings and findings."""
    parts = [CAUSES]
    for given, (heading, introduction) in GROUPS.items():
        rows = [_row(one) for one in explanations().values() if given in one.given]
        parts += [f"## {heading}", introduction, table(("kind", "meaning", "remedy"), rows)]
    return document("Look up a cause or a warning", *parts)


def _row(one: Explanation) -> tuple[str, str, str]:
    more = ""
    if one.page is not None:
        name = one.page.rpartition("/")[2].partition(".")[0]
        more = f" More: [{name}](../{one.page})."
    return f"`{one.kind}`", one.meaning, one.action + more
