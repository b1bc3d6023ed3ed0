"""Providers whose credentials work."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from typing import Any

from skymark.cloud.access import ACCESS
from skymark.cloud.sky.client import explained, sdk, short, sky_program
from skymark.model.errors import UsageError

ALIASES = {"k8s": "kubernetes"}

CHECKS = 2
PAUSE_S = 5.0
"""Before a provider is asked again that did not accept the credentials that are here."""


def cloud_of(infra: str) -> str:
    """Return the provider's name of an ``--infra`` value such as ``gcp/us-central1``."""
    name = infra.partition("/")[0].casefold()
    return ALIASES.get(name, name)


def enabled_clouds(infra: str | None, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the providers that may be used, asking them again where one is named or none known.

    Args:
        infra: of ``--infra``.
        variables: the user's, which may hold credentials.

    Raises:
        UsageError: none of them, or not the one that was named, accepts credentials.
    """
    from sky.client import sdk as client

    wanted = None if infra is None else cloud_of(infra)
    known: list[str] = []
    with explained("the credentials could not be checked"):
        if wanted is None:
            known = [name.casefold() for name in sdk().get(client.enabled_clouds())]
        if known:
            return tuple(known)
        places = _credentials(wanted, variables)
        for check in range(CHECKS):
            known, said = _check(wanted)
            if known:
                return tuple(known)
            if not places:
                break
            if check + 1 < CHECKS:
                time.sleep(PAUSE_S)
    who = wanted or "any provider"
    again = f"`{sky_program()} check {wanted or ''}".rstrip() + "`"
    if places:
        raise UsageError(
            f"the credentials in {' and '.join(places)} are not accepted, or {who} is at fault "
            f"just now ({said or 'SkyPilot does not say which'}); {again} asks again"
        )
    raise UsageError(f"no credentials for {who}; {again} says what is missing")


def _check(wanted: str | None) -> tuple[list[str], str]:
    """Ask one provider, or all; returns those that accept credentials, and why others do not."""
    from sky.client import sdk as client

    words = io.StringIO()
    asked = client.check(None if wanted is None else (wanted,), verbose=False)
    found = sdk().stream_and_get(asked, output_stream=words)
    known = [name.casefold() for clouds in found.values() for name in clouds]
    reason = re.search(r"Reason[^:\n]*: (.*?)(?:To enable a cloud|$)", words.getvalue(), re.DOTALL)
    return known, "" if reason is None or wanted is None else short(ValueError(reason[1].strip()))


def _credentials(wanted: str | None, variables: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        place for one in ACCESS if wanted in {None, one.provider} for place in one.found(variables)
    )


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
