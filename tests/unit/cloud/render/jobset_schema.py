"""The schema of a JobSet, jobset.x-k8s.io/v1alpha2, as far as manifests here can go.

Written by hand after the fields of the API's Go types (JobSet, batch/v1, core/v1). Where it stops,
in fields that skymark writes nothing into, it allows nothing: a new field must be added here.
"""

from __future__ import annotations

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
LABEL = {
    "type": "string",
    "maxLength": 63,
    "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
}
DNS_LABEL = {"type": "string", "maxLength": 63, "pattern": r"^[a-z]([-a-z0-9]*[a-z0-9])?$"}
LABELS = {"type": "object", "additionalProperties": LABEL}
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}
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
    image={"type": "string", "minLength": 1},
    command=array(TEXT),
    args=array(TEXT),
    env=array(
        closed(
            ("name",),
            name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            value=TEXT,
            valueFrom=closed((), fieldRef=closed(("fieldPath",), fieldPath=TEXT)),
        )
    ),
    envFrom=array(closed((), secretRef=closed(("name",), name=TEXT, optional=BOOLEAN))),
    resources=closed((), requests=QUANTITIES, limits=QUANTITIES),
    volumeMounts=array(closed(("name", "mountPath"), name=DNS_LABEL, mountPath=TEXT)),
)
POD = closed(
    ("containers", "restartPolicy"),
    # A Job takes no other; with a pod failure policy it takes Never alone.
    restartPolicy={"enum": ["Never"]},
    containers=array(CONTAINER, minItems=1),
    volumes=array(
        closed(
            ("name",),
            name=DNS_LABEL,
            emptyDir=closed((), medium={"enum": ["", "Memory"]}, sizeLimit=QUANTITY),
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
    action={"enum": ["FailJob", "FailIndex", "Ignore", "Count"]},
    onExitCodes=closed(
        ("operator", "values"),
        containerName=TEXT,
        operator={"enum": ["In", "NotIn"]},
        values=array(INT32, minItems=1, maxItems=255, uniqueItems=True),
    ),
    onPodConditions=array(
        closed(("type", "status"), type=TEXT, status={"enum": ["True", "False", "Unknown"]})
    ),
)
JOB = closed(
    ("template",),
    completions=INT32,
    parallelism=INT32,
    completionMode={"enum": ["NonIndexed", "Indexed"]},
    backoffLimit=INT32,
    activeDeadlineSeconds=INT32,
    ttlSecondsAfterFinished=INT32,
    suspend=BOOLEAN,
    podFailurePolicy=closed(("rules",), rules=array(FAILURE_RULE, maxItems=20)),
    template=closed(("spec",), metadata=METADATA, spec=POD),
)
REPLICATED_JOB = closed(
    ("name", "template"),
    name=DNS_LABEL,
    groupName=TEXT,
    replicas={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
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
        network=closed((), enableDNSHostnames=BOOLEAN, subdomain=TEXT),
        successPolicy=closed(
            ("operator",), operator={"enum": ["All", "Any"]}, targetReplicatedJobs=array(TEXT)
        ),
        failurePolicy=closed((), maxRestarts=INT32),
        suspend=BOOLEAN,
        ttlSecondsAfterFinished=INT32,
    ),
)
AICHOR_TYPE = closed(
    ("count", "resources"),
    count={"type": "integer", "minimum": 1},
    completions={"type": "integer", "minimum": 1},
    parallelisms={"type": "integer", "minimum": 1},
    resources=closed(
        ("cpus", "ramRatio", "shmSizeGB"),
        cpus={"type": "number", "exclusiveMinimum": 0},
        ramRatio={"type": "number", "exclusiveMinimum": 0},
        shmSizeGB={"type": "number", "minimum": 0},
    ),
)
AICHOR = closed(
    ("kind", "apiVersion", "builder", "spec"),
    kind={"const": "AIchorManifest"},
    apiVersion={"const": "0.2.1"},
    builder=closed(("image", "dockerfile", "context"), image=TEXT, dockerfile=TEXT, context=TEXT),
    spec=closed(
        ("operator", "image", "command", "types"),
        operator={"const": "jobset"},
        image=TEXT,
        command=TEXT,
        types={"type": "object", "additionalProperties": AICHOR_TYPE, "minProperties": 1},
    ),
)
"""Of AIchor's manifests: its documentation's fields for CPU workers, as skymark knows them."""
