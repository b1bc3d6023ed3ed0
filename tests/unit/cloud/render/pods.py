"""A stand-in for the controllers of Kubernetes and AIchor: the pods of a manifest, in waves.

It makes what a cluster makes of a manifest, and no more: names, labels, annotations, and the
variables that come from them. Nothing of skymark is used, so that the two cannot agree by mistake.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any


@dataclass(frozen=True)
class Pod:
    """One pod: its arguments and its variables."""

    name: str
    words: list[str]
    """After the image's entry point."""
    variables: dict[str, str]


def pods_of_jobset(manifest: dict[str, Any]) -> Iterator[list[Pod]]:
    """Yield the pods of a JobSet in waves: those of each job that run at the same time."""
    jobs = manifest["spec"]["replicatedJobs"]
    name = manifest["metadata"]["name"]
    over_all = count()
    sets = []
    for job in jobs:
        for index in range(job["replicas"]):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/replicatedjob-name": job["name"],
                "jobset.sigs.k8s.io/replicatedjob-replicas": str(job["replicas"]),
                "jobset.sigs.k8s.io/global-replicas": str(sum(one["replicas"] for one in jobs)),
                "jobset.sigs.k8s.io/job-index": str(index),
                "jobset.sigs.k8s.io/job-global-index": str(next(over_all)),
            }
            spec = job["template"]["spec"]
            sets.append(
                [
                    _pod(f"{name}-{job['name']}-{index}", spec, labels, at)
                    for at in range(spec["completions"])
                ]
            )
    yield from _waves(
        sets,
        [job["template"]["spec"]["parallelism"] for job in jobs for _ in range(job["replicas"])],
    )


def pods_of_aichor(manifest: dict[str, Any]) -> Iterator[list[Pod]]:
    """Yield the pods of a manifest of AIchor's in waves; words of skymark begin with --platform."""
    types = manifest["spec"]["types"]
    words = shlex.split(manifest["spec"]["command"])
    over_all = count()
    sets, widths = [], []
    for name, one in types.items():
        for index in range(one["count"]):
            shared = {
                "JOB_INDEX": str(index),
                "JOB_GLOBAL_INDEX": str(next(over_all)),
                "REPLICATED_JOB_NAME": name,
                "REPLICATED_JOB_REPLICAS": str(one["count"]),
                "GLOBAL_REPLICAS": str(sum(each["count"] for each in types.values())),
            }
            sets.append(
                [
                    Pod(
                        f"{name}-{index}-{at}",
                        words[words.index("--platform") :] if "--platform" in words else words,
                        shared | {"JOB_COMPLETION_INDEX": str(at)},
                    )
                    for at in range(one.get("completions", 1))
                ]
            )
            widths.append(one.get("parallelisms", 1))
    yield from _waves(sets, widths)


def _pod(name: str, spec: dict[str, Any], labels: dict[str, str], completion: int) -> Pod:
    (container,) = spec["template"]["spec"]["containers"]
    annotations = {"batch.kubernetes.io/job-completion-index": str(completion)}
    fields = {"labels": labels, "annotations": annotations}
    variables = {"JOB_COMPLETION_INDEX": str(completion)}  # of every pod of an Indexed Job
    for variable in container["env"]:
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        kind, key = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path).groups()
        variables[variable["name"]] = fields[kind].get(key, "")
    return Pod(f"{name}-{completion}", container["args"], variables)


def _waves(sets: list[list[Pod]], widths: list[int]) -> Iterator[list[Pod]]:
    """Yield those that run at once: of each job as many as it may, until all have run."""
    left = [list(pods) for pods in sets]
    while any(left):
        yield [pod for pods, width in zip(left, widths, strict=True) for pod in pods[:width]]
        left = [pods[width:] for pods, width in zip(left, widths, strict=True)]
