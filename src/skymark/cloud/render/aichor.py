"""Manifests for AIchor: workers of one or more types, by its operator for JobSets."""

from __future__ import annotations

import math
import shlex
from typing import Any

from skymark.cloud.render.workload import RESULTS, Workload, memory_gb
from skymark.cloud.render.yaml_text import yaml_text
from skymark.execute.partition.split import Split
from skymark.execute.partition.split_text import read_split
from skymark.execute.partition.totals import Request
from skymark.model.errors import UsageError

API_VERSION = "0.2.1"
STEPS = 1000
"""Of a gigabyte, in which memory per CPU is counted."""

SCENARIOS = {
    1: "even:10",
    2: "weighted:worker-heavy=1x60,worker=7x20",
    3: "two-level:5x10",
    4: "waves:5x10/4",
}
"""The split of each scenario, unless others numbers are given."""


def split_of_scenario(scenario: int | None, text: str | None) -> Split:
    """Return the split of a scenario: the usual one, or one of its kind.

    Raises:
        UsageError: neither is given, or the split is of another scenario.
    """
    if scenario is None and text is None:
        raise UsageError("give --scenario 1, 2, 3 or 4, or a --split such as even:10")
    split = read_split(SCENARIOS[scenario or 1] if text is None else text)
    usual = None if scenario is None else SCENARIOS[scenario].partition(":")[0]
    flat = {"even", "balanced", "longest"}
    if usual is not None and split.kind != usual and not {split.kind, usual} <= flat:
        raise UsageError(
            f"--split {split.text} is no split of --scenario {scenario}, which is such as "
            f"{SCENARIOS[scenario or 1]}; leave one of them out"
        )
    return split


def aichor_manifest(workload: Workload, image: str, shared_memory_gb: float) -> dict[str, Any]:
    """Return the manifest of a workload on AIchor.

    Args:
        workload: CPU workers.
        image: name of the image that AIchor builds.
        shared_memory_gb: of each pod, for loaders whose worker processes pass batches through it.

    Raises:
        UsageError: the workload needs an accelerator, of which no field is known here.
    """
    if workload.platform != "cpu":
        raise UsageError(
            f"the profile {workload.profile} is for a {workload.platform.upper()}, and skymark "
            "does not know how AIchor names accelerators; give a profile for CPUs"
        )
    command = [
        *("skymark-entrypoint", "python", "-m", "benchmarks.runners.full_runner"),
        *("--platform", workload.platform),
        *workload.options(f"{RESULTS}/{workload.run_id}"),
    ]
    return {
        "kind": "AIchorManifest",
        "apiVersion": API_VERSION,
        "builder": {
            "image": image,
            "dockerfile": f"./benchmarks/docker/Dockerfile.{workload.platform}",
            "context": ".",
        },
        "spec": {
            "operator": "jobset",
            "image": image,
            "command": shlex.join(command),
            "types": {one.type.name: _type(one, shared_memory_gb) for one in workload.requests},
        },
    }


def aichor_text(workload: Workload, manifest: dict[str, Any]) -> str:
    """Return a manifest of AIchor's as its file has it."""
    return yaml_text(
        manifest,
        [
            workload.summary,
            f"Results: {workload.stores[0]}/{workload.run_id}; its keys come from the project.",
            f"Pods without a network: the image must hold the venvs, by {workload.build_venvs}",
        ],
    )


def _type(request: Request, shared_memory_gb: float) -> dict[str, Any]:
    cpus = request.cpus or 1
    return {
        "count": request.type.count,
        "completions": request.type.completions,
        "parallelisms": request.type.at_once,  # so spelled there
        "resources": {
            "cpus": _whole(cpus),
            "ramRatio": _whole(_ram_ratio(memory_gb(request), cpus)),
            "shmSizeGB": _whole(shared_memory_gb),
        },
    }


def _ram_ratio(memory_gb: float, cpus: float) -> float:
    """Return GB per CPU, rounded down, so that all together stay within the total.

    Raises:
        UsageError: it is none.
    """
    ratio = math.floor(round(memory_gb / cpus * STEPS, 6)) / STEPS
    if not ratio:
        raise UsageError(
            f"{memory_gb:g} GB for {cpus:g} CPUs are too little for each of them; give a larger "
            "--total-memory"
        )
    return ratio


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number
