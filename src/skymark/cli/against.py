"""`--against` of `skymark run` and `plan`: the revision, and the comparison with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import skymark
from skymark.cli.caller import note, print_json
from skymark.cli.help import RARE
from skymark.cli.parameters import DIFFERENCE, PAIRS
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

if TYPE_CHECKING:
    from skymark.execute.revision import Revision
    from skymark.report.results import Run

Against = Annotated[
    str | None,
    Parameter(
        group=PAIRS,
        metavar="REVISION",
        help="Also measure this git revision of skymark, such as HEAD~1, in alternate slices of "
        "50 ms, so that changes in machine speed cancel out. Its run is OUTPUT-baseline.",
    ),
]
Gate = Annotated[
    bool,
    Parameter(
        group=PAIRS,
        help="With --against: exit with status 3 if a cell got slower.",
    ),
]
Practical = Annotated[
    float | None,
    DIFFERENCE,
    Parameter(
        group=(PAIRS, RARE),
        help="With --against: smallest relative difference that counts. [default: 0.02]",
    ),
]


def revision_asked_for(
    against: str | None,
    plan: Plan,
    elsewhere: Mapping[str, object],
    *,
    gate: bool = False,
    practical: float | None = None,
) -> Revision | None:
    """Return the revision to compare a plan with; None without ``--against``.

    Args:
        against: value of ``--against``.
        plan: the work of both revisions.
        elsewhere: values by name of the options that leave cells to other processes.
        gate: whether a slower cell fails the run.
        practical: smallest relative difference that counts; None for the default.

    Raises:
        UsageError: no such revision, it is too old, or the plan has no pairs of rounds.
    """
    if against is None:
        if gate or practical is not None:
            raise UsageError(
                "--gate and --practical need --against REVISION; for two finished runs: "
                "skymark compare A B --gate"
            )
        return None
    from skymark.execute.pairs import require_pairs
    from skymark.execute.revision import find_revision

    if wrong := [f"--{name}" for name, value in elsewhere.items() if value]:
        raise UsageError(
            "--against measures all cells of both revisions on this machine; leave out "
            f"{' and '.join(wrong)}"
        )
    require_pairs(plan)
    revision = find_revision(against)
    if revision.dirty:
        note(
            f"the checkout has uncommitted changes: skymark compares {revision.short} with these "
            "files, not with HEAD"
        )
    return revision


def show_pair(before: Run, after: Run, practical: float | None, *, json: bool, gate: bool) -> int:
    """Print the comparison of two revisions, write their pages, and return the exit status.

    Args:
        before: the baseline.
        after: the candidate.
        practical: smallest relative difference that counts; None for the usual one.
        json: print the comparison as JSON.
        gate: raise an error if a cell is slower.

    Raises:
        GateError: a cell is slower, and `gate` is true.
    """
    from skymark.cli.results import note_page
    from skymark.cli.stores import say_what_was_stored
    from skymark.cli.tables import stdout_console
    from skymark.report.compare import gate as check
    from skymark.report.comparison_tables import print_comparison

    comparison = skymark.compare(before, after, practical=practical)
    if json:
        print_json(comparison.to_json())
    else:
        print_comparison(comparison, stdout_console())
    are_written = True
    for side in (before, after):
        are_written &= note_page(side)
        say_what_was_stored(side.stored, side.directory)
    if gate:
        check(comparison, counts_lost=False)  # a lost cell is status 1
    return 0 if after.all_well and are_written else 1
