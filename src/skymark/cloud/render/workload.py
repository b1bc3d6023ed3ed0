"""The work that a job file carries: a plan's options, its split, and what each worker asks for."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from pydantic import Field

from skymark.cache.location import Policy
from skymark.execute.partition.explain import ResourceRequest
from skymark.execute.partition.split import Split
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.machine import Platform
from skymark.model.plan import Plan
from skymark.store.kinds import kind_of, kinds

GB_PER_CPU = 2.0
"""Memory of a worker where no total is given."""

SHARED_MEMORY_GB = 8.0
"""Of a pod's /dev/shm; half of its memory where that is less."""

RESULTS = "/app/results"
"""Directory of runs in skymark's images."""


class Workload(Frozen):
    """A plan that several workers share. Building one contacts nobody."""

    profile: str
    run_id: str
    """Of all workers: their parts are one run in the store."""
    words: tuple[str, ...]
    """Options of ``skymark run`` that say what to measure, and how."""
    build_venvs: str
    """The command that makes the adapters' venvs, where workers have no network."""
    split: Split
    notes: tuple[str, ...] = ()
    """Sentences on the expected time, the parts, and workers without work."""
    requests: tuple[ResourceRequest, ...] = Field(min_length=1)
    """Of each type of workers."""
    stores: tuple[str, ...] = ()
    platform: Platform = "cpu"
    alone: bool = True
    """Whether a cell needs its machine for itself."""
    cache_policy: Policy | None = None
    """Of the libraries' caches; None for their own places."""
    cache_root: str | None = None
    """Directory of the machines that the caches lie in; None for each one's own."""

    @property
    def has_job_caches(self) -> bool:
        """Whether each job has caches of its own, which go with it."""
        return self.cache_policy is Policy.PER_JOB

    @property
    def workers(self) -> int:
        """Workers in all, completions counted."""
        return len(self.split.places)

    @property
    def summary(self) -> list[str]:
        """Number of tasks, shared plan and time, for comments."""
        if self.workers == 1:
            return [f"One worker measures {self.profile}", *self.notes]
        return [f"{self.workers} workers share {self.profile}: {self.split.text}", *self.notes]

    @property
    def summary_of_pods(self) -> list[str]:
        """The summary, where results go, and how the image gets its venvs."""
        return [
            *self.summary,
            f"Results: {self.stores[0]}/{self.run_id}",
            f"Pods without a network: the image must hold the venvs, by {self.build_venvs}",
        ]

    def options(
        self, output: str, stores: Sequence[str] | None = None, cache_root: str | None = None
    ) -> list[str]:
        """Return the options of ``skymark run`` for any of the workers: their variables differ.

        Args:
            output: the run's directory.
            stores: in place of the workload's.
            cache_root: likewise.
        """
        named = self.stores if stores is None else stores
        caches = {
            "--cache-policy": self.cache_policy,
            "--cache-root": cache_root or self.cache_root,
        }
        return [
            *self.words,
            *("--split", self.split.text),
            *(word for name, one in caches.items() if one is not None for word in (name, str(one))),
            *("--output", output),
            *(word for store in named for word in ("--store", store)),
        ]


def require_fit_for_containers(workload: Workload, plan: Plan) -> None:
    """Refuse what a container of skymark's image would not have, or would lose.

    Raises:
        UsageError: the profile or data is a file here, the directory of caches has a variable, no
            store outlives the container, or nothing tells how many CPUs a worker asks for.
    """
    if workload.profile.endswith(".toml"):
        raise UsageError(
            f"{workload.profile} is a local file, which the image does not contain; give one of "
            "`skymark list profiles` with --scenarios, --adapters and --set"
        )
    if files := sorted({file for one in plan.cells for file in one.local_files}):
        raise UsageError(
            f"{files[0]} lies on this machine, and a container has it not; give an address such "
            "as hf://owner/name"
        )
    if workload.cache_root is not None and not workload.cache_root.startswith("/"):
        raise UsageError(
            f"--cache-root {workload.cache_root} has a variable, which no container fills in; give "
            "the whole path"
        )
    if not any(kind_of(store).outlives_machine for store in workload.stores):
        fit = " or ".join(f"--store {one.address}" for one in kinds() if one.outlives_machine)
        raise UsageError(
            "a container's disk goes with it, and the workers' parts become one run in a store; "
            f"add {fit}"
        )
    require_cpus(workload.requests)


def require_cpus(requests: Sequence[ResourceRequest]) -> None:
    """Refuse pods that ask for no CPUs.

    Raises:
        UsageError: it is so.
    """
    if any(one.cpus is None for one in requests):
        raise UsageError(
            "nothing tells how many CPUs a worker asks for; give --total-cpus, such as 200, or a "
            "split that names them, such as weighted:heavy=1x60,worker=7x20"
        )


def memory_gb(request: ResourceRequest) -> float:
    """Return the memory of a worker: its share of the total, else 2 GB for each CPU."""
    if request.memory_gb is not None:
        return request.memory_gb
    return round((request.cpus or 1) * GB_PER_CPU, 2)


def shared_memory_gb(
    requests: Sequence[ResourceRequest], given_gb: float | None, loader_processes: bool
) -> float:
    """Return the size of the pods' /dev/shm, which counts as memory of theirs.

    Args:
        requests: of each type of pods.
        given_gb: None for `SHARED_MEMORY_GB`.
        loader_processes: whether processes pass batches through it.

    Raises:
        UsageError: it is as large as the memory of a pod, or there is none and batches need it.
    """
    least_gb = min(map(memory_gb, requests))
    if given_gb is None:
        half_gb = least_gb / 2
        return min(SHARED_MEMORY_GB, math.floor(half_gb) or round(half_gb, 3))
    if given_gb >= least_gb:
        raise UsageError(
            f"--shared-memory {given_gb:g} takes all {least_gb:g} GB of a pod, whose memory it is "
            f"part of; give less, such as {least_gb / 2:g}, or a larger --total-memory"
        )
    if not given_gb and loader_processes:
        raise UsageError(
            "--shared-memory 0 leaves no room for the batches of worker processes; leave it out, "
            "or give --workers 0"
        )
    return given_gb


def require_types(found: Collection[str], split: Split) -> None:
    """Refuse a site's template that names other types of workers than the split.

    Raises:
        UsageError: it does.
    """
    known = [one.name for one in split.types]
    if others := sorted(set(found) - set(known)):
        raise UsageError(
            f"--template names the type {others[0]}, and --split {split.text} has "
            f"{', '.join(known)}; use one of these"
        )
