"""JobSets for Kubernetes (jobset.x-k8s.io/v1alpha2): a replicated job for each type of workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skymark.cloud.render.manifest import merged
from skymark.cloud.render.workload import RESULTS, Workload, memory_gb, require_types
from skymark.cloud.rented_run import cluster_name
from skymark.execute.partition.explain import ResourceRequest
from skymark.execute.partition.split import Split
from skymark.execute.ranks.reading import ALL_REPLICAS, COMPLETION, GLOBAL, JOB, REPLICAS, TYPE
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

OWN = {
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
    manifest = merged(made, site, OWN)
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
