"""JobSets for Kubernetes (jobset.x-k8s.io/v1alpha2): a replicated job for each type of workers."""

from __future__ import annotations

import re
from typing import Any

from skymark.cloud.render.workload import RESULTS, Workload, memory_gb
from skymark.cloud.render.yaml_text import yaml_text
from skymark.execute.partition.totals import Request
from skymark.execute.ranks.kubernetes import (
    ALL_REPLICAS,
    COMPLETION,
    GLOBAL,
    JOB,
    REPLICAS,
    TYPE,
)
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
"""Of a pod, whose name Kubernetes makes of the set's, the type's, two numbers and `SUFFIX`."""
SUFFIX = "-abcde"
"""Of a pod's name: five characters by chance, which JobSet's webhook counts, too."""
NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
SECRET = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
IMAGE = re.compile(r"\S+")

BAD_USAGE = 2
"""Exit status of what no second try mends."""
RETRIES = 3
"""Of the pods of a job that fail by themselves; those that are evicted do not count."""


def jobset_manifest(  # each is a field of the manifest
    workload: Workload,
    *,
    name: str,
    image: str,
    shared_memory_gb: float,
    gpus: int = 0,
    secret: str | None = None,
    spread: bool = True,
) -> dict[str, Any]:
    """Return the JobSet of a workload.

    Args:
        workload: what the workers share.
        name: of the JobSet.
        image: one of skymark's, whose entry point runs.
        shared_memory_gb: of each pod; it counts as its memory.
        gpus: of each pod.
        secret: a Secret whose keys become variables, for the store.
        spread: put no two pods on one node.

    Raises:
        UsageError: the name is none, or too long with those of the types; the image or the Secret
            has none that can be one.
    """
    _check_name(name, workload)
    if not IMAGE.fullmatch(image):
        raise UsageError(f"--image {image!r} is no image; give one such as registry/skymark:cpu")
    if secret is not None and not SECRET.fullmatch(secret):
        raise UsageError(
            f"--env-secret {secret!r} is no name of a Secret; `kubectl get secrets` shows them"
        )
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "skymark"}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": one.type.name,
                    "replicas": one.type.count,
                    "template": {
                        "spec": {
                            "completions": one.type.completions,
                            "parallelism": one.type.at_once,
                            "completionMode": "Indexed",
                            "backoffLimit": RETRIES * one.type.completions,
                            "podFailurePolicy": {"rules": _rules()},
                            "template": {
                                "spec": _pod(
                                    workload, one, name, image, shared_memory_gb, gpus, secret,
                                    spread=spread,
                                )
                            },
                        }
                    },
                }
                for one in workload.requests
            ]
        },
    }  # fmt: skip


def jobset_text(workload: Workload, manifest: dict[str, Any]) -> str:
    """Return a JobSet as its file has it."""
    return yaml_text(
        manifest,
        [
            workload.summary,
            f"Results: {workload.stores[0]}/{workload.run_id}",
            f"Pods without a network: the image must hold the venvs, by {workload.build_venvs}",
        ],
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


def _pod(
    workload: Workload,
    request: Request,
    name: str,
    image: str,
    shared_memory_gb: float,
    gpus: int,
    secret: str | None,
    *,
    spread: bool,
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "skymark",
        "image": image,
        "args": workload.options(f"{RESULTS}/{workload.run_id}"),
        "env": _variables(),
    }
    if secret is not None:
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    asked = {"cpu": quantity(request.cpus or 1), "memory": f"{quantity(memory_gb(request))}G"}
    if gpus:
        asked["nvidia.com/gpu"] = str(gpus)
    container["resources"] = {"requests": asked, "limits": dict(asked)}
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if shared_memory_gb:
        container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
        volume = {"medium": "Memory", "sizeLimit": f"{quantity(shared_memory_gb)}G"}
        pod["volumes"] = [{"name": "shm", "emptyDir": volume}]
    if spread:
        mates = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": name}}
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


def _check_name(name: str, workload: Workload) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r} is no name of a JobSet; give small letters, digits and hyphens, a "
            "letter first"
        )
    for one in workload.split.types:
        pod = f"{name}-{one.name}-{one.count - 1}-{one.completions - 1}{SUFFIX}"
        if len(pod) > LONGEST_NAME:
            raise UsageError(
                f"--name {name} makes names of pods such as {pod}, which are longer than "
                f"{LONGEST_NAME} characters; give one that is {len(pod) - LONGEST_NAME} shorter"
            )
