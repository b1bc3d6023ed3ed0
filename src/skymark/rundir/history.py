"""Wall time of earlier runs per cell, round and start of a process, read from their records.

Rounds of many cells run one at a time. So the time from a round's start to the next start, of any
cell, belongs to the round. It includes warm-up, verification and writing, which a record's time
does not. Rounds of a run on several machines overlap, so this time is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import fmean

from skymark.model.base import Frozen
from skymark.model.effort import Effort
from skymark.model.errors import RunDirectoryError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record, Round, Status
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import open_run, read_manifest

LONGEST_PAUSE_S = 60.0
"""Slack over a round's limit; more time means a pause, such as an interruption of the run."""


SHARED_FACTOR = 3.0
"""Ratio of a round's time to its set-up and timed part, for overlapping rounds: 26.9 s to 9.2 s in
a run of effort quick (docs/cost.md), less in longer runs."""


class PastCell(Frozen):
    """Times of one cell in one earlier run."""

    rounds: int
    round_s: float
    """Mean wall time of a round, without the start of the process."""
    timed_s: float
    """The timed part of it."""


class PastRun(Frozen):
    """Times of one earlier run."""

    profile: str
    effort: Effort
    created_at: datetime
    rounds: int
    """Largest number of rounds of a cell."""
    cells: Mapping[str, PastCell]
    """Times by cell hash, of cells that ended well."""
    start_s: Mapping[str, float]
    """Time to end one process and start the next, by its group."""


@dataclass(frozen=True)
class _TimedRound:
    record: Record
    summary: Round
    group: str
    took_s: float
    """Time until the next round began."""
    last_of_process: bool


def past_run(manifest: Manifest, records: Iterable[Record]) -> PastRun | None:
    """Return the times of a run; None if nothing was measured.

    The start of another process follows the last round of a process. That round gets the time that
    the mean ratio of earlier rounds predicts, and the start gets the rest.
    """
    rounds = list(_rounds(manifest, list(records)))
    if not rounds:
        return None
    inside = [round for round in rounds if not round.last_of_process]
    own_s = sum(round.summary.own_s for round in inside)
    ratio = sum(round.took_s for round in inside) / own_s if own_s else 1.0
    took_s: dict[str, list[float]] = defaultdict(list)
    starts_s: dict[str, list[float]] = defaultdict(list)
    for round in rounds:
        took = (
            min(round.took_s, round.summary.own_s * ratio)
            if round.last_of_process
            else round.took_s
        )
        took_s[round.record.cell_hash].append(took)
        if round.last_of_process:
            starts_s[round.group].append(round.took_s - took)
    ended_well = {
        round.record.cell_hash: round.record for round in rounds if round.record.status is Status.OK
    }
    return PastRun(
        profile=manifest.profile,
        effort=manifest.effort,
        created_at=manifest.created_at,
        rounds=max((len(record.rounds) for record in ended_well.values()), default=1),
        cells={
            digest: PastCell(
                rounds=len(record.rounds),
                round_s=fmean(took_s[digest]),
                timed_s=fmean(summary.timed_ns / 1e9 for summary in record.rounds),
            )
            for digest, record in ended_well.items()
        },
        start_s={group: fmean(values) for group, values in starts_s.items()},
    )


def _rounds(manifest: Manifest, records: list[Record]) -> Iterator[_TimedRound]:
    """Yield the rounds in order of their start, with the time of each."""
    in_order = sorted(
        ((summary.started_at, record, summary) for record in records for summary in record.rounds),
        key=lambda entry: entry[0],
    )
    end = max((record.ended_at for record in records if record.rounds), default=None)
    longest_s = manifest.effort.cell_timeout_s + LONGEST_PAUSE_S
    shared = any(
        begin + timedelta(seconds=summary.own_s) > follower[0]
        for (begin, _, summary), follower in pairwise(in_order)
    )
    groups = {planned.cell.id: planned.group for planned in manifest.plan.cells}
    served: set[str] = set()
    for (begin, record, summary), follower in zip_longest(in_order, in_order[1:]):
        then = follower[0] if follower is not None else end
        served.add(record.cell_hash)
        group = groups[record.cell.id]
        last = (
            follower is None
            or groups[follower[1].cell.id] != group
            or follower[1].cell_hash in served
        )
        if last:
            served.clear()
        least_s = summary.own_s
        if shared or then is None:
            took_s = least_s * SHARED_FACTOR
        else:
            took_s = (then - begin).total_seconds()
        yield _TimedRound(record, summary, group, max(least_s, min(took_s, longest_s)), last)


def read_history(directory: Path, plan: Plan, latest: int | None = None) -> tuple[PastRun, ...]:
    """Return the runs in a directory that have a cell of a plan; none without a directory.

    Unreadable runs are skipped, because they only improve an estimate. Rehearsed runs are skipped,
    because a simulated machine is no faster than its host. Comparisons in pairs are skipped,
    because rounds of two runs alternate.

    Args:
        directory: of runs.
        plan: the plan to estimate.
        latest: largest number of runs to read, last names first; None for all.
    """
    runs: list[PastRun] = []
    paths = runs_in(directory)[::-1]
    # Hashing ten thousand cells takes a good part of a second, mostly without a match.
    wanted = {planned.cell.hash for planned in plan.runnable} if paths else set()
    for path in paths[:latest]:
        try:
            manifest = read_manifest(path)
            if manifest.machine.limits.simulated or manifest.duet is not None:
                continue
            if wanted.isdisjoint(cell.hash for cell in manifest.cells.values()):
                continue
            past = past_run(manifest, open_run(path).records)
        except RunDirectoryError:
            continue
        if past is not None and not wanted.isdisjoint(past.cells):
            runs.append(past)
    return tuple(runs)
