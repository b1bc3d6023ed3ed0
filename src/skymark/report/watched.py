"""Page of a watched training loop: the verdict, waits over time, stages, changes to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skymark.report.html import page_environment
from skymark.watching.verdict import REASONS, STAGE_WORDS, advice_of, lines_of

if TYPE_CHECKING:
    from skymark.watching.verdict import Verdict


def watched_page(verdict: Verdict) -> str:
    """Return the page as HTML that needs no other file.

    Raises:
        SkymarkError: jinja2 is not installed.
    """
    facts = verdict.facts
    longest_s = max((wait for _, wait in facts.waits), default=0.0) or 1.0
    last_s = max((asked for asked, _ in facts.waits), default=0.0) or 1.0
    causes = [
        {
            "share": cause.share,
            "stage": STAGE_WORDS[cause.stage],
            "reason": REASONS.get(cause.cause, cause.cause),
            "advice": advice_of(cause),
            "lines": lines_of(cause, facts.library),
        }
        for cause in verdict.diagnosis.causes
        if cause.cause != "none"
    ]
    marks = [
        (100 * asked / last_s, 100 * (1 - wait / longest_s), asked, wait)
        for asked, wait in facts.waits
    ]
    return (
        page_environment()
        .get_template("watched.html.j2")
        .render(verdict=verdict, facts=facts, causes=causes, marks=marks, longest_s=longest_s)
    )
