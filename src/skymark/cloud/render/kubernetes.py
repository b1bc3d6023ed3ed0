"""Kubernetes manifests: a JobSet (jobset.x-k8s.io/v1alpha2), or AIchor's, which makes one."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from skymark.cloud.render.workload import RESULTS, Workload, memory_gb, merged, require_types
from skymark.cloud.rented_run import cluster_name
from skymark.execute.partition.shard import ResourceRequest
from skymark.execute.partition.split import Split, read_split
from skymark.execute.rank import ALL_REPLICAS, COMPLETION, GLOBAL, JOB, REPLICAS, TYPE
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

LABELS = {
    TYPE: "replicatedjob-name",
    JOB: "job-index",
    GLOBAL: "job-global-index",
    REPLICAS: "replicatedjob-replicas",
    ALL_REPLICAS: "global-replicas",
}
"""Labels below ``jobset.sigs.k8s.io/`` that the controller sets, by the variable they become."""

LONGEST_NAME = 63
"""Longest name of a pod: Kubernetes joins the names of set and type, two numbers and `SUFFIX`."""
SUFFIX = "-abcde"
"""Random end of a pod's name, five characters, which JobSet's webhook counts, too."""
NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
SECRET = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
IMAGE = re.compile(r"\S+")

JOBSET_FIELDS = {
    "apiVersion", "kind", "name", "replicas", "completions", "parallelism", "completionMode",
    "args", "restartPolicy", COMPLETION, *LABELS,
}  # fmt: skip
"""Fields and variables that a site's template cannot set: they make each worker's part."""

BAD_USAGE = 2
"""Exit status of a failure that no retry can fix."""
RETRIES = 3
"""Retries of a job's pods that fail by themselves; evicted pods do not count."""


class JobSetFields(Frozen):
    """Fields of a JobSet besides the workload."""

    name: str
    image: str
    """A container image of skymark; its entry point runs."""
    shared_memory_gb: float
    """Of each pod; it counts as its memory."""
    limit_s: int | None = None
    """Time limit of each job, including the wait for nodes; None for no limit."""
    gpus: int = 0
    """Of each pod."""
    secret: str | None = None
    """A Secret whose keys become variables, for the store."""
    spread: bool = True
    """Put no two pods on one node."""


def jobset_manifest(
    workload: Workload, fields: JobSetFields, site: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JobSet of a workload.

    Args:
        workload: what the workers share.
        fields: what it does not say.
        site: a part of a JobSet that is merged in.

    Raises:
        UsageError: the image or the Secret has a name that cannot be one, or the site's part does
            not fit.
    """
    if not IMAGE.fullmatch(fields.image):
        raise UsageError(
            f"--image {fields.image!r} is no image; give one such as registry/skymark:cpu"
        )
    if fields.secret is not None and not SECRET.fullmatch(fields.secret):
        raise UsageError(
            f"--env-secret {fields.secret!r} is no name of a Secret; `kubectl get secrets` shows "
            "them"
        )
    limit = {} if fields.limit_s is None else {"activeDeadlineSeconds": fields.limit_s}
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": fields.name, "labels": {"app.kubernetes.io/name": "skymark"}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": request.type.name,
                    "replicas": request.type.count,
                    "template": {
                        "spec": {
                            "completions": request.type.completions,
                            "parallelism": request.type.at_once,
                            "completionMode": "Indexed",
                            "backoffLimit": RETRIES * request.type.completions,
                            **limit,
                            "podFailurePolicy": {"rules": _rules()},
                            "template": {"spec": _pod(workload, request, fields)},
                        }
                    },
                }
                for request in workload.requests
            ]
        },
    }
    manifest = merged(made, site, JOBSET_FIELDS)
    require_types([job["name"] for job in manifest["spec"]["replicatedJobs"]], workload.split)
    return manifest


def name_of_set(given: str | None, profile: str, split: Split) -> str:
    """Return the name of a JobSet whose pods have names that Kubernetes takes.

    Args:
        given: by the user; None for the profile's, cut where it is too long.
        profile: its name.
        split: its types, numbers and completions are in the pods' names.

    Raises:
        UsageError: it is no name, or too long.
    """
    name = given or cluster_name(profile)
    if not NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r} is no name of a JobSet; give small letters, digits and hyphens, a "
            "letter first"
        )
    ends = (f"-{kind.name}-{kind.count - 1}-{kind.completions - 1}{SUFFIX}" for kind in split.types)
    end = max(ends, key=len)
    room = LONGEST_NAME - len(end)
    if len(name) <= room:
        return name
    if given is None and room > 0:
        return name[:room].rstrip("-")
    raise UsageError(
        f"--name {name} makes pod names such as {name}{end} that exceed {LONGEST_NAME} "
        f"characters; shorten it by {len(name) - room}"
    )


def quantity(number: float) -> str:
    """Return a number as a quantity of Kubernetes has it, which takes no exponent with a unit."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _rules() -> list[dict[str, Any]]:
    return [
        {  # a node that goes is nobody's fault; the next pod goes on where this one was
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
        {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": "skymark",
                "operator": "In",
                "values": [BAD_USAGE],
            },
        },
    ]


def _pod(workload: Workload, request: ResourceRequest, fields: JobSetFields) -> dict[str, Any]:
    words = workload.options(f"{RESULTS}/{workload.run_id}")
    container: dict[str, Any] = {
        "name": "skymark",
        "image": fields.image,
        "args": [word.replace("$", "$$") for word in words],  # $(NAME) would be filled in
        "env": _variables(),
    }
    if fields.secret is not None:
        container["envFrom"] = [{"secretRef": {"name": fields.secret}}]
    asked = {"cpu": quantity(request.cpus or 1), "memory": f"{quantity(memory_gb(request))}G"}
    if fields.gpus:
        asked["nvidia.com/gpu"] = str(fields.gpus)
    container["resources"] = {"requests": asked, "limits": dict(asked)}
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if fields.shared_memory_gb:
        container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
        volume = {"medium": "Memory", "sizeLimit": f"{quantity(fields.shared_memory_gb)}G"}
        pod["volumes"] = [{"name": "shm", "emptyDir": volume}]
    if fields.spread:
        mates = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": fields.name}}
        term = {"labelSelector": mates, "topologyKey": "kubernetes.io/hostname"}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod["affinity"] = {"podAntiAffinity": required}
    return pod


def _variables() -> list[dict[str, Any]]:
    """Return the variables that tell a pod its rank, by the downward API."""
    fields = {
        **{
            name: f"metadata.labels['jobset.sigs.k8s.io/{label}']" for name, label in LABELS.items()
        },
        COMPLETION: "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    }
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]


ApiVersion = Literal["0.2.3", "0.2.1"]
"""Schemas of manifests. The older one has no ``memory`` and no ``timeout``."""
FOLDER = "aichor_manifests"
"""The only folder of a repository in which AIchor looks for manifests of 0.2.3."""
UNITS_S = {"d": 86400, "h": 3600, "m": 60}
STEPS = 1000
"""Bytes of a gigabyte, the unit of memory per CPU."""
AICHOR_FIELDS = {
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
    manifest = merged(made, site, AICHOR_FIELDS)
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
