"""`--against` of `skymark run` and `plan`: the revision it names, and what a comparison shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

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
        help="Also measure this git revision of skymark, such as HEAD~1, in alternate rounds, so "
        "that changes in machine speed cancel out. Its run is OUTPUT-baseline.",
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
    """Return the revision that a plan is to be compared with; None where none is named.

    Args:
        against: its name, as it was given.
        plan: what is measured on both sides.
        elsewhere: values of the options, by name, that leave cells to other processes.
        gate: whether a slower cell is to fail the run.
        practical: smallest relative difference that counts, if one was given.

    Raises:
        UsageError: there is none of that name, it is too old, or the plan has no pairs of rounds.
    """
    if against is None:
        if gate or practical is not None:
            raise UsageError(
                "--gate and --practical need --against REVISION, which the cells are compared "
                "with; two runs that there are: skymark compare A B --gate"
            )
        return None
    from skymark.execute.pairs import require_pairs
    from skymark.execute.revision import find_revision

    if wrong := [f"--{name}" for name, value in elsewhere.items() if value]:
        raise UsageError(
            f"--against measures all cells of both sides on this machine; leave out "
            f"{' and '.join(wrong)}"
        )
    require_pairs(plan)
    revision = find_revision(against)
    if revision.dirty:
        note(
            f"the checkout has changes that are in no commit: {revision.short} is compared with "
            "the files as they are, not with HEAD"
        )
    return revision


def show_pair(before: Run, after: Run, practical: float | None, *, json: bool, gate: bool) -> int:
    """Print the comparison of two sides, write their pages, and return the exit status.

    Args:
        before: the baseline.
        after: the candidate.
        practical: smallest relative difference that counts; None for the usual one.
        json: print the comparison as JSON.
        gate: raise an error if a cell is slower.

    Raises:
        GateError: a cell is shown to be slower, and a gate is wanted.
    """
    from skymark.cli.results import note_page
    from skymark.cli.stores import say_what_was_stored
    from skymark.cli.tables import stdout_console
    from skymark.report.compare import compare_runs
    from skymark.report.compare import gate as check
    from skymark.report.comparison_tables import print_comparison

    comparison = compare_runs(before, after, practical=practical)
    if json:
        print_json(comparison.model_dump_json(indent=1))
    else:
        print_comparison(comparison, stdout_console())
    are_written = True
    for side in (before, after):
        are_written &= note_page(side)
        say_what_was_stored(side.stored, side.directory)
    if gate:
        check(comparison, counts_lost=False)  # a lost cell is status 1
    return 0 if after.all_well and are_written else 1
