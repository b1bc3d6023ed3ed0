"""Workload of a rendered job: sources, parts and variables, and the text of manifests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from skymark.cache.location import Policy
from skymark.cloud.machine_script import plan_file
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.tasks import make_task, send_files, set_limits
from skymark.execute.partition.shard import ResourceRequest
from skymark.execute.partition.split import Split
from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.machine import Platform
from skymark.model.manifest import RUN_ID
from skymark.model.plan import Plan
from skymark.rundir.layout import new_run_id
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


def run_named(run_id: str | None, profile: str) -> str:
    """Return the run id that was given, or that of a new run of a profile.

    Raises:
        UsageError: it cannot be one.
    """
    if run_id is None:
        return new_run_id(profile, datetime.now(UTC))
    if not RUN_ID.fullmatch(run_id):
        raise UsageError(f"--run-id {run_id!r} is no name of a run; give letters and digits")
    return run_id


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


WIDTH = 100
EACH = "*"
"""Key of a site's mapping, or name of its list's entry, that stands for every entry."""


def comment(lines: Sequence[str]) -> str:
    """Return lines as a comment of YAML and of the shell.

    Raises:
        UsageError: a line has a line break, behind which it would be no comment any more.
    """
    for line in lines:
        if not line.isprintable():
            raise UsageError(
                f"{line!r} has a line break or another control character, which no job file can "
                "have; rename the file or directory"
            )
    return "".join(f"# {line}\n" for line in lines)


def yaml_text(manifest: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Return a manifest as YAML, with its order of keys, and comment lines above.

    Multi-line texts, such as scripts, stay readable.
    """
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
        pass

    def text_node(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, text_node)
    body = yaml.dump(
        dict(manifest), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=WIDTH
    )
    return comment(comments) + str(body)


def read_template(path: Path) -> dict[str, Any]:
    """Read a site's own part of a manifest.

    Raises:
        UsageError: the file cannot be read, or is no mapping in YAML.
    """
    import yaml

    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(
            f"--template {path}: {error}; give a part of a manifest, in YAML"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"--template {path} holds no fields; give a part of a manifest, in YAML")
    return found


def merged(
    made: Mapping[str, Any], site: Mapping[str, Any], own: Collection[str], at: str = ""
) -> dict[str, Any]:
    """Return a manifest with a site's fields merged in, which count more.

    Mappings are merged key by key, and lists whose entries have a ``name`` by that name; an entry
    without a name, or named `EACH`, goes into every one. Other lists are joined.

    Args:
        made: the manifest.
        site: the same fields, as many as the site sets.
        own: fields that the split decides, which a site cannot set to another value.
        at: path of both in the manifest, for messages.

    Raises:
        UsageError: the site sets such a field, or a list or mapping to something else.
    """
    found = dict(made)
    for key, value in site.items():
        if key == EACH:
            for one in made:
                found[one] = _merged(found[one], value, own, f"{at}{one}")
        elif key in found:
            found[key] = _merged(found[key], value, own, f"{at}{key}")
        else:
            found[key] = value
    return found


def _merged(made: Any, site: Any, own: Collection[str], at: str) -> Any:
    field = at.rpartition(".")[2]
    if field in own and site != made:
        raise UsageError(
            f"--template sets {at} to {site!r}, which --split and the run decide; leave it out"
        )
    if isinstance(made, dict) and isinstance(site, dict):
        return merged(made, site, own, f"{at}.")
    if isinstance(made, list) and isinstance(site, list):
        return _joined(made, site, own, at)
    if isinstance(made, dict | list) or isinstance(site, dict | list):
        raise UsageError(
            f"--template sets {at} to {site!r}, and it is {made!r}; give the same kind of value"
        )
    return site


def _joined(made: list[Any], site: list[Any], own: Collection[str], at: str) -> list[Any]:
    if not all(isinstance(one, dict) and "name" in one for one in made):
        return made if site == made else [*made, *site]
    found = {one["name"]: one for one in made}
    for entry in site:
        name = entry.get("name", EACH) if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"--template: {entry!r} is no entry of {at}; give fields with a name")
        fields = {key: value for key, value in entry.items() if key != "name"}
        for one in list(found) if name == EACH else [name]:
            found[one] = _merged(found[one], fields, own, f"{at}.{one}") if one in found else entry
    return list(found.values())


def sky_text(run: RentedRun, plan: Plan, plan_path: Path) -> str:
    """Return the YAML of a run, without secrets.

    Args:
        run: with its machine.
        plan: its cells.
        plan_path: its file, which SkyPilot sends along.

    Raises:
        UsageError: the machine's YAML is wrong, or its machine is not to be had as requested.
    """
    task = make_task(run)
    set_limits(task, run.limits.deadline_s, None)
    send_files(task, {plan_file(run.run_id): plan_path.absolute()})
    fields = {name: value for name, value in task.to_yaml_config().items() if value}
    fields.pop("_user_specified_yaml", None)  # SkyPilot's note of the file that it was made from
    return yaml_text(
        fields,
        [
            f"The job that `skymark launch {run.profile}` starts: {len(plan.runnable)} cells",
            f"Results: ~/results/{run.run_id} on the machine; `skymark launch` brings them home",
            "and ends the machine, `sky launch FILE.yaml --down` does the latter alone.",
            "Secrets are not in here: add --secret NAME for each to `sky launch`.",
        ],
    )
