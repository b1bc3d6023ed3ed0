"""Live machines and managed jobs: list them, check up on them, end them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from enum import StrEnum
from typing import TextIO, TypeVar

from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import (
    HiredMachines,
    all_hired,
    forget,
    is_known,
    known_names,
    note_hired,
    recall,
)
from skymark.cloud.lifecycle.ending import QUIET_S, Gone
from skymark.cloud.lifecycle.following import Say
from skymark.cloud.lifecycle.gone import prove_gone, prove_job_gone
from skymark.cloud.sky.client import sdk, server_fault, sky_program
from skymark.cloud.sky.clusters import LiveMachine, ProviderList, find_cluster, live_clusters
from skymark.cloud.sky.jobs import show_output
from skymark.cloud.sky.managed_jobs import find_managed_job, live_managed_jobs, show_managed_output
from skymark.cloud.sky.providers import ACCESS, Access, check_all_clouds
from skymark.cloud.waiting import clock_s, in_background
from skymark.model.base import Frozen
from skymark.model.errors import SkymarkError, UsageError

PREFIX = "skymark-"
ASK_S = 10.0
"""Longest wait for the providers of all noted machines, where SkyPilot does not answer."""


def live_machines(*, refresh: bool = True) -> list[LiveMachine]:
    """Return every machine of skymark's that is there, and every managed job that goes on.

    Those too that SkyPilot has forgotten: hired from here, and not proved gone.

    Args:
        refresh: ask the providers, instead of telling what was known last.
    """
    found = [
        one
        for one in (*live_clusters(refresh=refresh), *live_managed_jobs())
        if one.name.startswith(PREFIX) or is_known(one.name)
    ]
    return [*found, *forgotten_machines({one.name for one in found}, refresh=refresh)]


def noted_machines() -> list[LiveMachine]:
    """Return the machines that were hired from here and not proved gone, without SkyPilot.

    Their providers are asked, as far as they answer within seconds.
    """
    noted, until_s = {one.name: one for one in all_hired()}, clock_s() + ASK_S
    for name in known_names() - noted.keys():
        noted[name] = HiredMachines(name=name, cluster=name)
    found = [_unproved(one, _state_of(one, until_s)) for _, one in sorted(noted.items())]
    return [one.model_copy(update={"idle_minutes": _idle_minutes(one.name)}) for one in found]


def _idle_minutes(name: str) -> int | None:
    try:
        return recall(name).idle_minutes
    except UsageError:
        return None


def _state_of(one: HiredMachines, until_s: float) -> str:
    provider = ProviderList()
    if not provider.can_be_asked(one):
        return "unknown"
    try:
        listed = in_background(lambda: provider.look(one), max(0.1, until_s - clock_s()))
    except (CloudError, TimeoutError):
        return "unknown, its provider does not answer"
    return "running" if any(listed.values()) else "not listed by its provider"


def names_of_machines() -> list[str]:
    """Return the names of all that may be there; also where SkyPilot does not answer."""
    noted = {one.name for one in all_hired()}
    if server_fault() is not None:
        return sorted(noted)
    try:
        return sorted(noted | {one.name for one in live_machines(refresh=False)})
    except CloudError:
        return sorted(noted)


def show_log(
    name: str, job: int | None, log: TextIO, *, wait_for_end: bool, last_lines: int = 0
) -> bool:
    """Show a job's output.

    Args:
        name: the machine's; or that of a managed job, which has no number.
        job: its number; None for the last.
        log: gets the output.
        wait_for_end: go on until it ends.
        last_lines: to begin with; 0 for its beginning.

    Returns:
        Whether the job has not failed, so far.

    Raises:
        UsageError: there is no such machine or job, or a managed job was given a number.
    """
    managed = find_managed_job(name) if find_cluster(name, refresh=False) is None else None
    if managed is None:
        return show_output(name, job, log, wait_for_end=wait_for_end, last_lines=last_lines)
    if job is not None:
        raise UsageError(f"{name} is one managed job; leave out the number {job}")
    return show_managed_output(managed, log, wait_for_end=wait_for_end, last_lines=last_lines)


def down(name: str, say: Say) -> Gone:
    """End a machine, or a managed job, and return when it is gone.

    Raises:
        UsageError: there is none, or it is not skymark's.
        StillBillingError: it is not proved gone.
    """
    known = is_known(name)
    if not known and not name.startswith(PREFIX):
        raise UsageError(
            f"{name} was not hired by skymark; nothing was ended. `{sky_program()} down {name}` "
            "ends what is not skymark's"
        )
    if (fault := server_fault()) is not None:
        if not known:
            raise CloudError(fault)
        say(f"{fault}. Ending {name} all the same")
        return prove_gone(name, say)
    try:
        there = find_cluster(name, refresh=False) is not None
        managed = None if there else find_managed_job(name)
    except CloudError as error:
        if not known:
            raise
        say(f"SkyPilot does not answer ({error}); ending {name} all the same")
        return prove_gone(name, say)
    if managed is not None:
        return prove_job_gone(name, say, managed)
    if not there and not known:
        raise UsageError(f"there is no machine {name}; `skymark status` shows what is")
    return prove_gone(name, say)


def forgotten_machines(names: set[str], *, refresh: bool) -> Iterator[LiveMachine]:
    """Return the machines that SkyPilot has no record of and that are not proved gone.

    What ended itself is not among them, where its provider says so.

    Args:
        names: of the machines that SkyPilot has a record of.
        refresh: ask the providers.
    """
    provider = ProviderList()
    for one in all_hired():
        if one.name in names:
            continue
        status = None if one.not_ended_since is None else "not proved gone"
        if refresh and provider.can_be_asked(one):
            try:
                if any(provider.look(one).values()):
                    status = "running, not proved gone"
                elif status is None:
                    _note_absence(one)
            except CloudError as error:
                status = None if status is None else f"{status} ({error})"
        if status is not None:
            yield _unproved(one, status)


def _note_absence(one: HiredMachines) -> None:
    """Note that a provider does not list machines; forget them when that has lasted."""
    now_s, since_s = clock_s(), one.absent_since_s
    if since_s is None or since_s > now_s:  # by a clock that begins anew with this machine
        note_hired(one.model_copy(update={"absent_since_s": now_s}))
    elif now_s - since_s > QUIET_S:
        forget(one.name)


def _unproved(one: HiredMachines, status: str) -> LiveMachine:
    return LiveMachine(
        name=one.name,
        status=status,
        machine=one.kind,
        nodes=max(1, len(one.ids)),
        launched_at=None,
        idle_minutes=None,
        hourly_price_usd=one.hourly_price_usd,
        cost_usd=None,
    )


T = TypeVar("T")

TIMEOUT_S = 120.0
"""How long providers may take to answer, once for credentials and once for machines."""


class State(StrEnum):
    """Set-up state of a provider: absent, credentials, enabled."""

    ENABLED = "enabled"
    NOT_WORKING = "not accepted, or at fault"
    """There are credentials. SkyPilot does not tell a wrong key from a provider's own fault."""
    ABSENT = "no credentials"
    UNKNOWN = "not known"


