"""Causes of a loop's waits, from measured facts alone: a pure function with a table of rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from skymark.watching.costs import StageCost
from skymark.watching.facts import Facts

NONE_BELOW = 0.08
"""Share of the time from which waits count as a limit: unpacking alone takes some milliseconds."""
SMALL = 0.03
"""Share below which a further cause is not told."""
MARGIN = 0.9
"""A loader is to make a batch in this part of a step."""
FULL = 0.85
"""Part of the cores from which they count as exhausted."""
NEARLY_FULL = 0.15
"""Free part of /dev/shm below which a few batches more would hang the loop."""
CROWDED = 0.2
"""Part of the cores that other programs take, and of their time that workers wait for a core, from
which the others count as the limit."""
LATE_S = 0.002
"""Mean delay at Python's lock from which it counts as contended: a thread may keep it for 5 ms."""
ONE_AT_A_TIME = 1.3
"""Cores that threads use at most where the lock lets one run at a time."""
WITHOUT_WAITS = ("shared-memory", "gil")
"""Causes that matter also where the loop hardly waits for batches."""
MOST_WORKERS = 64
WITH_WORKERS = ("torch", "keras", "datasets", "webdataset", "litdata")
"""Libraries whose batches a PyTorch loader's workers can make."""
ORDINARY = 3
"""Times of making a batch that a start of an epoch may take as the making of its first one."""


@dataclass(frozen=True)
class WaitCause:
    """One reason for waits."""

    stage: str
    """read, decode, transform, collate, hand-over, copy, start; "" for none."""
    cause: str
    """none, main-process, too-few-workers, too-many-workers, cores, other-programs, disk, network,
    slow-storage, heavy-tail, gil, pickling, shared-memory, workers-restart, short-epochs,
    slow-start, pageable-memory, copy."""
    share: float
    """Part of the loop's time."""
    rate: float | None = None
    """Batches per second when the advice is followed; None where that cannot be told."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Values of a loader's settings that the advice names."""


@dataclass(frozen=True)
class Diagnosis:
    """What limits a loop."""

    rate: float
    """Batches per second now."""
    free_rate: float
    """Batches per second if data were free."""
    waiting: float
    """Part of the time in which the accelerator has nothing to do for want of data."""
    starting: float
    """The part of the whole time at starts of epochs; that of the only epoch counts here alone."""
    causes: tuple[WaitCause, ...]
    """The greatest first; "none" alone where the loader keeps up."""


def diagnose(facts: Facts) -> Diagnosis:
    """Return the causes of a loop's waits in order of their share of its time."""
    starting = min(facts.start_s / max(facts.elapsed_s, 1e-9), 1.0)
    if facts.epochs == 1:  # the only start is the program's, whose share says little
        facts = replace(facts, start_s=0.0, elapsed_s=facts.elapsed_s - facts.start_s)
    facts = _without_stall(facts)
    elapsed = max(facts.elapsed_s, 1e-9)
    waiting = min(facts.lost_s / elapsed, 1.0)
    causes = [
        cause
        for cause in (_full_memory(facts), _start(facts), _supply(facts), _copy(facts))
        if cause is not None and cause.share >= SMALL
    ]
    rate = facts.batches / elapsed
    causes = [
        replace(cause, rate=None) if cause.rate and cause.rate < (1 + SMALL) * rate else cause
        for cause in causes
    ]
    causes.sort(key=lambda cause: cause.share, reverse=True)
    if waiting < NONE_BELOW:
        causes = [cause for cause in causes if cause.cause in WITHOUT_WAITS]
    return Diagnosis(
        rate=rate,
        free_rate=facts.batches / max(elapsed - facts.lost_s, 1e-9),
        waiting=waiting,
        starting=starting,
        causes=tuple(causes) or (WaitCause("", "none", 0.0),),
    )


def _without_stall(facts: Facts) -> Facts:
    left_s = facts.wait_s - facts.stall_s
    return replace(
        facts,
        wait_s=left_s,
        wait_cpu_s=facts.wait_cpu_s * left_s / max(facts.wait_s, 1e-9),
        elapsed_s=facts.elapsed_s - facts.stall_s,
    )


def _full_memory(facts: Facts) -> WaitCause | None:
    """Return the cause of workers that died, or soon will, for want of /dev/shm."""
    if facts.shm_bytes is None or facts.shm_free_bytes is None:
        return None
    full = facts.shm_free_bytes < NEARLY_FULL * facts.shm_bytes
    return WaitCause("hand-over", "shared-memory", 1.0) if full and facts.workers else None


