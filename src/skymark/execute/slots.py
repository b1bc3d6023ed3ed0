"""Slot workers: processes that share the GPUs of a machine and take one group after another."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from tempfile import TemporaryDirectory
from threading import Thread

from pydantic import Field

from skymark.execute.planner import write_plan
from skymark.machine.facts import FRACTION_VARIABLE
from skymark.machine.nvidia import VISIBLE_VARIABLE, memory_of, visible_units
from skymark.model.base import Frozen
from skymark.model.errors import NothingToMeasureError, UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import size_text
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named

ROUNDING = 1e-6
LEAST_FRACTION = 0.125
"""Default share of a GPU for each slot."""


class SlotJob(Frozen):
    """A job of a cluster that starts slot workers, and what it has of the cards."""

    cards: float
    """Accelerators that the job takes, a part of one or whole ones; 0 where there are none."""
    slots: int = Field(ge=1)
    fraction: float
    """Share of a GPU for each slot; 0 without GPUs."""
    groups: tuple[str, ...] = ()
    """Groups that its slots may take; empty means any."""


class Cards(Frozen):
    """The accelerators of a cluster."""

    kind: str
    """As SkyPilot calls them, such as ``H100``."""
    count: int = Field(ge=1)
    bytes_each: int | None
    """Memory of one; None if it is unknown."""


def group_bytes(plan: Plan) -> dict[str, int | None]:
    """Return the GPU memory that each group of a plan needs; None if it is unknown."""
    suite = suite_named(plan.suite)
    needs: dict[str, int | None] = {}
    for one in plan.runnable:
        known = (needs.get(one.group), suite.device_bytes(one.cell))
        needs[one.group] = max((need for need in known if need is not None), default=None)
    return needs


def slot_jobs(
    needs: Mapping[str, int | None],
    cards: Cards | None,
    fraction: float | None = None,
    slots: int | None = None,
) -> list[SlotJob]:
    """Return the jobs that work through groups, large models first.

    Without a fraction, groups are spread over all GPUs, and each job has a whole GPU. With a
    fraction, a job takes only its slots' share, and GPUs are filled one after another.

    Args:
        needs: bytes of GPU memory of each group; None if unknown.
        cards: GPUs of the cluster; None without GPUs.
        fraction: share of a GPU for each slot; a group that needs more gets a larger slot. None for
            an eighth, or more with few groups.
        slots: total number of workers; None for as many as fit, at most one per group.

    Raises:
        UsageError: a group fits on no GPU, or the fraction is invalid.
    """
    if cards is None:
        count = min(slots or 1, len(needs))
        return [SlotJob(cards=0, slots=1, fraction=0) for _ in range(count)]
    least = LEAST_FRACTION if fraction is None else fraction
    fractions = {name: _fraction_for(name, need, cards, least) for name, need in needs.items()}
    jobs: list[SlotJob] = []
    for size in sorted(set(fractions.values()), reverse=True):
        alone = len(set(fractions.values())) == 1
        members = [name for name, one in fractions.items() if one == size]
        per_card = math.floor(1 / size + ROUNDING)
        left = min(slots or cards.count * per_card, cards.count * per_card, len(members))
        spread = min(left, cards.count) if fraction is None else math.ceil(left / per_card)
        for number in range(spread):
            here = math.ceil(left / (spread - number)) if fraction is None else min(left, per_card)
            jobs.append(
                SlotJob(
                    cards=1 if fraction is None else round(here * size, 6),
                    slots=here,
                    fraction=1 / here if fraction is None else size,
                    groups=() if alone else tuple(members),
                )
            )
            left -= here
    return jobs


def working_cards(jobs: Sequence[SlotJob], cards: Cards) -> int:
    """Return how many of a cluster's cards have workers, where Ray fills one after another."""
    return min(cards.count, math.ceil(sum(job.cards for job in jobs) - ROUNDING))


def job_per_group(
    needs: Mapping[str, int | None], cards: Cards | None, fraction: float | None = None
) -> list[SlotJob]:
    """Return a job for each group, large models first: the classic way, seconds for each.

    Without a fraction each has as much of a card as lets all cards work, an eighth at least.

    Raises:
        UsageError: as `slot_jobs`.
    """
    if cards is None:
        return [SlotJob(cards=0, slots=1, fraction=0, groups=(name,)) for name in needs]
    if fraction is None:
        fraction = max(LEAST_FRACTION, 1 / math.ceil(len(needs) / cards.count))
    sizes = {name: _fraction_for(name, need, cards, fraction) for name, need in needs.items()}
    return [
        SlotJob(cards=size, slots=1, fraction=size, groups=(name,))
        for name, size in sorted(sizes.items(), key=lambda one: -one[1])
    ]


