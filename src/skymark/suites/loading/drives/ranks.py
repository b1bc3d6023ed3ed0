"""Drive one loader per rank, each in a fresh process, all over the same data at the same time."""

from __future__ import annotations

import dataclasses
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from skymark.measure.consumer import StepTotals, Transfer
from skymark.measure.loop import Pass
from skymark.measure.process_tree import TreeSampler, queued_seconds_of_tree
from skymark.model.record import Resources
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.fresh import FreshLoader, PassOrder
from skymark.suites.loading.drives.outcome import Bench, Outcome, UnseenRegion
from skymark.suites.loading.oracle import Elements, Order, RankElements, kept_content
from skymark.suites.loading.oracle.cost import SingleRank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skymark.suites.loading.drives.fresh import RemotePass


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round: throughput is the total of all ranks.

    An epoch lasts from the first rank's start to the last rank's end. Scaling efficiency is the
    throughput over the number of ranks times a single rank's throughput. The single rank is
    measured in the same round, after every process has imported its library and before the rest
    open their loaders, so that the machine is in the same state.
    """
    world = int(bench.job.scenario.axes["ranks"])
    variables_of_ranks = rank_variables(world)
    if world > 1:
        variables_of_ranks += rank_variables(1)
    with ExitStack() as stack:
        loaders = [
            stack.enter_context(FreshLoader(bench.reference, variables))
            for variables in variables_of_ranks
        ]
        import_s = max(loader.answer() for loader in loaders)
        alone = single_rank(bench, loaders[world]) if world > 1 else None
        ranks = OpenRanks(bench, loaders[:world])
        outcome = measure(ranks)
    each = [ranks.outcome(rank) for rank in range(world)]
    if alone is not None:
        check_alone(bench, *alone, outcome, world)
    together_per_s, single, *of_ranks = rates([outcome, alone[0] if alone else outcome, *each])
    outcome.extra |= {"fresh_import_s": import_s, "single_rank_samples_per_s": single}
    if single:
        outcome.extra["scaling_efficiency"] = together_per_s / (world * single)
    for rank, rate in enumerate(of_ranks):
        outcome.extra[f"rank_{rank}_samples_per_s"] = rate
    return outcome


def rates(outcomes: Sequence[Outcome]) -> list[float]:
    """Return comparable rates: of streams, or of whole epochs if a pass has no stream."""
    streams = [one.samples_per_s for one in outcomes]
    known = [one for one in streams if one is not None]
    return known if len(known) == len(streams) else [one.epoch_samples_per_s for one in outcomes]


class OpenRanks:
    """One open loader per rank, run together; keeps every rank's passes by epoch."""

    def __init__(self, bench: Bench, loaders: Sequence[FreshLoader]) -> None:
        self.bench = dataclasses.replace(
            bench, job=dataclasses.replace(bench.job, world=len(loaders))
        )
        self.loaders = loaders
        self.passes: dict[int, list[RemotePass]] = {}
        for rank, loader in enumerate(loaders):
            loader.open(dataclasses.replace(self.bench.job, rank=rank), bench.consumption)
        self.setup_s = max(loader.answer() for loader in loaders)

    def run(self, epoch: int, kept: int, seconds: float) -> Pass:
        """Run one epoch on all ranks at once; return their joint pass."""
        order = PassOrder(epoch, kept, int(seconds * 1e9))
        for loader in self.loaders:
            loader.run(order)
        self.passes[epoch] = [loader.answer() for loader in self.loaders]
        self.bench.note_places({place for remote in self.passes[epoch] for place in remote.places})
        return together(self.passes[epoch])

    def first_batch_ns(self) -> int | None:
        """Return the longest first wait of the first epoch: no rank can train before all can."""
        waits = [remote.done.wait_ns[0] for remote in self.passes[0] if remote.done.wait_ns]
        return max(waits, default=None)

    def outcome(self, rank: int) -> Outcome:
        """Return one rank's outcome of the measured epochs, by its own clock."""
        alone, passes = self.bench.outcome(), [ranks[rank].done for ranks in self.passes.values()]
        first = epochs.first_measured(self.bench, passes[1:])
        for epoch, done in enumerate(passes):
            alone.add(done, epoch=epoch, measured=epoch >= first)
        return alone

    def passes_of(self, epoch: int) -> list[Pass]:
        """Return the passes of an epoch, by rank."""
        return [remote.done for remote in self.passes[epoch]]

    def verify(self, epoch: int, _: Pass) -> None:
        """Check that all ranks together delivered each element once, and check the content."""
        bench, oracle = self.bench, self.bench.oracle
        for remote in self.passes[epoch]:
            oracle.check_arrivals(epoch, remote.arrival_fault)
        done = self.passes_of(epoch)
        whole = all(rank.complete for rank in done)
        oracle.check(RankElements(epoch, [rank.indices for rank in done], whole))
        oracle.check(
            Elements(
                epoch,
                [index for rank in done for index in rank.indices],
                complete=whole,
                batch_size=bench.job.batch_size,
                streams=len(done),
            )
        )
        for number, rank in enumerate(done):
            if bench.job.shuffle:
                oracle.check(Order(epoch, rank.indices, number))
            oracle.check(*kept_content(epoch, rank.indices, rank.kept))
            bench.note_sizes(rank.kept.values())


