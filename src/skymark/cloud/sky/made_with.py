"""The profile that a cluster was made for, as SkyPilot remembers its YAML."""

from __future__ import annotations

from typing import Any

PROFILE_VARIABLE = "SKYMARK_PROFILE"


def profile_of(record: Any) -> str | None:
    """Return the profile that a cluster's YAML names; None where it is no YAML of skymark's.

    Args:
        record: of `skymark.cloud.sky.clusters.find_cluster`.
    """
    import yaml  # SkyPilot's own; nothing else here needs it

    read = yaml.safe_load(record["last_creation_yaml"] or "") or {}
    profile = (read.get("envs") or {}).get(PROFILE_VARIABLE)
    return str(profile) if profile else None


def image_of(handle: Any) -> str | None:
    """Return the container image that a cluster's jobs run in, or None."""
    image = handle.launched_resources.extract_docker_image()
    return None if image is None else str(image)
