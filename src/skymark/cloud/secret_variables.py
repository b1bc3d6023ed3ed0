"""Secrets of a run, and the file that they travel in.

Only its owner may read it, and the run takes it away as it begins. SkyPilot's own ``secrets`` would
lie in its API server's database and in the arguments of its processes; they are used for managed
jobs alone, whose next machine is hired when nobody is there to send a file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from skymark.cloud.stores import store_secrets
from skymark.model.plan import Plan

HUB_ADDRESS = "hf://"
HUB = ("HF_TOKEN",)


def secrets_for(plan: Plan, stores: Sequence[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of a run: of its stores, and of the Hub if its plan reads from there.

    Args:
        plan: the cells.
        stores: of ``skymark run --store``.
        variables: the caller's.
    """
    secrets = store_secrets(stores, variables)
    if any(HUB_ADDRESS in one.cell.model_dump_json() for one in plan.cells):
        secrets |= {name: variables[name] for name in HUB if variables.get(name)}
    return secrets


def write_secrets(path: Path, secrets: Mapping[str, str]) -> None:
    """Write a new file that bash reads as variables, and that only its owner may read.

    Raises:
        FileExistsError: another process made one at the same moment.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
