"""Which secrets a machine needs, and their values from the caller's environment.

They go by SkyPilot's ``secrets`` only: never by its envs, an argument, a YAML or a log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WANDB = ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_MODE")
BUCKET = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "R2_ENDPOINT_URL",
)
HUB = ("HF_TOKEN",)


def secrets_for(options: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of a run: of Weights & Biases, and of buckets and the Hub if it uses them.

    Args:
        options: of ``skymark run``.
        environment: the caller's.
    """
    names = list(WANDB) if environment.get("WANDB_API_KEY") else []
    if any("s3://" in option for option in options):
        names += BUCKET
    if any("hf://" in option for option in options):
        names += HUB
    return {name: environment[name] for name in names if environment.get(name)}
