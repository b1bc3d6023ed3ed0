"""Warnings of this suite: few batches, warm-up, restarts, doubtful steps, unused cores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median

from skymark.model.record import RoundResult, StabilityWarning
from skymark.model.sizes import percent
from skymark.statistics.stability import PRACTICAL
from skymark.suites.loading.drives.stream import NO_STREAM
from skymark.suites.loading.figures import stream_waits
from skymark.suites.loading.step.step import StepKind

FEWEST_WAITS = 100
"""With fewer, the 99th percentile is the maximum."""

COSTLY_RESTARTS = 1.25
"""The stream's rate over that of whole epochs, above which the first alone misleads."""

STEP_DIFFERENCE = 1.25
"""The time of a calibrated step over that asked for, or the reverse, above which it is another."""

UNUSED = 0.15
"""Share of the workers' cores left unused, above which a cause is looked for."""

LEAST_WAITED = 0.9
"""Share of the time that batches are waited for, below which the consumer keeps workers idle."""

LEAST_TIMED_S = 0.5
"""Of all rounds; idle time is counted in ticks of 10 ms."""

BUSY = 0.85
"""Cores of a process or a lock above which it is the limit."""


LAUNCH_BOUND = 0.8
"""The time to launch a step over the step's own, above which the launches decide it."""


def warnings_of(rounds: Sequence[RoundResult]) -> tuple[StabilityWarning, ...]:
    """Return what makes waits, warm-up and rates of these rounds doubtful; empty if nothing."""
    checks = (
        few_waits,
        unfinished_warm_up,
        no_stream,
        restarts_included,
        costly_restarts,
        other_step,
        launch_bound_step,
        unused_cores,
    )
    found = (check(rounds) for check in checks)
    return tuple(warning for warning in found if warning is not None)


