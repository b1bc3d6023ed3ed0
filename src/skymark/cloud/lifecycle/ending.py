"""End of machines and managed jobs, and the proof that they are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from skymark.cloud.known_machines import RentedMachines, forget, note_rented, rented
from skymark.cloud.sky.clusters import (
    ProviderList,
    end_cluster,
    find_cluster,
    is_up,
    rented_machines,
)
from skymark.cloud.sky.jobs import ManagedJob, find_managed_job
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import CloudError, NameTakenError, StillBillingError, UsageError

QUIET_S = 40.0
"""How long a list may lack machines that run: one look at it proves nothing."""
DROPPED_S = 4.0
"""How long it has to lack machines of which it said before that they were about to end."""
LOOKS = 3
"""The fewest looks that prove anything."""

_Moment = tuple[float, float]
"""Times of the question to a provider and of its answer, in s."""


class Disappearance:
    """Evidence from a provider's lists that machines are gone.

    A machine is gone if a list shows it ending and a later list lacks it, or if for `QUIET_S` no
    list shows it running. A running machine refutes earlier evidence.

    Args:
        ids: known ids of the machines.
        quiet_s: in place of `QUIET_S`.
        dropped_s: in place of `DROPPED_S`.
    """

    def __init__(
        self, ids: Iterable[str] = (), quiet_s: float = QUIET_S, dropped_s: float = DROPPED_S
    ) -> None:
        self.ids = set(ids)
        """Ids of the machines, including all that were ever listed."""
        self.running: frozenset[str] = frozenset()
        """By the last look."""
        self._quiet_s = quiet_s
        self._dropped_s = dropped_s
        self._ending: set[str] = set()
        """Listed as about to end, and never as running since."""
        self._quiet: list[_Moment] = []
        """Moments of the looks since one last ran."""
        self._absent: list[_Moment] = []
        """Moments of the looks since one was last listed."""

    def look(self, listed: Mapping[str, bool], asked_s: float, answered_s: float) -> None:
        """Add the provider's list of a moment between the question and its answer.

        Args:
            listed: whether each machine on it runs, by its id.
            asked_s: time of the question to the provider.
            answered_s: time of the answer, by the same clock.
        """
        moment = asked_s, answered_s
        self.ids |= set(listed)
        self.running = frozenset(id for id, runs in listed.items() if runs)
        self._ending = (self._ending | set(listed)) - self.running
        self._quiet = [] if self.running else [*self._quiet, moment]
        self._absent = [] if listed else [*self._absent, moment]

    @property
    def proved(self) -> bool:
        """Whether all are gone."""
        if self.ids and self.ids <= self._ending and _lasted(self._absent, self._dropped_s):
            return True
        return _lasted(self._quiet, self._quiet_s)


def _lasted(moments: list[_Moment], seconds: float) -> bool:
    if len(moments) < LOOKS:
        return False
    (_, first_answered_s), (last_asked_s, _) = moments[0], moments[-1]
    return last_asked_s - first_answered_s >= seconds


GONE_TIMEOUT_S = 300.0
POLL_S = 1.0
LOOK_S = 15.0
"""Between two looks at a managed job: as often as SkyPilot itself looks, and each costs seconds of
CPU."""

Tell = Callable[[str], None]
"""Shows a line of progress."""


@dataclass(frozen=True)
class Patience:
    """Times of an ending, in seconds."""

    limit_s: float = GONE_TIMEOUT_S
    """Until it is given up."""
    told_s: float = 30.0
    """Time for machines to end before the request is repeated."""
    learn_s: float = 10.0
    """For SkyPilot to say which machines they are, and to finish when they are gone."""
    silent_s: float = 90.0
    """Time for SkyPilot to end them, before skymark asks their provider directly."""
    pause_s: float = 2.0
    """Before it is tried again, the first time; then half as long again each time."""
    longest_pause_s: float = 20.0
    look_s: float = 1.5
    """Between two looks at the provider's list."""
    quiet_s: float = QUIET_S
    dropped_s: float = DROPPED_S


@dataclass(frozen=True)
class Gone:
    """The end of machines."""

    after_s: float
    proved: bool
    """By the provider's list; else by SkyPilot's word."""
    known: bool = True
    """Whether a machine is known to have existed."""

    def of(self, name: str) -> str:
        """Say it of a machine."""
        if self.proved:
            return f"{name} is gone: its provider lists no machine of it ({self.after_s:.0f} s)"
        if not self.known:
            return f"SkyPilot knows no machine of {name} ({self.after_s:.0f} s)"
        return (
            f"SkyPilot says that {name} has ended ({self.after_s:.0f} s); its provider cannot be "
            "asked from here, so see on the provider's own page that it lists none"
        )


