"""The kinds of machine: a profile's SkyPilot YAML, and the task that an order makes of it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from skymark.cloud.machine_script import script
from skymark.cloud.order import Order
from skymark.cloud.providers import cloud_of
from skymark.cloud.skypilot import explained, sdk
from skymark.machine.facts import git_state, run_program
from skymark.model.errors import UnknownNameError, UsageError
from skymark.resources import resource_directory

KINDS = {
    "cpu": "cpu-benchmark",
    "ci_cpu": "cpu-benchmark",
    "gpu_a100": "gpu-benchmark",
    "gpu_h100": "gpu-h100-benchmark",
    "tpu_v5e": "tpu-benchmark",
    "cluster_8xh100": "cluster-8xh100",
}
"""YAML by profile."""

LIMIT_VARIABLE = "SKYMARK_DEADLINE_S"
"""Seconds that set-up and run may take together on the machine; 0 for no limit."""


def machine_file(order: Order) -> Path:
    """Return the YAML of an order's machine.

    Raises:
        UnknownNameError: the profile has none.
    """
    if order.machine is not None:
        if not order.machine.is_file():
            raise UsageError(f"--machine {order.machine} is no file; name a SkyPilot YAML")
        return order.machine
    name = Path(order.profile).stem
    if name not in KINDS:
        raise UnknownNameError("machine of profile", name, KINDS)
    suffix = "" if order.image is None else "-image"
    return resource_directory("sky") / f"{KINDS[name]}{suffix}.yaml"


def checkout() -> Path:
    """Return the directory of skymark's source, which is sent to the machine.

    Raises:
        UsageError: skymark was installed as a package, and the current directory is no checkout.
    """
    for place in (resource_directory("sky").parents[1], Path.cwd()):
        if (place / "pyproject.toml").is_file() and (place / "src" / "skymark").is_dir():
            return place
    raise UsageError(
        "a machine's set-up installs skymark's source, and this is no checkout of it; "
        "run the command in one, or give --image"
    )


def make_task(order: Order) -> Any:
    """Return the SkyPilot task of an order: its set-up and its run as one job.

    Raises:
        UsageError: the YAML is wrong, or its machine is not to be had as ordered.
    """
    if order.infra is not None and cloud_of(order.infra) == "slurm" and order.num_nodes > 1:
        raise UsageError(
            "the nodes of a Slurm cluster share one home, where each would write the same run; "
            "leave out --num-nodes"
        )
    path = machine_file(order)
    task = _read(path)
    task.name = order.cluster
    setup, task.setup = task.setup, None
    task.run = script(setup, task.run)
    _send_source(task)
    task.num_nodes = order.num_nodes
    task.set_resources({_ordered(one, order) for one in _eligible(task.resources, order, path)})
    task.update_envs(_variables(order))
    return task


def set_limits(task: Any, limit_s: int | None, highest_hourly_price_usd: float | None) -> None:
    """Limit a task in time and in price.

    Args:
        task: of `make_task` or `make_run_task`.
        limit_s: seconds that set-up and run may take together, kept by the machine itself.
        highest_hourly_price_usd: of one machine; SkyPilot takes none that is dearer.
    """
    task.update_envs({LIMIT_VARIABLE: str(limit_s or 0)})
    if highest_hourly_price_usd is not None:
        cap = {"max_hourly_cost": highest_hourly_price_usd}
        task.set_resources({one.copy(**cap) for one in task.resources})


def make_run_task(order: Order) -> Any:
    """Return the task of another run on a live machine: no set-up, and no machine is chosen."""
    task = _read(machine_file(order))
    task.name = order.cluster
    task.setup = None
    task.run = script(None, task.run)
    _send_source(task)
    task.num_nodes = order.num_nodes
    task.set_resources(sdk().Resources())
    task.update_envs(_variables(order))
    return task


def _read(path: Path) -> Any:
    with explained(f"{path}"):
        return sdk().Task.from_yaml(os.fspath(path))


def _send_source(task: Any) -> None:
    if task.workdir is not None:
        task.workdir = os.fspath(checkout())


def _eligible(resources: Any, order: Order, path: Path) -> list[Any]:
    """Return the alternatives of a machine that the ordered provider can be asked for."""
    listed = list(resources)
    if order.infra is None:
        return listed
    same = cloud_of(order.infra)
    found = [one for one in listed if one.cloud is None or str(one.cloud).casefold() == same]
    if not found:
        places = ", ".join(sorted({str(one.cloud).casefold() for one in listed}))
        raise UsageError(
            f"--infra {order.infra}: {path.name} describes a machine of {places}; give that, or "
            "another profile"
        )
    return found


def _ordered(resource: Any, order: Order) -> Any:
    changes: dict[str, Any] = {}
    if order.infra is not None:  # also where the YAML names the cloud already
        changes |= {"infra": order.infra, "cloud": None, "region": None, "zone": None}
    if order.spot:
        changes["use_spot"] = True
    if order.image is not None:
        changes["image_id"] = f"docker:{order.image.removeprefix('docker:')}"
    with explained("the ordered machine"):
        return resource.copy(**changes)


def _variables(order: Order) -> dict[str, str]:
    return {
        "SKYMARK_PROFILE": order.profile,
        "SKYMARK_RUN_ID": order.run_id,
        "SKYMARK_OPTIONS": shlex.join(order.options),
        "SKYMARK_ADAPTERS": " ".join(order.adapters),
        "SKYMARK_COMMIT": commit(),
        LIMIT_VARIABLE: str(order.deadline_s or 0),
    }


def commit() -> str:
    """Return the commit that is sent, with ``-dirty`` where files were changed; empty for none."""
    state = git_state(run_program)
    return "" if state is None else f"{state.commit}{'-dirty' if state.dirty else ''}"