def _fraction_for(name: str, need: int | None, cards: Cards, fraction: float) -> float:
    """Return the part of a card that a group gets: the one given, doubled until it fits.

    Raises:
        UsageError: a whole card does not suffice.
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"--gpu-fraction {fraction:g} is no part of a card; give one such as 0.25")
    if need is None or cards.bytes_each is None:
        return fraction
    size = fraction
    while need > size * cards.bytes_each:
        if size == 1:
            raise UsageError(
                f"{name} needs {size_text(need)}, and one {cards.kind} has "
                f"{size_text(cards.bytes_each)}; leave it out, or give a smaller --batch-size"
            )
        size = min(1.0, 2 * size)
    return size


POLL_S = 0.2
UNNAMED = "GPU"
NO_GPU = ""
"""Name of the place of workers without a GPU."""


class Gpus(Frozen):
    """The GPUs that this process may use, in order."""

    names: tuple[str, ...]
    """Numbers or UUIDs, as ``CUDA_VISIBLE_DEVICES`` takes them."""
    cards: Cards


def gpus_here(variables: Mapping[str, str] = os.environ) -> Gpus | None:
    """Return the visible GPUs of this machine; None without GPUs.

    Where NVML does not work, as in some containers, ``CUDA_VISIBLE_DEVICES`` alone names them.

    Raises:
        GpuLostError: a GPU does not answer.
    """
    units = visible_units(variables)
    if units:
        names = tuple(one.uuid if one.is_slice else str(one.index) for one in units)
        memories = [memory_of(one.handle) for one in units]
        least = min((one.total for one in memories if one is not None), default=None)
        return Gpus(
            names=names, cards=Cards(kind=units[0].name, count=len(names), bytes_each=least)
        )
    given = variables.get(VISIBLE_VARIABLE, "")
    words = tuple(word.strip() for word in given.split(",") if word.strip() not in {"", "-1"})
    if not words:
        return None
    return Gpus(names=words, cards=Cards(kind=UNNAMED, count=len(words), bytes_each=None))


def require_shareable(plan: Plan, instead: str, suite: Suite | None = None) -> None:
    """Refuse a plan whose cells cannot be measured by several processes on one machine.

    Args:
        plan: the cells.
        instead: the advice, such as "queue them with exec".
        suite: of the plan; None for the installed one of its name.

    Raises:
        UsageError: the cells need the machine for themselves.
    """
    if not (suite or suite_named(plan.suite)).shares_machine:
        raise UsageError(f"cells of {plan.suite} need the machine for themselves; {instead}")
    if plan.allotment is not None:
        raise UsageError(
            "--time is spent on cells that are compared with one another, and each worker has only "
            f"some of those; leave it out, or {instead}"
        )


def jobs_here(
    plan: Plan, fraction: float | None, slots: int | None, gpus: Gpus | None
) -> list[SlotJob]:
    """Return the jobs of workers on this machine.

    Raises:
        UsageError: no cell can be measured, no GPU is visible, or a group fits on no GPU.
    """
    needs = group_bytes(plan)
    if not needs:
        raise NothingToMeasureError
    if gpus is None and plan.platform == "gpu":
        raise UsageError("no GPU is visible here; check nvidia-smi and CUDA_VISIBLE_DEVICES")
    if gpus is None and slots is None:
        raise UsageError("no GPU is visible here; give --slots a number of processes")
    return slot_jobs(needs, None if gpus is None else gpus.cards, fraction, slots)


@dataclass
class _Working:
    """A job whose workers run."""

    job: SlotJob
    gpu: str
    workers: list[Popen[str]]


@dataclass
class _Machine:
    """The free part of each GPU, and the workers."""

    free: dict[str, float]
    start: Callable[[SlotJob, str, int], Popen[str]]
    working: list[_Working] = field(default_factory=list)
    started: int = 0

    def begin(self, job: SlotJob) -> bool:
        """Start a job's workers on a GPU that has room; False if none has."""
        fits = [name for name, part in self.free.items() if part >= job.cards - ROUNDING]
        if not fits:
            return False
        self.free[fits[0]] -= job.cards
        working = _Working(job, fits[0], [])
        self.working.append(working)
        for _ in range(job.slots):
            self.started += 1
            working.workers.append(self.start(job, fits[0], self.started))
        return True

    def ended(self) -> list[int]:
        """Return the exit statuses of jobs that have ended, and free their GPUs."""
        over = [one for one in self.working if all(p.poll() is not None for p in one.workers)]
        for one in over:
            self.working.remove(one)
            self.free[one.gpu] += one.job.cards
        return [worker.returncode for one in over for worker in one.workers]

    def terminate(self) -> None:
        """Ask all workers to end, and wait: they write down what they measured."""
        workers = [worker for one in self.working for worker in one.workers]
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()


def work_in_slots(
    plan: Plan,
    output: Path,
    jobs: Sequence[SlotJob],
    gpus: Gpus | None,
    words: Sequence[str],
    tell: Callable[[str], None],
) -> list[int]:
    """Measure a plan by workers on this machine; returns their exit statuses.

    If a worker dies, another one takes its group. Ctrl-C and a request to terminate end all.

    Args:
        plan: the cells.
        output: the run's directory.
        jobs: of `jobs_here`.
        gpus: of `gpus_here`.
        words: further options of ``skymark run``.
        tell: gets the lines of each worker.
    """
    names = (NO_GPU,) if gpus is None else gpus.names
    with TemporaryDirectory() as place:
        file = Path(place, "plan.json")
        write_plan(plan, file)
        command = (sys.executable, "-m", "skymark", "run", "--plan", str(file), "--share")

        def start(job: SlotJob, gpu: str, number: int) -> Popen[str]:
            groups = [word for name in job.groups for word in ("--group", name)]
            variables = dict(os.environ)
            if gpu != NO_GPU:
                fraction = {FRACTION_VARIABLE: f"{job.fraction:g}", VISIBLE_VARIABLE: gpu}
                variables |= fraction
            process = Popen(
                [*command, "--output", str(output), *words, *groups],
                env=variables,
                stdout=PIPE,
                stderr=STDOUT,
                text=True,
                errors="replace",
            )
            Thread(target=_pass_on, args=(process, f"slot {number}", tell), daemon=True).start()
            return process

        machine = _Machine(dict.fromkeys(names, 1.0), start)
        left, statuses = deque(jobs), []
        try:
            while left or machine.working:
                while left and machine.begin(left[0]):
                    left.popleft()
                time.sleep(POLL_S)
                statuses += machine.ended()
        finally:
            machine.terminate()
        return statuses


def _pass_on(process: Popen[str], title: str, tell: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        tell(f"{title}: {line.rstrip()}")
