"""Which secrets a machine needs, and how they get there.

They go as a file that only its owner may read, and that the run takes away as it begins. SkyPilot's
own ``secrets`` would lie in its API server's database and in the arguments of its processes; they
are used for managed jobs alone, whose next machine is hired when nobody is there to send a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cloud.machine_script import secrets_file
from skymark.cloud.order import Order
from skymark.cloud.ssh import host, rsync

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


def secrets_for(options: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of a run: of Weights & Biases, and of buckets and the Hub if it uses them.

    Args:
        options: of ``skymark run``.
        variables: the caller's.
    """
    names = list(WANDB) if variables.get("WANDB_API_KEY") else []
    if any("s3://" in option for option in options):
        names += BUCKET
    if any("hf://" in option for option in options):
        names += HUB
    return {name: variables[name] for name in names if variables.get(name)}


def write_secrets(path: Path, secrets: Mapping[str, str]) -> None:
    """Write a new file that bash reads as variables, and that only its owner may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
    )


def send_secrets(order: Order, secrets: Mapping[str, str]) -> None:
    """Copy the secrets of a run to a machine that is up.

    Raises:
        CloudError: it could not be reached.
    """
    if not secrets:
        return
    with TemporaryDirectory() as place:
        path = Path(place, "secrets")
        write_secrets(path, secrets)
        for node in range(order.num_nodes):
            rsync(
                order.cluster,
                str(path),
                f"{host(order.cluster, node)}:{secrets_file(order.run_id)}",
            )
