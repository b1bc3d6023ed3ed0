"""Check-up of rented machines: working credentials, and leftover machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from skymark.cloud.machines import live_machines
from skymark.cloud.sky.client import sdk, sky_program
from skymark.cloud.sky.clusters import LiveMachine
from skymark.cloud.sky.providers import ACCESS, Access, check_all_clouds
from skymark.cloud.waiting import in_background
from skymark.model.base import Frozen
from skymark.model.errors import CloudError, SkymarkError

T = TypeVar("T")

TIMEOUT_S = 120.0
"""Time limit of providers, once for credentials and once for machines."""


class ProviderState(StrEnum):
    """Set-up state of a provider: absent, credentials, enabled."""

    ENABLED = "enabled"
    NOT_WORKING = "not accepted, or at fault"
    """There are credentials. SkyPilot does not tell a wrong key from a provider's own fault."""
    ABSENT = "no credentials"
    UNKNOWN = "not known"


class Provider(Frozen):
    """A provider and its requirements."""

    name: str
    state: ProviderState
    access: Access | None
    """None for a provider without a kind of machine."""


class Checkup(Frozen):
    """Findings about providers and machines."""

    providers: tuple[Provider, ...]
    machines: tuple[LiveMachine, ...]
    """Existing machines that skymark rented."""
    problems: tuple[str, ...]
    """Failed queries, with their reasons."""

    @property
    def all_well(self) -> bool:
        """Whether a provider is enabled, no machine is left over, and no query failed."""
        enabled = any(one.state is ProviderState.ENABLED for one in self.providers)
        return enabled and not self.machines and not self.problems


def check_up(variables: Mapping[str, str]) -> Checkup:
    """Check the credentials of every provider, and list its machines.

    Without a network, all queries fail after at most twice `TIMEOUT_S`.

    Raises:
        UsageError: SkyPilot is not installed.
    """
    sdk()
    problems: list[str] = []
    enabled: frozenset[str] | None = None
    machines: tuple[LiveMachine, ...] = ()
    try:
        enabled = bounded("the check of credentials", check_all_clouds, TIMEOUT_S)
    except SkymarkError as error:
        problems.append(str(error))
    try:
        machines = tuple(bounded("the list of machines", live_machines, TIMEOUT_S))
    except SkymarkError as error:
        problems.append(str(error))
    return Checkup(
        providers=providers(enabled, variables), machines=machines, problems=tuple(problems)
    )


def providers(enabled: frozenset[str] | None, variables: Mapping[str, str]) -> tuple[Provider, ...]:
    """Return the state of every provider.

    Args:
        enabled: names of the providers that SkyPilot may use; None if SkyPilot did not answer.
        variables: the user's environment.
    """
    known = [
        Provider(name=one.provider, state=_state(one, enabled, variables), access=one)
        for one in ACCESS
    ]
    others = (enabled or frozenset()) - {one.provider for one in ACCESS}
    further = [
        Provider(name=name, state=ProviderState.ENABLED, access=None) for name in sorted(others)
    ]
    return (*known, *further)


def _state(
    access: Access, enabled: frozenset[str] | None, variables: Mapping[str, str]
) -> ProviderState:
    if enabled is not None and access.provider in enabled:
        return ProviderState.ENABLED
    if not access.found(variables):
        return ProviderState.ABSENT
    return ProviderState.UNKNOWN if enabled is None else ProviderState.NOT_WORKING


def bounded(what: str, call: Callable[[], T], timeout_s: float) -> T:
    """Return the result of a call that may hang.

    Raises:
        CloudError: it takes longer; it goes on in a thread that ends with this process.
    """
    try:
        answer: T = in_background(call, timeout_s)
    except TimeoutError as error:
        raise CloudError(
            f"{what} got no answer in {timeout_s:g} s; is there a network? "
            f"`{sky_program()} api info` says whether SkyPilot's API server is there"
        ) from error
    return answer