def prove_gone(cluster: str, tell: Tell) -> Gone:
    """End a cluster's machines; returns when they are gone, also if there were none.

    Raises:
        StillBillingError: a machine is not proved gone; the message has its id and price.
    """
    return until_gone(EndableCluster(cluster), ProviderList(), tell)


def prove_job_gone(name: str, tell: Tell, job: ManagedJob | None = None) -> Gone:
    """End a managed job; returns when it has no machine, also if there was no such job.

    Args:
        name: the job's.
        tell: told what happens.
        job: where it has been found already.

    Raises:
        StillBillingError: a machine is not proved gone; the message has its id and price.
    """
    return until_gone(EndableJob(name, job), ProviderList(), tell)


def is_gone(cluster: str) -> bool:
    """Whether a cluster's provider has listed none of its machines for long; ends nothing.

    It returns at once where a machine runs, or nobody can tell.
    """
    machines, provider, proof = rented(cluster), ProviderList(), Disappearance()
    if machines is None or not provider.can_be_asked(machines):
        return False
    with suppress(CloudError):
        while not proof.proved:
            look_at(provider, machines, proof)
            if proof.running:
                return False
            time.sleep(POLL_S)
        return True
    return False


def look_at(provider: ProviderList, machines: RentedMachines, proof: Disappearance) -> None:
    """Take one look at a provider's list of machines.

    Raises:
        CloudError: it does not answer.
    """
    asked_s = time.monotonic()
    proof.look(provider.look(machines), asked_s, time.monotonic())


@dataclass(frozen=True)
class EndableCluster:
    """A cluster, as SkyPilot ends it."""

    name: str
    rents_again: ClassVar[bool] = False
    """Whether SkyPilot rents another machine for it until SkyPilot itself has ended it."""

    def rented(self) -> RentedMachines | None:
        """Return SkyPilot's record of its machines."""
        return rented_machines(self.name)

    def end(self) -> bool:
        """Have it ended; SkyPilot's record of it goes with it."""
        try:
            end_cluster(self.name)
        except UsageError:
            return False
        while (record := find_cluster(self.name, refresh=True)) is not None:
            if is_up(record):
                raise CloudError("SkyPilot still lists it as up after the request to end it")
            time.sleep(POLL_S)
        return True


@dataclass
class EndableJob:
    """A managed job, as SkyPilot ends it."""

    name: str
    job: ManagedJob | None = None
    rents_again: bool = field(default=True, init=False)

    def rented(self) -> RentedMachines | None:
        """Return SkyPilot's record of the machine that it has now."""
        job = self._known()
        return None if job is None else rented_machines(job.machine, job.name)

    def end(self) -> bool:
        """Have it cancelled, where it has not ended, and its machine ended."""
        job = self._known()
        if job is None:
            return False
        while not (job.end() and all(one.ended for one in job.machines())):
            time.sleep(LOOK_S)
        return True

    def _known(self) -> ManagedJob | None:
        self.job = self.job or find_managed_job(self.name)
        return self.job


def until_gone(
    what: EndableCluster | EndableJob,
    provider: ProviderList,
    tell: Tell,
    patience: Patience = Patience(),
) -> Gone:
    """End machines despite errors, until they are gone or the time is up.

    The first Ctrl-C prints the remaining machines and the command that ends them; the second
    leaves.

    Raises:
        StillBillingError: they are not proved gone; the message has their ids, their price and the
            command that ends them.
    """
    return _Ending(what, provider, tell, patience).carry_out()


