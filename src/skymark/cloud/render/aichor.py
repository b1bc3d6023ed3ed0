"""Manifests for AIchor: workers of one or more types, by its operator for JobSets."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from skymark.cloud.render.manifest import merged
from skymark.cloud.render.workload import RESULTS, Workload, memory_gb, require_types
from skymark.execute.partition.explain import ResourceRequest
from skymark.execute.partition.split import Split, read_split
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

ApiVersion = Literal["0.2.3", "0.2.1"]
"""Schemas of manifests. The older one has no ``memory`` and no ``timeout``."""
FOLDER = "aichor_manifests"
"""The only folder of a repository in which AIchor looks for manifests of 0.2.3."""
UNITS_S = {"d": 86400, "h": 3600, "m": 60}
STEPS = 1000
"""Bytes of a gigabyte, the unit of memory per CPU."""
OWN = {
    "apiVersion", "kind", "operator", "command", "count", "completions", "parallelisms",
}  # fmt: skip
"""Fields that a site's template cannot set: they make each worker's part."""

SCENARIOS = {
    1: "even:10",
    2: "weighted:worker-heavy=1x60,worker=7x20",
    3: "two-level:5x10",
    4: "waves:5x10/4",
}
"""The split of each scenario, unless others numbers are given."""


class AichorFields(Frozen):
    """The fields of a manifest that no workload has."""

    image: str
    """Name of the image that AIchor builds."""
    dockerfile: str
    command: str
    shared_memory_gb: float
    """Shared memory of each pod, for loaders whose worker processes pass batches through it."""
    api_version: ApiVersion = "0.2.3"
    limit_s: int | None = None
    """Of the whole experiment; None for AIchor's own."""
    gpus: str | None = None
    """GPUs of each pod, such as ``NVIDIA-H100-80GB-HBM3:1``."""


def split_of_scenario(scenario: int | None, text: str | None) -> Split:
    """Return the split of a scenario: its default, or a given split of its kind.

    Raises:
        UsageError: neither is given, or the split belongs to another scenario.
    """
    if scenario is None and text is None:
        raise UsageError("give --scenario 1, 2, 3 or 4, or a --split such as even:10")
    split = read_split(SCENARIOS[scenario or 1] if text is None else text)
    usual = None if scenario is None else SCENARIOS[scenario].partition(":")[0]
    flat = {"even", "balanced", "longest"}
    if usual is not None and split.kind != usual and not {split.kind, usual} <= flat:
        raise UsageError(
            f"--split {split.text} does not fit --scenario {scenario}, which needs a split such as "
            f"{SCENARIOS[scenario or 1]}; leave out one of these options"
        )
    return split


def command_of(workload: Workload) -> str:
    """Return the command of all workers, which run skymark in its image."""
    return shlex.join(
        [
            *("skymark-entrypoint", "python", "-m", "benchmarks.runners.full_runner"),
            *("--platform", workload.platform),
            *workload.options(f"{RESULTS}/{workload.run_id}"),
        ]
    )


def aichor_manifest(
    split: Split, requests: Sequence[ResourceRequest], fields: AichorFields, site: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest of workers on AIchor.

    Args:
        split: its types of workers.
        requests: of each type.
        fields: what they do not say.
        site: a part of a manifest that is merged in.

    Raises:
        UsageError: a worker has too little memory, the GPUs cannot be read, or the site's part does
            not fit.
    """
    made = {
        "kind": "AIchorManifest",
        "apiVersion": fields.api_version,
        "builder": {"image": fields.image, "dockerfile": fields.dockerfile, "context": "."},
        "spec": {
            "operator": "jobset",
            "image": fields.image,
            "command": fields.command,
            **_timeout(fields),
            "types": {request.type.name: _type(request, fields) for request in requests},
        },
    }
    manifest = merged(made, site, OWN)
    require_types(manifest["spec"]["types"], split)
    return manifest


def next_step(api_version: ApiVersion, file: Path) -> str:
    """Return the command that starts an experiment with a manifest's file."""
    if api_version == "0.2.1":
        return f"commit {file} as manifest.yaml"
    if FOLDER not in file.parts:
        return f"put {file} below {FOLDER}/ of your repository, the only folder that AIchor reads"
    path = Path(*file.parts[file.parts.index(FOLDER) + 1 :])
    return f"git add {file} && git commit -m 'aichor[{path}]: start' && git push"


def _timeout(fields: AichorFields) -> dict[str, str]:
    if fields.limit_s is None or fields.api_version == "0.2.1":
        return {}
    limit_s = math.ceil(fields.limit_s / 60) * 60
    unit = next(unit for unit, seconds in UNITS_S.items() if limit_s % seconds == 0)
    return {"timeout": f"{limit_s // UNITS_S[unit]}{unit}"}


def _type(request: ResourceRequest, fields: AichorFields) -> dict[str, Any]:
    cpus = request.cpus or 1
    return {
        "count": request.type.count,
        "completions": request.type.completions,
        "parallelisms": request.type.at_once,  # so spelled there
        "resources": {
            "cpus": _whole(cpus),
            **_memory(request, cpus, fields.api_version),
            "shmSizeGB": _whole(fields.shared_memory_gb),
            **_accelerators(fields.gpus),
        },
    }


def _memory(
    request: ResourceRequest, cpus: float, api_version: ApiVersion
) -> dict[str, int | float]:
    """Return the memory of a pod, rounded down, so that all together stay within the total.

    Raises:
        UsageError: it is none.
    """
    amount_gb = memory_gb(request)
    if api_version == "0.2.3":
        memory: dict[str, int | float] = {"memory": math.floor(amount_gb)}
    else:
        ratio = math.floor(round(amount_gb / cpus * STEPS, 6)) / STEPS
        memory = {"ramRatio": _whole(ratio)}
    if not all(memory.values()):
        raise UsageError(
            f"{amount_gb:g} GB for {cpus:g} CPUs are too little for a pod; give a larger "
            "--total-memory"
        )
    return memory


def _accelerators(gpus: str | None) -> dict[str, Any]:
    if gpus is None:
        return {}
    match = re.fullmatch(r"([A-Za-z0-9][\w.-]*):([1-9][0-9]?)", gpus, re.ASCII)
    if match is None:
        raise UsageError(
            f"--gpus {gpus} is no product and number of GPUs; give one such as "
            "NVIDIA-H100-80GB-HBM3:1, named as the label nvidia.com/gpu.product of the nodes"
        )
    gpu = {"count": int(match[2]), "product": match[1], "type": "gpu"}
    return {"accelerators": {"gpu": gpu}}


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number
