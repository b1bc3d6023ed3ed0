"""Stores of a run on a rented machine: the lasting one, and the secrets that reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skymark.model.errors import UsageError

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
NOT_SENT = {"offline", "dryrun", "disabled"}
"""Values of WANDB_MODE with which nothing goes to W&B."""


def lasting_store(stores: Sequence[str]) -> str:
    """Return the first store that outlives a machine.

    Raises:
        UsageError: there is none.
    """
    for store in stores:
        if store.startswith("s3://"):
            return store.rstrip("/")
    raise UsageError(
        "--managed needs a store that outlives the machine, where the next one finds what was "
        "measured; add --store s3://BUCKET/PREFIX"
    )


def results_leave(stores: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Whether results leave the machine while it measures.

    Args:
        stores: of ``skymark run --store`` on the machine.
        variables: the caller's, whose secrets go to the machine.
    """
    in_bucket = any(store.startswith("s3://") for store in stores)
    in_wandb = variables.get("WANDB_API_KEY") and variables.get("WANDB_MODE") not in NOT_SENT
    return bool(in_bucket or in_wandb)


def store_secrets(stores: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the machine needs to reach its stores, of those that are set."""
    names = list(WANDB) if variables.get("WANDB_API_KEY") else []
    if any(store.startswith("s3://") for store in stores):
        names += BUCKET
    return {name: variables[name] for name in names if variables.get(name)}