class _Ending:
    def __init__(
        self,
        what: EndableCluster | EndableJob,
        provider: ProviderList,
        tell: Tell,
        patience: Patience,
    ) -> None:
        self._what = what
        self._provider = provider
        self._tell_user = tell
        self._patience = patience
        self._began_s = time.monotonic()
        self._machines = rented(what.name)
        self._proof = Disappearance((), patience.quiet_s, patience.dropped_s)
        self._problems: dict[str, str] = {}
        """Reasons why they are not proved gone, by source."""
        self._said = ""

    def carry_out(self) -> Gone:
        pause_s = self._patience.pause_s
        try:
            with one_interrupt_held(self._say_what_remains):
                while True:
                    gone = self._attempt()
                    if gone is not None:
                        forget(self._what.name)
                        self._say(gone.of(self._what.name))
                        return gone
                    if self._over():
                        break
                    line = f"{self._what.name} has not ended ({self._problem}); trying again "
                    line += f"for {self._patience.limit_s / 60:.0f} min at most"
                    if line != self._said:  # of five minutes, one line tells enough
                        self._say(line)
                    self._said = line
                    time.sleep(pause_s)
                    pause_s = min(pause_s * 1.5, self._patience.longest_pause_s)
        except KeyboardInterrupt:
            self._problems = {"user": "its ending was interrupted"}
        with suppress(OSError):
            note_rented(self._known.model_copy(update={"not_ended_since": datetime.now(UTC)}))
        raise StillBillingError(self._remains())

    def _attempt(self) -> Gone | None:
        """Tell SkyPilot once, and its provider where SkyPilot does not; None if that was vain."""
        # SkyPilot drops what it knows of them when it has told the provider.
        BackgroundCall(self._learn).wait(clock_s() + self._patience.learn_s)
        told, began_s = BackgroundCall(self._what.end), time.monotonic()
        told_s: float | None = None
        provider_told_s: float | None = None
        while not self._over():
            time.sleep(self._patience.look_s)
            self._look()
            now_s = time.monotonic()
            if told.done:
                told_s = told_s or now_s
                self._note("SkyPilot", "" if told.raised is None else str(told.raised))
            said_so = told.done and told.raised is None and told.result is not None
            if gone := self._gone(said_so=said_so):
                told.wait(clock_s() + self._patience.learn_s)  # for its record to go, too
                return gone
            heard = said_so and told.result
            silent = not told.done and now_s - began_s > self._patience.silent_s
            if provider_told_s is None and (silent or (told.done and not heard)):
                if not self._tell_provider():
                    if told.done:
                        return None
                    continue
                provider_told_s = now_s
            waited_s = now_s - (provider_told_s or told_s or now_s)
            if told.done and waited_s > self._patience.told_s and self._proof.running:
                return None
        return None

    def _learn(self) -> None:
        """Take the facts of the machines from SkyPilot, as long as it has them."""
        known = self._what.rented()
        if known is not None:
            self._machines = known.with_what_was_told(self._machines)
            note_rented(self._machines)
        if self._machines is not None:
            self._proof.ids |= set(self._machines.ids)

    def _look(self) -> None:
        if self._machines is None or not self._can_be_asked():
            return
        try:
            look_at(self._provider, self._machines, self._proof)
        except CloudError as error:
            self._note("list", str(error))
            return
        running = ", ".join(sorted(self._proof.running))
        self._note("list", running and f"its provider still lists {running}")

    def _gone(self, *, said_so: bool) -> Gone | None:
        after_s = time.monotonic() - self._began_s
        if self._can_be_asked():
            if self._proof.proved and (said_so or not self._what.rents_again):
                return Gone(after_s, proved=True)
            return None
        known = self._machines is not None and bool(self._machines.ids)
        return Gone(after_s, proved=False, known=known) if said_so else None

    def _tell_provider(self) -> bool:
        """Tell the provider past SkyPilot; returns whether it took the order."""
        if self._machines is None or not self._can_be_asked():
            return False
        try:
            self._provider.end(self._machines)
        except CloudError as error:
            self._note("provider", str(error))
            return False
        self._note("provider", "")
        return True

    def _can_be_asked(self) -> bool:
        return self._machines is not None and self._provider.can_be_asked(self._machines)

    def _over(self) -> bool:
        return time.monotonic() - self._began_s > self._patience.limit_s

    def _note(self, whose: str, problem: str) -> None:
        self._problems.pop(whose, None)
        if problem:
            self._problems[whose] = problem

    @property
    def _problem(self) -> str:
        return "; ".join(dict.fromkeys(self._problems.values())) or "it did not end in time"

    def _say(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a closed terminal is no reason to leave a machine
            self._tell_user(line)

    def _say_what_remains(self) -> None:
        self._say(
            f"{self._remains()}. skymark is still ending it; press Ctrl-C again to stop waiting"
        )

    def _remains(self) -> str:
        return not_proved_gone(self._known, self._problem, runs=bool(self._proof.running))

    @property
    def _known(self) -> RentedMachines:
        name = self._what.name
        return self._machines or RentedMachines(name=name, cluster=name)


def not_proved_gone(machines: RentedMachines, problem: str, *, runs: bool = False) -> str:
    """Return the sentence that names machines which cost money, and how to end them.

    Args:
        machines: their facts.
        problem: why they are not proved gone.
        runs: whether their provider lists them as running.
    """
    name, address = machines.name, machines.address
    state = "IS STILL THERE AND COSTS MONEY" if runs else "IS NOT PROVED GONE AND MAY COST MONEY"
    page = "the provider's own page" if address is None else f"{address.provider}'s own page"
    return (
        f"{name} {state}: {machines.in_words}. {problem}. End it: `skymark down {name}`; where "
        f"that fails, on {page}"
    )


@contextmanager
def named_where_left(cluster: str, tell: Tell) -> Iterator[None]:
    """Name a machine that was rented and is not proved gone, whatever ends a command early."""
    try:
        yield
    except (StillBillingError, NameTakenError):
        raise  # it names them itself; they are another command's
    except BaseException:
        if (machines := rented(cluster)) is not None:
            tell(not_proved_gone(machines, "this command ended before it was ended"))
        raise
