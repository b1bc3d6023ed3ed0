"""Load profiles: one TOML file per kind of machine."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from skymark.model.duration_text import seconds_of
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Profile
from skymark.plain_files import read_named
from skymark.resources import resource_directory


def profile_paths() -> dict[str, Path]:
    """Return the file of each profile by name."""
    return {path.stem: path for path in sorted(resource_directory("profiles").glob("*.toml"))}


def load_profile(name: str) -> Profile:
    """Load a profile by name, or from a ``.toml`` file.

    Raises:
        UnknownNameError: there is no such profile.
        UsageError: the file is no TOML, or has a key or value that profiles do not have.
    """
    paths = profile_paths()
    path = Path(name) if name.endswith(".toml") else paths.get(name)
    if path is None:
        raise UnknownNameError("profile", name, paths)
    data = read_named(path, "`skymark list profiles` shows those that are there")
    try:
        content = tomllib.loads(data.decode("utf-8"))
        profile = Profile.model_validate({"name": path.stem, **content})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"profile {path}: {error}; mend the file") from error
    except ValidationError as error:
        raise UsageError(f"profile {path}: {faults_of(error, Profile)}") from error
    if profile.time is not None:
        seconds_of(profile.time, f"profile {path}: time")
    elif profile.goal is not None:
        raise UsageError(f"profile {path}: goal needs a time, which is spent on it")
    return profile


def faults_of(error: ValidationError, model: type[Profile]) -> str:
    """Return the faults of a profile in one line, with the nearest key for an unknown one."""
    faults: list[str] = []
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            faults.append(str(UnknownNameError("key", key, model.model_fields)))
        else:
            given = "" if fault["type"] == "missing" else f" = {fault['input']!r}"
            faults.append(f"{key}{given}: {fault['msg']}")
    return "; ".join(faults)
