"""Machine kinds: the SkyPilot YAML of each profile."""

from __future__ import annotations

from pathlib import Path

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


def machine_file(profile: str, machine: Path | None = None, image: str | None = None) -> Path:
    """Return the YAML of a machine.

    Args:
        profile: a name, or a ``.toml`` file.
        machine: a YAML in place of the profile's.
        image: a container image in place of the set-up.

    Raises:
        UnknownNameError: the profile has none.
        UsageError: the file that was named is not there.
    """
    if machine is not None:
        if not machine.is_file():
            raise UsageError(f"--machine {machine} is no file; name a SkyPilot YAML")
        return machine
    name = Path(profile).stem
    if name not in KINDS:
        raise UnknownNameError("machine of profile", name, KINDS)
    suffix = "" if image is None else "-image"
    return resource_directory("sky") / f"{KINDS[name]}{suffix}.yaml"
