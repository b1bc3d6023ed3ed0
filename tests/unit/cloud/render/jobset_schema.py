"""The schema of a JobSet, jobset.x-k8s.io/v1alpha2, as far as manifests here can go.

Fields, types, required ones, enums and limits are those of the resource's definition
(kubernetes-sigs/jobset, config/components/crd) and of what its webhook refuses. Of JobSet's own
fields all are here; of a Job's and a pod's (batch/v1, core/v1) those that skymark writes. A field
that is not here is refused, as a server with strict validation refuses it.
"""

from __future__ import annotations

import re
from typing import Any


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


TEXT = {"type": "string"}
BOOLEAN = {"type": "boolean"}
INT32 = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
SOME = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
AT_ONCE = {"type": "integer", "minimum": 1, "maximum": 100_000}
"""Pods of an Indexed Job that run at the same time."""
LABEL = {
    "type": "string",
    "maxLength": 63,
    "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
}
DNS_LABEL = {"type": "string", "maxLength": 63, "pattern": r"^[a-z]([-a-z0-9]*[a-z0-9])?$"}
DNS_SUBDOMAIN = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
LABELS = {"type": "object", "additionalProperties": LABEL}
# A number with a suffix or with an exponent, and never with both.
QUANTITY = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]*)?(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$",
}
QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}
METADATA = closed(
    (), name=DNS_LABEL, namespace=DNS_LABEL, labels=LABELS,
    annotations={"type": "object", "additionalProperties": TEXT},
)  # fmt: skip
SELECTOR = closed((), matchLabels=LABELS)
AFFINITY_TERM = closed(("topologyKey",), labelSelector=SELECTOR, topologyKey=TEXT)
CONTAINER = closed(
    ("name", "image"),
    name=DNS_LABEL,
    image={"type": "string", "pattern": r"^\S+$"},
    command=array(TEXT),
    args=array(TEXT),
    env=array(
        closed(
            ("name",),
            name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            value=TEXT,
            valueFrom=closed(
                ("fieldRef",),
                fieldRef=closed(
                    ("fieldPath",),
                    apiVersion=TEXT,
                    fieldPath={
                        "type": "string",
                        "pattern": r"^metadata\.(labels|annotations)\['[a-z0-9./-]+'\]$",
                    },
                ),
            ),
        )
    ),
    imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
    securityContext={"type": "object"},
    envFrom=array(closed((), secretRef=closed(("name",), name=DNS_SUBDOMAIN, optional=BOOLEAN))),
    resources=closed((), requests=QUANTITIES, limits=QUANTITIES),
    volumeMounts=array(
        closed(
            ("name", "mountPath"),
            name=DNS_LABEL,
            mountPath={"type": "string", "pattern": "^/[^:]*$"},
            readOnly=BOOLEAN,
        )
    ),
)
TOLERATION = closed(
    (),
    key=TEXT,
    operator={"enum": ["Exists", "Equal"]},
    value=TEXT,
    effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
    tolerationSeconds={"type": "integer"},
)
POD = closed(
    ("containers", "restartPolicy"),
    tolerations=array(TOLERATION),
    nodeSelector=LABELS,
    imagePullSecrets=array(closed(("name",), name=DNS_SUBDOMAIN)),
    serviceAccountName=DNS_SUBDOMAIN,
    priorityClassName=DNS_SUBDOMAIN,
    schedulerName=TEXT,
    activeDeadlineSeconds=SOME,
    securityContext={"type": "object"},
    runtimeClassName=DNS_SUBDOMAIN,
    # A Job takes no other; with a pod failure policy it takes Never alone.
    restartPolicy={"enum": ["Never"]},
    containers=array(CONTAINER, minItems=1),
    volumes=array(
        closed(
            ("name",),
            name=DNS_LABEL,
            emptyDir=closed((), medium={"enum": ["", "Memory"]}, sizeLimit=QUANTITY),
            persistentVolumeClaim=closed(("claimName",), claimName=DNS_SUBDOMAIN, readOnly=BOOLEAN),
        )
    ),
    affinity=closed(
        (),
        podAntiAffinity=closed(
            (), requiredDuringSchedulingIgnoredDuringExecution=array(AFFINITY_TERM)
        ),
    ),
)
FAILURE_RULE = closed(
    ("action",),
    # FailIndex needs backoffLimitPerIndex, which is not among a Job's fields here.
    action={"enum": ["FailJob", "Ignore", "Count"]},
    onExitCodes=closed(
        ("operator", "values"),
        containerName=DNS_LABEL,
        operator={"enum": ["In", "NotIn"]},
        values=array(SOME, minItems=1, maxItems=255, uniqueItems=True),
    ),
    onPodConditions=array(
        closed(("type", "status"), type=TEXT, status={"enum": ["True", "False", "Unknown"]}),
        minItems=1,
        maxItems=20,
    ),
) | {"oneOf": [{"required": ["onExitCodes"]}, {"required": ["onPodConditions"]}]}
JOB = closed(
    # Only an Indexed Job numbers its pods, and it must say how many it has.
    ("template", "completions", "completionMode"),
    completions=SOME,
    parallelism=AT_ONCE,
    completionMode={"const": "Indexed"},
    backoffLimit=INT32,
    activeDeadlineSeconds={"type": "integer", "minimum": 1},
    ttlSecondsAfterFinished=INT32,
    suspend=BOOLEAN,
    podFailurePolicy=closed(("rules",), rules=array(FAILURE_RULE, minItems=1, maxItems=20)),
    template=closed(("spec",), metadata=METADATA, spec=POD),
)
REPLICATED_JOB = closed(
    ("name", "template"),
    name=DNS_LABEL,
    groupName=DNS_LABEL,
    replicas=INT32,
    template=closed((), metadata=METADATA, spec=JOB),
    dependsOn=array(
        closed(("name", "status"), name=TEXT, status={"enum": ["Ready", "Complete"]}), maxItems=1
    ),
)
JOBSET = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=METADATA | {"required": ["name"]},
    spec=closed(
        (),
        replicatedJobs=array(REPLICATED_JOB, minItems=1),
        coordinator=closed(("replicatedJob",), replicatedJob=TEXT, jobIndex=INT32, podIndex=INT32),
        managedBy={"type": "string", "maxLength": 63, "pattern": "^[^/]+/.+$"},
        network=closed(
            (), enableDNSHostnames=BOOLEAN, publishNotReadyAddresses=BOOLEAN, subdomain=DNS_LABEL
        ),
        startupPolicy=closed(
            ("startupPolicyOrder",), startupPolicyOrder={"enum": ["AnyOrder", "InOrder"]}
        ),
        successPolicy=closed(
            ("operator",), operator={"enum": ["All", "Any"]}, targetReplicatedJobs=array(TEXT)
        ),
        failurePolicy=closed(
            (),
            maxRestarts=INT32,
            restartStrategy={"enum": ["Recreate", "BlockingRecreate"]},
            rules=array(
                closed(
                    ("name", "action"),
                    name={
                        "type": "string",
                        "maxLength": 128,
                        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    },
                    action={
                        "enum": [
                            "FailJobSet",
                            "RestartJobSet",
                            "RestartJobSetAndIgnoreMaxRestarts",
                        ]
                    },
                    onJobFailureReasons=array(TEXT),
                    targetReplicatedJobs=array(TEXT),
                )
            ),
        ),
        suspend=BOOLEAN,
        ttlSecondsAfterFinished=INT32,
    ),
)
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def refusals(manifest: dict[str, Any]) -> list[str]:
    """Return what the JobSet webhook and the API server refuse of a manifest that fits the schema.

    Names of Jobs are SET-TYPE-REPLICA, those of pods have the completion and a dash with five
    characters behind it; both are labels of DNS, RFC 1035.
    """
    jobs = manifest["spec"]["replicatedJobs"]
    name, found = manifest["metadata"]["name"], []
    if len({job["name"] for job in jobs}) < len(jobs):
        found.append("two replicated jobs have one name")
    for job in jobs:
        spec, replicas = job["template"]["spec"], job.get("replicas", 1)
        if replicas * spec.get("parallelism", 1) > 2**31 - 1:
            found.append(f"{job['name']}: more pods at once than the product may be")
        made = f"{name}-{job['name']}-{max(0, replicas - 1)}"
        pod = f"{made}-{spec['completions'] - 1}-abcde"
        found += [one for one in (made, pod) if len(one) > 63 or not DNS_1035.fullmatch(one)]
        (container, *others) = spec["template"]["spec"]["containers"]
        names = {one["name"] for one in (container, *others)}
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            codes = rule.get("onExitCodes", {"values": []})
            if codes["values"] != sorted(codes["values"]):
                found.append("exit codes are not in order")
            if codes.get("containerName", container["name"]) not in names:
                found.append(f"{codes['containerName']} is no container")
        volumes = {one["name"] for one in spec["template"]["spec"].get("volumes", ())}
        memory = container["resources"]["limits"]["memory"]
        found += [
            f"/dev/shm of {volume['emptyDir']['sizeLimit']} in {memory}"
            for volume in spec["template"]["spec"].get("volumes", ())
            if float(volume.get("emptyDir", {}).get("sizeLimit", "0G")[:-1]) >= float(memory[:-1])
        ]
        for one in (container, *others):
            mounts = {mount["name"] for mount in one.get("volumeMounts", ())}
            found += [f"{mount} is no volume" for mount in mounts - volumes]
            limits = one["resources"].get("limits", {})
            # Of devices both must be equal; of the others the request may not be above the limit.
            asked = one["resources"].get("requests", {})
            found += [f"{what}: {asked[what]}" for what in limits if asked[what] != limits[what]]
    return found


