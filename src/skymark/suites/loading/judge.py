"""The judge of the loading suite: it makes the checks of a round's evidence with its own oracle.

It runs in the adapter's venv, so that decoders have the same version. It never imports the adapter,
so the adapter cannot change its clock or its oracle.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.suites.loading.drives.stream import FEWEST_FILLINGS
from skymark.suites.loading.options import read_settings
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.oracle.claims import ClaimedFigures, ClaimedTime, claimed_stream
from skymark.suites.loading.oracle.cost import StreamTime
from skymark.suites.loading.oracle.evidence import opened_evidence, replay
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.model.machine import Platform
    from skymark.model.record import Cell, RoundResult, Verification
    from skymark.suite.contract import ObservedRound


class LoadingJudge:
    """Judges rounds of any cells of one venv. Implements `skymark.suite.contract.Judge`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform = "cpu") -> None:
        del cell, platform
        self._cache = cache

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
            oracle = Oracle(scenario, storage.dataset(), declared, seen.resources.cpu_s)
            in_region = scenario.drive == "first_batch"
            oracle.check(ClaimedTime(claim, seen.wall_s, in_region))
            replay(entries, oracle)
        oracle.check(
            ClaimedFigures(claim, ranks),
            StreamTime(*claimed_stream(claim, queued), os.cpu_count() or 1),
        )
        return oracle.verdict()

    def close(self) -> None:
        """Do nothing; the judge holds only memory."""