def _start(facts: Facts) -> WaitCause | None:
    """Return the cause of waits at starts of epochs."""
    share = facts.start_s / max(facts.elapsed_s, 1e-9)
    per_epoch = facts.elapsed_s / facts.epochs
    start = facts.start_s / facts.epochs

    def rate(left_s: float) -> float:
        return facts.batches / facts.epochs / max(per_epoch - start + left_s, 1e-9)

    if facts.workers > 2 * facts.cores and facts.run_delay > 0.3 and facts.library == "torch":
        enough = _enough_workers(facts, facts.step_s)
        if enough < facts.workers:
            left = start * enough / facts.workers
            return WaitCause(
                "start", "too-many-workers", share, rate(left), {"num_workers": enough}
            )
    if facts.epochs > 1 and facts.workers and facts.settings.get("persistent_workers") is False:
        left = min(start / facts.epochs + facts.feed_s, start)
        if start - left > SMALL * per_epoch:
            return WaitCause(
                "start", "workers-restart", share, rate(left), {"persistent_workers": True}
            )
    if start <= ORDINARY * facts.feed_s:  # the first batch costs as much as any other
        left = start / facts.epochs
        return WaitCause("start", "short-epochs", share, rate(left)) if facts.workers else None
    return WaitCause("start", "slow-start", share)


def _supply(facts: Facts) -> WaitCause | None:
    """Return the cause of waits between first and last batch."""
    share = facts.wait_s / max(facts.elapsed_s, 1e-9)
    if facts.empty_s is not None:
        share = facts.empty_s / max(facts.elapsed_s, 1e-9)
    if not facts.stages:
        return WaitCause("", "unknown", share)
    stage = max(facts.stages, key=lambda name: facts.stages[name].wall_s)
    cost = facts.stages[stage]
    unpacks = facts.workers and facts.wait_cpu_s > facts.wait_s / 2
    if unpacks or (stage == "hand-over" and not _has_heavy_tail(facts)):
        cause = WaitCause("hand-over", "pickling", share, _without_hand_over(facts))
    elif _has_heavy_tail(facts):
        rate = min(1 / facts.step_s, facts.workers / facts.feed_s)
        cause = WaitCause(stage, "heavy-tail", share, rate, _for_tail(facts))
    elif _is_crowded_out(facts, cost):
        cause = WaitCause(stage, "other-programs", share, _rate_with(facts, max(facts.workers, 1)))
    elif _lock_s(facts):
        cause = _lock(facts, stage, share)
    elif stage == "read" and _off_cpu(cost, facts) > 0.5:
        cause = replace(_reading(facts, cost), share=share)
    elif not (facts.workers or facts.in_threads or _uses_all_cores(facts)):
        cause = _in_main_process(facts, stage, share)
    else:
        cause = _of_workers(facts, stage, share)
    return cause


def _has_heavy_tail(facts: Facts) -> bool:
    """Tell whether few slow samples hold up workers that are fast enough on average."""
    if not (facts.workers and facts.sample_p50_s and facts.feed_s):
        return False
    keeps_up = facts.feed_s / facts.workers < facts.step_s
    return keeps_up and facts.tail_share > 0.25 and facts.worst_share > 0.5


def _is_crowded_out(facts: Facts, cost: StageCost) -> bool:
    """Tell whether other programs take the cores that the making of batches needs."""
    if others_share(facts) <= CROWDED:
        return False
    # A thread that stands in line for a core may hold Python's lock meanwhile.
    return (facts.run_delay > CROWDED and _off_cpu(cost, facts) <= 0.5) or _lock_s(facts) > 0


def others_share(facts: Facts) -> float:
    """Return the part of the cores that other programs take, on a machine without idle ones."""
    if facts.cores_busy is None or facts.idle_share > 1 - FULL:
        return 0.0
    return max(facts.cores_busy - facts.busy_cores, 0.0) / facts.cores


def _for_tail(facts: Facts) -> dict[str, Any]:
    settings = facts.settings
    if settings.get("in_order") is True:
        return {"in_order": False}
    return {"prefetch_factor": 4 * int(settings.get("prefetch_factor") or 2)}


def _lock_s(facts: Facts) -> float:
    """Return the time that the loop's steps lose at Python's lock to threads that make batches.

    A step takes the lock again at least once, and waits for it as long as a look at the stacks.
    """
    contended = facts.in_threads and facts.active_threads > 1 and facts.late_s > LATE_S
    alone = facts.busy_cores < ONE_AT_A_TIME
    return facts.late_s * facts.batches if contended and alone else 0.0


def _lock(facts: Facts, stage: str, share: float) -> WaitCause:
    """Return the cause of threads that take turns at Python's lock."""
    lost = min(_lock_s(facts) / max(facts.elapsed_s, 1e-9), 1 - share)
    rate = facts.batches / max(facts.elapsed_s * (1 - share - lost), 1e-9)
    return WaitCause(stage, "gil", share + lost, rate)