def few_waits(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of percentiles that rest on too few batches."""
    count = len(stream_waits(rounds))
    if count == 0 or count >= FEWEST_WAITS:
        return None
    return StabilityWarning(
        kind="few-waits",
        message=f"the wait percentiles rest on {count} batches, so p99 is the longest wait",
        action="choose a larger variant (such as :medium), smaller batches or a higher --effort",
    )


def unfinished_warm_up(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a first measured epoch that is slower than the later ones in every round."""
    ratios: list[float] = []
    for one in rounds:
        times = _epoch_times(one)
        if len(times) < 4:
            return None
        ratios.append(times[0] / median(times[1:]))
    if len(ratios) < 3 or min(ratios) < 1 + 2 * PRACTICAL:
        return None
    return StabilityWarning(
        kind="warm-up",
        message=(
            f"in every round the first measured epoch took {percent(median(ratios) - 1)} longer "
            "than the later ones: the library was still warming up"
        ),
        action="a higher --effort measures more epochs, which weakens the effect",
    )


def no_stream(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of epochs of which no steady stream was seen, and name the size that has one."""
    larger = next((one.conditions["stream"] for one in rounds if "stream" in one.conditions), None)
    if larger is None:
        return None
    epochs = (Counter(one.samples["epoch"]) for one in rounds)
    batches = max((count for each in epochs for count in each.values()), default=0)
    return StabilityWarning(
        kind="no-stream",
        message=f"no steady stream was seen in epochs of {batches} batches, so there is no "
        "samples/s; the rate of whole epochs stands in its place and is not ranked",
        action=str(larger).removeprefix(f"{NO_STREAM}; "),
    )


def restarts_included(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a library whose restarts cannot be told from the stream."""
    ahead = [one for one in rounds if one.conditions.get("works_ahead") == "epoch"]
    if not any("samples_per_s" in one.metrics for one in ahead):
        return None
    return StabilityWarning(
        kind="restarts-included",
        message="the library works ahead up to the limit of its memory, which hides its restarts "
        "in the stream, so the rate and the waits include them",
        action="choose a larger variant (such as :medium), in which restarts weigh less",
    )


def costly_restarts(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a stream that is much faster than whole epochs: work is done while they restart."""
    metrics = [
        one.metrics
        for one in rounds
        if one.metrics.get("epoch_samples_per_s") and "samples_per_s" in one.metrics
    ]
    if not metrics:
        return None
    ratio = median(one["samples_per_s"] / one["epoch_samples_per_s"] for one in metrics)
    if ratio < COSTLY_RESTARTS:
        return None
    return StabilityWarning(
        kind="costly-restarts",
        message=(
            f"whole epochs have {percent(1 / ratio)} of the stream's rate: restarts take the rest "
            "of the time, and the library prepares a part of the stream during restarts"
        ),
        action="look at the rate with restarts, too; in a larger variant (such as :medium) "
        "restarts weigh less",
    )


def other_step(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a calibrated step that did not take the time that it was to take."""
    ratios = [
        one.metrics["step_ns"] / (kind.ms * 1e6)
        for one in rounds
        if "step" in one.conditions and "step_ns" in one.metrics
        if (kind := StepKind.parse(str(one.conditions["step"]))).ms is not None
    ]
    if not ratios or 1 / STEP_DIFFERENCE < (ratio := median(ratios)) < STEP_DIFFERENCE:
        return None
    return StabilityWarning(
        kind="step-time",
        message=(
            f"the training step took {ratio:.2g} times as long as it was to take: other work, or "
            "the loader's, disturbed it or its calibration"
        ),
        action="look at `step_ns`; on a CPU give the loader fewer --workers, or take "
        "--think-time-ms",
    )


def launch_bound_step(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a step that takes as long as a processor needs to launch its kernels."""
    ratios = [
        one.metrics["step_launch_ns"] / one.metrics["step_ns"]
        for one in rounds
        if "step_launch_ns" in one.metrics and one.metrics.get("step_ns")
    ]
    if not ratios or (ratio := median(ratios)) < LAUNCH_BOUND:
        return None
    return StabilityWarning(
        kind="launch-bound",
        message=(
            f"launching the training step took {percent(ratio)} of its time: the processor that "
            "starts its kernels sets its speed, and the accelerator waits between them"
        ),
        action="choose larger batches (--set batch_size=256); leave out --set step_launch=eager, "
        "so that the step of an image network is one CUDA graph; or give mlp:MS more milliseconds",
    )


def unused_cores(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of workers whose cores were idle while batches were waited for, and name the cause."""
    execution = str(rounds[0].conditions.get("execution", "")) if rounds else ""
    workers = re.match(r"(\d+) (process|thread)", execution)
    known = [one for one in rounds if "cores_used" in one.metrics]
    if workers is None or not known or sum(one.timed_ns for one in known) < LEAST_TIMED_S * 1e9:
        return None
    if median(_waited_share(one) for one in known) < LEAST_WAITED:
        return None
    count = int(workers[1])
    used, idle, consumer = (
        median(one.metrics[name] for one in known)
        for name in ("cores_used", "cores_idle", "cores_of_consumer")
    )
    if min(count - used, idle) < UNUSED * count:
        return None
    native = known[0].conditions.get("operators") == "native"
    if workers[2] == "process" and consumer > BUSY:
        why = f"the process that receives the batches was busy {percent(consumer)} of the time"
        action = "batches this cheap need fewer --workers; larger batches are received in less time"
    elif workers[2] == "thread" and not native and used > BUSY:
        why = "Python's lock holds its threads"
        action = (
            "give the library processes, where it has them: `execution` in docs/adapters.md tells "
            "how"
        )
    else:
        why = f"they waited, and the process that takes the batches used {consumer:.1f} cores"
        action = (
            "look for slow storage (page_cache, http_…), and for queues that are too short "
            "(--prefetch)"
        )
    return StabilityWarning(
        kind="unused-cores",
        message=f"{execution} used {used:.1f} of {count} cores, and {idle:.1f} were idle: {why}",
        action=action,
    )


def _waited_share(round: RoundResult) -> float:
    """Return the part of the measured epochs in which a batch was waited for."""
    pairs = zip(round.samples["wait_ns"], round.samples["warm_up"], strict=True)
    return sum(wait for wait, warm_up in pairs if not warm_up) / round.timed_ns


def _epoch_times(round: RoundResult) -> list[float]:
    """Return the mean wait per element of each measured epoch's stream, in order, in ns."""
    waits: dict[float, float] = {}
    elements: dict[float, float] = {}
    columns = (round.samples[name] for name in ("wait_ns", "elements", "epoch", "stream"))
    for wait, size, epoch, counts in zip(*columns, strict=True):
        if counts:
            waits[epoch] = waits.get(epoch, 0) + wait
            elements[epoch] = elements.get(epoch, 0) + size
    return [waits[epoch] / elements[epoch] for epoch in sorted(waits) if elements[epoch]]