def measure(ranks: OpenRanks) -> Outcome:
    """Warm up, then run and verify the measured epochs of open ranks."""
    outcome = ranks.bench.outcome(ranks.setup_s)
    epochs.measure(ranks.bench, outcome, ranks.run, ranks.verify, ranks.passes_of)
    outcome.first_batch_ns = ranks.first_batch_ns()
    return outcome


class RankRegion(UnseenRegion):
    """The timed region of a single rank, sampled from here.

    Args:
        pid: process of the rank.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._sampler = pid, TreeSampler(pid)
        self.queued_s = 0.0
        """Time that it waited for processors that others used."""

    def begins(self, exclude: tuple[int, ...] = (), *, in_slices: bool = False) -> bool:
        """Begin sampling."""
        self.queued_s = -queued_seconds_of_tree(self._pid)
        self._sampler.begin()
        return super().begins(exclude, in_slices=in_slices)

    def ends(self) -> Resources:
        """Return the rank's resources."""
        self._sampler.end()
        self.queued_s += queued_seconds_of_tree(self._pid)
        return self._sampler.resources()


def single_rank(bench: Bench, loader: FreshLoader) -> tuple[Outcome, float]:
    """Measure a single rank with the machine for itself; end its process.

    Returns:
        Its outcome, and the time in s that it waited for processors that others used.
    """
    oracle = bench.oracle.fresh()
    region = RankRegion(loader.pid)
    alone = dataclasses.replace(bench, oracle=oracle, region=region)
    with loader:
        outcome = measure(OpenRanks(alone, [loader]))
    bench.oracle.absorb(oracle, "a single rank")
    return outcome, region.queued_s


def check_alone(
    bench: Bench, alone: Outcome, queued_s: float, together: Outcome, world: int
) -> None:
    """Compare the single rank with the ranks that it is the measure of.

    Args:
        bench: bench of the round.
        alone: the single rank.
        queued_s: time that it waited for processors that others used.
        together: all ranks.
        world: number of ranks.
    """
    rate, all_rates = alone.samples_per_s, together.samples_per_s
    if not (rate and all_rates and alone.resources.cpu_s and together.resources.cpu_s):
        return  # without a stream, the start of processes decides
    rank_rate = all_rates / world
    cost = alone.resources.cpu_s / alone.sampled_elements
    rank_cost = together.resources.cpu_s / together.sampled_elements
    kept_from = queued_s / (alone.timed_ns / 1e9)
    bench.oracle.check(
        SingleRank(
            cpu_s=alone.resources.cpu_s,
            cost=cost / rank_cost,
            rate=rate / (1 - min(kept_from, 0.5)) / rank_rate,
            cores=(cost * rate + kept_from) / (rank_cost * rank_rate),
        )
    )


def together(ranks: Sequence[RemotePass]) -> Pass:
    """Merge the passes of ranks into one, from the first start to the last end."""
    done = Pass(
        wall_ns=max(rank.end_ns for rank in ranks) - min(rank.begin_ns for rank in ranks),
        think_ns=sum(rank.done.think_ns for rank in ranks) // len(ranks),
        busy_ns=sum(rank.done.busy_ns for rank in ranks) // len(ranks),
        complete=all(rank.done.complete for rank in ranks),
    )
    for rank in ranks:
        done.wait_ns += rank.done.wait_ns
        done.indices += rank.done.indices
        done.transfer = (done.transfer or Transfer()).plus(rank.done.transfer or Transfer())
        done.work = (done.work or StepTotals()).plus(rank.done.work or StepTotals())
        done.kept |= {len(done.kept) + n: batch for n, batch in enumerate(rank.done.kept.values())}
    return done


def rank_variables(world: int) -> list[dict[str, str]]:
    """Return the variables of each rank, as ``torchrun`` sets them on one machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]
