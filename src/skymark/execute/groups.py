"""Groups of a plan that several processes take, one after another, until none is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from skymark.leases import Lease, Leases
from skymark.model.plan import PlannedCell
from skymark.run.directory import RunDirectory

POLL_S = 1.0
"""Between two looks at groups that others have."""


class TakenGroup(NamedTuple):
    """A group that this process has taken."""

    name: str
    cells: tuple[PlannedCell, ...]
    lease: Lease


class Groups:
    """The groups of a plan, of which each process takes the next that nobody has."""

    def __init__(
        self,
        suite: str,
        cells: Sequence[PlannedCell],
        run: RunDirectory,
        leases: Leases,
        poll_s: float = POLL_S,
    ) -> None:
        """Order the groups, those that take the longest first: the last ones end soon then.

        Args:
            suite: of the cells.
            cells: those that are to be run; one that could not be set up, once more.
            run: where their records go.
            leases: of all processes that may run one of these groups, for this plan or another.
            poll_s: between two looks at what others have.
        """
        found: dict[str, list[PlannedCell]] = {}
        for planned in cells:
            found.setdefault(planned.group, []).append(planned)
        self._left = dict(sorted(found.items(), key=lambda one: -_guess_s(one[1])))
        self._again = {planned.cell.id for planned in cells if _was_not_set_up(run, planned)}
        self._suite = suite
        self._run = run
        self._leases = leases
        self._poll_s = poll_s

    def take(self) -> Iterator[TakenGroup]:
        """Yield groups that have cells without a record, each held until the next is asked for.

        When all that are left are held by others, one process waits, to take over those of any
        that dies; the others have nothing to do here.
        """
        watch: Lease | None = None
        try:
            while self._left:
                for name in list(self._left):
                    if (taken := self._take(name)) is None:
                        continue
                    if watch is not None:  # another one may wait meanwhile
                        watch.release()
                        watch = None
                    try:
                        yield taken
                    finally:
                        taken.lease.release()
                    break
                else:
                    if not self._left:
                        return
                    if watch is None:
                        watch = self._leases.take(self._key(f"{self._run.path.name}/waits"))
                    if watch is None:
                        return
                    time.sleep(self._poll_s)
        finally:
            if watch is not None:
                watch.release()

    def _take(self, name: str) -> TakenGroup | None:
        """Take a group; one that is done is forgotten."""
        cells = self._left[name]
        if self._is_done(cells):
            del self._left[name]
            return None
        if (lease := self._leases.take(self._key(name))) is None:
            return None
        del self._left[name]
        if self._is_done(cells):  # meanwhile
            lease.release()
            return None
        return TakenGroup(name, tuple(cells), lease)

    def _is_done(self, cells: Sequence[PlannedCell]) -> bool:
        return all(
            planned.cell.id not in self._again and self._run.record_path(planned.cell).exists()
            for planned in cells
        )

    def _key(self, name: str) -> str:
        """Return the name of a group's lease; names of groups are any text."""
        return sha256(f"{self._suite}\0{name}".encode()).hexdigest()[:32]


def _guess_s(cells: Sequence[PlannedCell]) -> float:
    return sum(planned.guess.expected_s for planned in cells if planned.guess is not None)


def _was_not_set_up(run: RunDirectory, planned: PlannedCell) -> bool:
    record = run.record(planned.cell)
    return record is not None and record.was_not_set_up
