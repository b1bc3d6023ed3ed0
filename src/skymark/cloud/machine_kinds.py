"""Machine kinds: the SkyPilot YAML that a profile names."""

from __future__ import annotations

from pathlib import Path

from skymark.execute.planner import load_profile
from skymark.model.errors import UnknownNameError, UsageError
from skymark.resources import resource_directory

IMAGE_SUFFIX = "-image"
"""Ends the name of the same machine with a container image in place of the set-up."""


def machine_file(profile: str, machine: Path | None = None, image: str | None = None) -> Path:
    """Return the YAML of a machine.

    Args:
        profile: a name, or a ``.toml`` file.
        machine: a YAML in place of the profile's.
        image: a container image in place of the set-up.

    Raises:
        UnknownNameError: there is no such machine.
        UsageError: the profile names none, or the file that was named is not there.
    """
    if machine is not None:
        if not machine.is_file():
            raise UsageError(f"--machine {machine} is no file; name a SkyPilot YAML")
        return machine
    name = load_profile(profile).machine
    if name is None:
        raise UsageError(
            f"the profile {profile} names no machine; give --machine FILE.yaml, or write "
            'machine = "NAME" into the profile'
        )
    known = machine_kinds()
    if name not in known:
        raise UnknownNameError("machine", name, known)
    return known[name] if image is None else known[name].with_stem(f"{name}{IMAGE_SUFFIX}")


def machine_kinds() -> dict[str, Path]:
    """Return the file of each kind of machine by name; those for an image are left out."""
    files = sorted(resource_directory("sky").glob("*.yaml"))
    return {path.stem: path for path in files if not path.stem.endswith(IMAGE_SUFFIX)}
