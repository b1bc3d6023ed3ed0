"""The judge of the loading suite: it makes the checks of a round's evidence with its own oracle.

It runs in the adapter's venv, so that decoders have the same version. It never imports the adapter,
so the adapter cannot change its clock or its oracle.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.base import digest_of
from skymark.suites.loading.drives.stream import FEWEST_FILLINGS
from skymark.suites.loading.options import read_settings
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.oracle.claims import (
    ClaimedFigures,
    ClaimedTime,
    UnchangedData,
    claimed_stream,
)
from skymark.suites.loading.oracle.cost import StreamTime
from skymark.suites.loading.oracle.evidence import opened_evidence, replay
from skymark.suites.loading.oracle.order import SameOrder
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skymark.model.machine import Platform
    from skymark.model.record import Cell, RoundResult, Verification
    from skymark.suite.contract import ObservedRound
    from skymark.suites.loading.dataset.canonical import Array


QUIET_SHARE = 0.05
"""Largest share of the processors that others take of a round whose times are judged closely."""


class LoadingJudge:
    """Judges rounds of any cells of one venv. Implements `skymark.suite.contract.Judge`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform = "cpu") -> None:
        del cell, platform
        self._cache = cache
        self._orders: dict[str, dict[int, Array]] = {}
        """By cell and rank, the order of epoch 0 in the first judged round."""
        self._least_first_s: dict[str, float] = {}
        """By cell, the least CPU seconds per element of an epoch 0."""

    def judge(
        self, cell: Cell, claim: RoundResult, evidence: Path, seen: ObservedRound
    ) -> Verification:
        """Return the verdict on a round.

        Raises:
            DataError: the evidence is damaged.
        """
        storage = Storage.of_cell(self._cache, cell)
        scenario, ranks = storage.scenario, int(cell.axes.get("ranks", 1))
        settings, _ = read_settings(cell.settings)
        # Libraries hold more batches than `prefetch`, in pipes or unfinished: Grain twice as many.
        queued = FEWEST_FILLINGS * ranks * max(1, settings.workers) * settings.prefetch
        with opened_evidence(evidence) as (declared, entries):
            tails = settings.workers  # each may fill buckets of its own
            if not scenario.bucket_boundaries:
                tails = min(declared.allowed_short_batches, settings.workers)
            oracle = Oracle(
                scenario,
                storage.dataset(),
                declared._replace(allowed_short_batches=tails),
                seen.resources.cpu_s,
                settings.batch_size or scenario.size.batch_size,
                self._cache / "references" / f"{digest_of(self._key(storage))[:16]}.npz",
                is_quiet=seen.taken_share is not None and seen.taken_share <= QUIET_SHARE,
                least_first_s=self._least_first_s.get(cell.id, float("inf")),
            )
            oracle.check(UnchangedData(storage.canonical, claim.started_at))
            replay(entries, oracle)
            self._least_first_s[cell.id] = oracle.least_first_s
        oracle.check(
            ClaimedTime(claim, seen.wall_s, scenario.drive == "first_batch"),
            ClaimedFigures(claim, ranks),
            StreamTime(*claimed_stream(claim, queued), os.cpu_count() or 1),
            *self._same_orders(cell, oracle),
        )
        return oracle.verdict()

    @staticmethod
    def _key(storage: Storage) -> list[Any]:
        """Return what the reference's elements depend on."""
        scenario = storage.scenario
        return [scenario.id, storage.canonical.name, scenario.seed, dict(scenario.axes)]

    def _same_orders(self, cell: Cell, oracle: Oracle) -> Iterator[SameOrder]:
        """Yield the comparisons of a round's order with that of the cell's first round."""
        earlier = self._orders.setdefault(cell.id, oracle.first_streams)
        for rank, stream in oracle.first_streams.items():
            if rank in earlier:
                yield SameOrder(stream, earlier[rank], "in an earlier round")

    def close(self) -> None:
        """Do nothing; the judge holds only memory."""
