"""The judge of the loading suite: it replays a round's evidence to an oracle of its own.

It runs in the adapter's venv, so that decoders are of the same version, but never imports the
adapter: what that changes in its process, the clock or the oracle, is not changed here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skymark.model.record import Cause
from skymark.suites.loading.oracle import Oracle
from skymark.suites.loading.oracle.evidence import Declared, Said, heard
from skymark.suites.loading.oracle.ordering import Orders
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.model.cell import Cell
    from skymark.model.platform import Platform
    from skymark.model.record import RoundResult, Verification
    from skymark.suite.contract import Seen

SLACK_S = 1.0
"""Time in a timed region that skymark may need for itself: copies of kept batches, for instance."""

LARGEST_SHARE = 2.0
"""The timed region by the engine's clock over the time that the worker claims, at most."""

ROUNDING = 1e-6
"""Relative, of figures that are computed twice."""


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


def claimed_time(claim: RoundResult, seen: Seen, *, in_region: bool) -> Cause | None:
    """Look for a timed region that took far longer by the engine's clock than the worker says.

    Args:
        claim: what the worker says.
        seen: what the engine saw.
        in_region: whether opening the loader and the warm-up epoch are part of the timed region.
    """
    claimed_s = claim.timed_ns / 1e9
    if in_region:
        claimed_s += claim.setup_s + claim.metrics.get("first_epoch_s", 0.0)
    if seen.wall_s is None or seen.wall_s <= LARGEST_SHARE * claimed_s + SLACK_S:
        return None
    return Cause(
        kind="claimed-time",
        message=f"the worker says that its timed region took {claimed_s:.3g} s, and it took "
        f"{seen.wall_s:.3g} s by the engine's clock",
    )


def claimed_figures(claim: RoundResult, handed_over: int, ranks: int = 1) -> Cause | None:
    """Look for elements that nobody saw, and for rates that do not follow from what was timed.

    Args:
        claim: what the worker says.
        handed_over: elements whose indices the judge was given, those of the warm-up included.
        ranks: how many waited at the same time.
    """
    figures, samples = claim.metrics, claim.samples
    elements, timed_s = figures["elements"], claim.timed_ns / 1e9
    if elements > handed_over:
        return Cause(
            kind="claimed-elements",
            message=f"the worker says that {elements:g} elements were delivered in the measured "
            f"epochs, and handed over the indices of {handed_over}",
        )
    columns = zip(samples["elements"], samples["wait_ns"], samples["stream"], strict=True)
    streamed = [(count, wait) for count, wait, counts in columns if counts]
    waited_s = sum(wait for _, wait in streamed) / ranks / 1e9
    most = sum(count for count, _ in streamed) / waited_s if waited_s else float("inf")
    wrong = {
        "epoch_samples_per_s": (figures["epoch_samples_per_s"], elements / timed_s),
        "samples_per_s": (figures["samples_per_s"], most),
    }
    for name, (says, follows) in wrong.items():
        if says > follows * (1 + ROUNDING):
            return Cause(
                kind="claimed-rate",
                message=f"the worker says that {name} is {says:.4g}, where {follows:.4g} at most "
                "follows from the elements and times that it names",
            )
    return None