def _off_cpu(cost: StageCost, facts: Facts) -> float:
    """Return the part of a stage in which nothing is computed, without queueing for a core."""
    if not cost.wall_s:
        return 0.0
    return max(1 - cost.cpu_s / cost.wall_s - facts.run_delay, 0.0)


def _reading(facts: Facts, cost: StageCost) -> WaitCause:
    """Return the cause of slow reading: the disk, the network, or storage of no known kind."""
    others_s = max(facts.feed_s - cost.wall_s, 0.0)
    if facts.disk_bytes_per_s > 2**20 and (facts.io_pressure is None or facts.io_pressure > 0.1):
        return WaitCause("read", "disk", 0.0, _rate_at(facts, others_s))
    cause = "network" if facts.network_bytes_per_s > 2**20 else "slow-storage"
    enough = _enough_workers(facts, facts.step_s)
    settings = {"num_workers": enough} if facts.library in WITH_WORKERS else {}
    return WaitCause("read", cause, 0.0, _rate_with(facts, enough), settings)


def _in_main_process(facts: Facts, stage: str, share: float) -> WaitCause:
    """Return the cause where the loop's own thread makes the batches."""
    enough = _enough_workers(facts, facts.step_s)
    settings = {"num_workers": enough} if facts.library in WITH_WORKERS else {}
    return WaitCause(stage, "main-process", share, _rate_with(facts, enough), settings)


def _of_workers(facts: Facts, stage: str, share: float) -> WaitCause:
    """Return the cause where workers are too slow: their number, or the cores."""
    workers = max(facts.workers, 1)
    enough = _enough_workers(facts, facts.step_s)
    possible = _rate_with(facts, max(enough, workers))
    rate = facts.batches / max(facts.elapsed_s - facts.start_s, 1e-9)
    if _uses_all_cores(facts) or possible < 1.1 * rate or enough <= workers:
        left_s = facts.feed_s - facts.stages[stage].wall_s
        return WaitCause(stage, "cores", share, _rate_at(facts, left_s))
    return WaitCause(stage, "too-few-workers", share, possible, {"num_workers": enough})


def _uses_all_cores(facts: Facts) -> bool:
    return facts.busy_cores > FULL * facts.cores


def _making_s(facts: Facts) -> float:
    """Return the time of one worker for one batch, if it need not stand in line for a core."""
    return max(facts.feed_s * (1 - facts.run_delay), facts.feed_cpu_s, 1e-9)


def _enough_workers(facts: Facts, step_s: float) -> int:
    """Return the fewest workers that make a batch in a step, within the cores."""
    needed = math.ceil(_making_s(facts) / (MARGIN * step_s)) if step_s else 1
    by_cores = float(MOST_WORKERS)
    if facts.feed_cpu_s:
        by_cores = max(facts.cores * _making_s(facts) / max(facts.feed_cpu_s, 1e-9), 1)
    return max(1, min(needed, round(by_cores), MOST_WORKERS))


def _most_by_cores(facts: Facts, feed_cpu_s: float) -> float:
    """Return the batches per second that the cores allow."""
    outside = max(facts.loop_cpu_s - (0 if facts.workers else feed_cpu_s), 0.0)
    return facts.cores / max(feed_cpu_s + outside, 1e-9)


def _rate_with(facts: Facts, workers: int) -> float:
    """Return batches per second with a number of workers."""
    supply = workers / _making_s(facts)
    return min(1 / facts.step_s, supply, _most_by_cores(facts, facts.feed_cpu_s))


def _rate_at(facts: Facts, feed_s: float) -> float:
    """Return batches per second if a worker needed this time for a batch."""
    if not facts.workers:
        return 1 / (facts.step_s + feed_s)
    supply = facts.workers / max(feed_s, 1e-9)
    part = feed_s / facts.feed_s if facts.feed_s else 1.0
    return min(1 / facts.step_s, supply, _most_by_cores(facts, facts.feed_cpu_s * part))


def _without_hand_over(facts: Facts) -> float:
    cost = facts.stages.get("hand-over")
    return _rate_at(facts, facts.feed_s - (cost.wall_s if cost else 0.0))


def _copy(facts: Facts) -> WaitCause | None:
    """Return the cause of copies to the device that the loop waits for."""
    share = facts.copy_s / max(facts.elapsed_s, 1e-9)
    rate = facts.batches / max(facts.elapsed_s - facts.copy_s, 1e-9)
    if facts.settings.get("pin_memory") is False:
        return WaitCause("copy", "pageable-memory", share, rate, {"pin_memory": True})
    return WaitCause("copy", "copy", share, rate)
