"""The judge of the loading suite: it replays a round's evidence to an oracle of its own.

It runs in the adapter's venv, so that decoders are of the same version, but never imports the
adapter: what that changes in its process, the clock or the oracle, is not changed here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.suites.loading.drives.stream import FEWEST_FILLINGS
from skymark.suites.loading.options import read_settings
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.oracle.claims import claimed_figures, claimed_stream, claimed_time
from skymark.suites.loading.oracle.evidence import Declared, Said, heard
from skymark.suites.loading.oracle.ordering import Orders
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.model.machine import Platform
    from skymark.model.record import Cell, RoundResult, Verification
    from skymark.suite.contract import Seen


class LoadingJudge:
    """Judges rounds of any cells of one venv. Implements `skymark.suite.contract.Judge`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform = "cpu") -> None:
        del cell, platform
        self._cache = cache

    def judge(self, cell: Cell, claim: RoundResult, evidence: Path, seen: Seen) -> Verification:
        """Return the verdict on a round.

        Raises:
            DataError: the evidence is damaged.
        """
        storage = Storage.of_cell(self._cache, cell)
        with heard(evidence) as (declared, said):
            oracle = oracle_of(storage, declared)
            in_region = storage.scenario.drive == "first_batch"
            if cause := claimed_time(claim, seen, in_region=in_region):
                oracle.refuse(cause.kind, cause.message)
            oracles = {0: oracle}
            for one in said:
                replay(one, oracles, seen)
        ranks = int(cell.axes.get("ranks", 1))
        if cause := claimed_figures(claim, oracle.indexed_elements, ranks):
            oracle.refuse(cause.kind, cause.message)
        settings, _ = read_settings(cell.settings)
        # Libraries hold more than `prefetch` says, in pipes and in hand: Grain twice as many.
        queued = FEWEST_FILLINGS * ranks * max(1, settings.workers) * settings.prefetch
        oracle.check_stream(*claimed_stream(claim, queued), os.cpu_count() or 1)
        return oracle.verdict()

    def close(self) -> None:
        """Do nothing; all that is held is memory."""


def oracle_of(storage: Storage, declared: Declared) -> Oracle:
    """Return the oracle of a cell's data, for an adapter that declares this."""
    return Oracle(
        storage.scenario,
        storage.dataset(),
        native=declared.native,
        caches=declared.caches,
        mixing=declared.mixing,
        orders=Orders(declared.shuffle),
        allowed_short_batches=declared.allowed_short_batches,
    )


def replay(said: Said, oracles: dict[int, Oracle], seen: Seen) -> None:
    """Tell an oracle what a drive said; CPU time is as the engine saw it, where it did.

    Args:
        said: one thing.
        oracles: by number; grows with each fresh one.
        seen: what the engine saw of the round.
    """
    oracle, arguments = oracles[said.verifier], said.arguments
    match said.name:
        case "fresh":
            (number,) = arguments
            oracles[number] = oracle.fresh(**said.named)
        case "absorb":
            number, context = arguments
            oracle.absorb(oracles[number], context)
        case "check_work":
            cpu_s, elements = arguments
            if said.verifier == 0 and seen.resources.cpu_s is not None:
                cpu_s = seen.resources.cpu_s
            oracle.check_work(cpu_s, elements)
        case "check_indices":
            oracle.check_indices(*arguments, **said.named)
        case "check_ranks":
            oracle.check_ranks(*arguments)
        case "check_shuffled":
            oracle.check_shuffled(*arguments)
        case "check_kept":
            oracle.check_kept(*arguments)
        case "check_fetched":
            oracle.check_fetched(*arguments)
        case "refuse":
            oracle.refuse(*arguments)
        case other:
            raise ValueError(f"{other!r} is nothing that a drive says")