class Provider(Frozen):
    """A provider and its requirements."""

    name: str
    state: State
    access: Access | None
    """None for one that no machine kind is for."""


class Checkup(Frozen):
    """Findings about providers and machines."""

    providers: tuple[Provider, ...]
    machines: tuple[LiveMachine, ...]
    """That skymark hired and that are still there."""
    problems: tuple[str, ...]
    """What could not be asked, and why."""

    @property
    def all_well(self) -> bool:
        """Whether a machine could be hired, and none is left over."""
        enabled = any(one.state is State.ENABLED for one in self.providers)
        return enabled and not self.machines and not self.problems


def check_up(variables: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> Checkup:
    """Ask every provider whether the credentials work, and which machines are there.

    Without a network the answer is that nothing could be asked, after at most twice `timeout_s`.

    Raises:
        UsageError: SkyPilot is not installed.
    """
    sdk()
    problems: list[str] = []
    enabled: frozenset[str] | None = None
    machines: tuple[LiveMachine, ...] = ()
    try:
        enabled = bounded("the check of credentials", check_all_clouds, timeout_s)
    except SkymarkError as error:
        problems.append(str(error))
    try:
        machines = tuple(bounded("the list of machines", live_machines, timeout_s))
    except SkymarkError as error:
        problems.append(str(error))
    return Checkup(
        providers=providers(enabled, variables), machines=machines, problems=tuple(problems)
    )


def providers(enabled: frozenset[str] | None, variables: Mapping[str, str]) -> tuple[Provider, ...]:
    """Return the state of every provider.

    Args:
        enabled: names of those that SkyPilot may use; None where it could not be asked.
        variables: the user's.
    """
    known = [
        Provider(name=one.provider, state=_state(one, enabled, variables), access=one)
        for one in ACCESS
    ]
    others = (enabled or frozenset()) - {one.provider for one in ACCESS}
    further = [Provider(name=name, state=State.ENABLED, access=None) for name in sorted(others)]
    return (*known, *further)


def _state(access: Access, enabled: frozenset[str] | None, variables: Mapping[str, str]) -> State:
    if enabled is not None and access.provider in enabled:
        return State.ENABLED
    if not access.found(variables):
        return State.ABSENT
    return State.UNKNOWN if enabled is None else State.NOT_WORKING


def bounded(what: str, call: Callable[[], T], timeout_s: float) -> T:
    """Return the result of a call that may hang.

    Raises:
        CloudError: it takes longer; it goes on in a thread that ends with this process.
    """
    future: Future[T] = Future()

    def settle() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # the thread's boundary: it is raised where it is awaited
            future.set_exception(error)

    threading.Thread(target=settle, daemon=True).start()
    try:
        return future.result(timeout_s)
    except TimeoutError as error:
        raise CloudError(
            f"{what} got no answer in {timeout_s:g} s; is there a network? "
            f"`{sky_program()} api info` says whether SkyPilot's API server is there"
        ) from error