AICHOR_MEMORY = {"oneOf": [{"required": ["ramRatio"]}, {"required": ["memory"]}]}
AICHOR_TYPE = closed(
    ("count", "resources"),
    count={"type": "integer", "minimum": 1},
    completions={"type": "integer", "minimum": 1},
    parallelisms={"type": "integer", "minimum": 1},
    resources=closed(
        ("cpus", "shmSizeGB"),
        cpus={"type": "number", "exclusiveMinimum": 0},
        ramRatio={"type": "number", "exclusiveMinimum": 0},
        memory={"type": "integer", "minimum": 1},
        shmSizeGB={"type": "number", "minimum": 0},
        extraSelectors=LABELS,
        extraTolerations=array(TOLERATION),
        accelerators=closed(
            ("gpu",),
            gpu=closed(
                ("count", "type", "product"),
                count={"type": "integer", "minimum": 1},
                type=TEXT,
                product={"type": "string", "pattern": r"^\S+$"},
            ),
        ),
    )
    | AICHOR_MEMORY,
)
AICHOR_TYPES = {
    "type": "object",
    "propertyNames": DNS_LABEL,
    "additionalProperties": AICHOR_TYPE,
    "minProperties": 1,
}
AICHOR_SPEC: dict[str, Any] = {
    "operator": {"const": "jobset"},
    "image": {"type": "string", "pattern": r"^\S+$"},
    "command": {"type": "string", "minLength": 1},
    "tensorboard": closed((), enabled=BOOLEAN),
    "types": AICHOR_TYPES,
}


def aichor_schema(version: str) -> dict[str, Any]:
    """Return the schema of a manifest: 0.2.1 has no timeout."""
    limit = {"timeout": {"type": "string", "pattern": "^[1-9][0-9]*[mhd]$"}}
    return closed(
        ("kind", "apiVersion", "builder", "spec"),
        kind={"const": "AIchorManifest"},
        apiVersion={"const": version},
        builder=closed(
            ("image", "dockerfile", "context"),
            image={"type": "string", "pattern": r"^\S+$"},
            dockerfile={"type": "string", "pattern": r"^\./\S+$"},
            context={"const": "."},
        ),
        spec=closed(
            ("operator", "image", "command", "types"),
            **AICHOR_SPEC,
            **(limit if version == "0.2.3" else {}),
        ),
    )


AICHOR = aichor_schema("0.2.3")
"""Of AIchor's manifests: the fields that docs.aichor.ai has in its reference and its examples."""
