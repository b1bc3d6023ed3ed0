"""Providers whose credentials work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skymark.cloud.sky.client import explained, sdk, sky_program
from skymark.model.errors import UsageError

ALIASES = {"k8s": "kubernetes"}


def cloud_of(infra: str) -> str:
    """Return the provider's name of an ``--infra`` value such as ``gcp/us-central1``."""
    name = infra.partition("/")[0].casefold()
    return ALIASES.get(name, name)


def enabled_clouds(infra: str | None) -> tuple[str, ...]:
    """Return the providers that may be used, asking them again where one is named or none known.

    Raises:
        UsageError: none of them, or not the one that was named, has credentials that work.
    """
    from sky.client import sdk as client

    sky = sdk()
    wanted = None if infra is None else (cloud_of(infra),)
    with explained("the credentials could not be checked"):
        known = [name.casefold() for name in sky.get(client.enabled_clouds())]
        if wanted is not None or not known:
            found = sky.get(client.check(wanted, verbose=False))
            known = [name.casefold() for clouds in found.values() for name in clouds]
    missing = [name for name in wanted or () if name not in known]
    if missing or not known:
        name = missing[0] if missing else ""
        check = f"{sky_program()} check {name}".rstrip()
        raise UsageError(
            f"no working credentials for {name or 'any provider'}; `{check}` says what is missing"
        )
    return tuple(known) if wanted is None else wanted


def check_all_clouds() -> frozenset[str]:
    """Ask every provider again; returns the names of those that machines can be hired of."""
    from sky.client import sdk as client

    with explained("the credentials could not be checked"):
        found: Mapping[str, Mapping[str, Any]] = sdk().get(client.check(None, verbose=False))
    return frozenset(
        name.casefold()
        for clouds in found.values()
        for name, abilities in clouds.items()
        if "compute" in abilities
    )
