"""The simulated Lambda Cloud: instance types, hired machines, bill and faults."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

from skymark.cloud.rehearsal.errors import RehearsalError
from skymark.cloud.rehearsal.instance_types import InstanceType


class HiredMachine(Protocol):
    """A started machine, as the cloud sees it."""

    @property
    def address(self) -> str:
        """Its network address."""
        ...

    def kill(self) -> None:
        """End it, with everything that was on it."""
        ...


StartMachine = Callable[[str, list[str], InstanceType], HiredMachine]


class RefusedError(Exception):
    """The cloud says no; `code` and the message are in the form of Lambda's API."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass
class Instance:
    """One hired machine, from the request to its end."""

    id: str
    name: str
    type: InstanceType
    region: str
    hourly_price_usd: float
    began_s: float
    status: str = "booting"
    machine: HiredMachine | None = None
    ended_s: float | None = None
    preempted: bool = False
    booted: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class BillLine:
    """The cost of one instance. `ended_s` is None while it is still hired."""

    id: str
    name: str
    type: str
    region: str
    hourly_price_usd: float
    began_s: float
    ended_s: float | None
    seconds: float
    cost_usd: float
    preempted: bool


@dataclass
class Shortage:
    """Requests that are refused. None stands for any type, any region, any number of times."""

    type: str | None
    region: str | None
    times: int | None

    def covers(self, type: str, region: str) -> bool:
        """Return whether it concerns an instance type in a region."""
        return self.type in {None, type} and self.region in {None, region} and self.times != 0


class LambdaCloud:
    """The state of the cloud; `lambda_api` speaks HTTP for it.

    Everything that may go wrong is set here by name, at any time, from any thread.

    Args:
        types: what can be hired, at which price.
        start: starts a machine, given its name, the public keys and its type.
        clock: seconds since the epoch; the bill is made from it.

    Attributes:
        before_end: each is shown every machine that is given back, while it still runs.
    """

    def __init__(
        self,
        types: Mapping[str, InstanceType],
        start: StartMachine,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._types = dict(types)
        self._start = start
        self.before_end: list[Callable[[Instance], None]] = []
        self._clock = clock
        self._lock = threading.RLock()
        self._instances: dict[str, Instance] = {}
        self._shortages: list[Shortage] = []
        self._boot_delay_s = 0.0
        self._refusals_to_terminate: float = 0
        self._ignored_terminations: float = 0
        self._lists_nothing_until_s = 0.0
        self._closing = threading.Event()
        self._workers = ThreadPoolExecutor(16, thread_name_prefix="simulated-cloud")
        self.ssh_keys: dict[str, str] = {}
        self.firewall_rules: list[dict[str, object]] = []

    # What the API asks.

    def types(self) -> list[tuple[InstanceType, list[str]]]:
        """Return every type with the regions that have some left."""
        with self._lock:
            return [
                (one, [region for region in one.regions if not self._never(one.name, region)])
                for one in self._types.values()
            ]

    def launch(self, type: str, region: str, name: str, key_names: list[str]) -> Instance:
        """Hire a machine; it boots in the background.

        Raises:
            RefusedError: there is no such type or key, or no capacity.
        """
        with self._lock:
            found = self._types.get(type)
            if found is None or region not in found.regions:
                raise RefusedError("global/object-does-not-exist", f"no {type} in {region}", 404)
            unknown = [key for key in key_names if key not in self.ssh_keys]
            if unknown:
                raise RefusedError("global/object-does-not-exist", f"no SSH key {unknown}", 404)
            self._refuse_if_short(type, region)
            instance = Instance(
                id=uuid.uuid4().hex,
                name=name,
                type=found,
                region=region,
                hourly_price_usd=found.hourly_price_usd,
                began_s=self._clock(),
            )
            self._instances[instance.id] = instance
            keys = [self.ssh_keys[key] for key in key_names]
            self._workers.submit(self._boot, instance, keys, self._boot_delay_s)
            return instance

    def instances(self) -> list[Instance]:
        """Return what is hired now, machines on their way out included."""
        with self._lock:
            return [one for one in self._instances.values() if one.ended_s is None]

    def terminate(self, ids: list[str]) -> list[Instance]:
        """Give machines back; they end in the background.

        Raises:
            RefusedError: one of them is not there, or the cloud was told to refuse.
        """
        with self._lock:
            unknown = [one for one in ids if one not in self._instances]
            if unknown:
                raise RefusedError("global/object-does-not-exist", f"no instance {unknown}", 404)
            if self._refusals_to_terminate > 0:
                self._refusals_to_terminate -= 1
                raise RefusedError("global/internal-error", "the instance did not terminate", 500)
            ended = [self._instances[one] for one in ids]
            if ended and self._ignored_terminations > 0:
                self._ignored_terminations -= 1
                return ended
            for instance in ended:
                self._end(instance)
            return ended

    # What a rehearsal does to it.

    def run_short(
        self, type: str | None = None, region: str | None = None, times: int | None = None
    ) -> None:
        """Refuse the next `times` launches of a type in a region for lack of capacity.

        Without `times` there is none until `have_plenty`, and the listing says so too.
        """
        with self._lock:
            self._shortages.append(Shortage(type, region, times))

    def have_plenty(self) -> None:
        """End every shortage."""
        with self._lock:
            self._shortages.clear()

    def delay_boots(self, seconds: float) -> None:
        """Have machines hired from now on boot this much later; infinity: never."""
        self._boot_delay_s = seconds

    def refuse_to_terminate(self, times: float = math.inf) -> None:
        """Answer the next `times` requests to terminate with an error; 0 ends it."""
        with self._lock:
            self._refusals_to_terminate = times

    def ignore_terminations(self, times: float = math.inf) -> None:
        """Take the next `times` requests to terminate, and end nothing; 0 ends it."""
        with self._lock:
            self._ignored_terminations = times

    def list_nothing(self, seconds: float) -> None:
        """Have the API list no machine for so long; they stay hired."""
        with self._lock:
            self._lists_nothing_until_s = self._clock() + seconds

    def listed(self) -> list[Instance]:
        """Return what the API lists."""
        with self._lock:
            return [] if self._clock() < self._lists_nothing_until_s else self.instances()

    def set_price(self, type: str, hourly_price_usd: float) -> None:
        """Change a price for machines hired from now on."""
        with self._lock:
            self._types[type] = replace(self._types[type], hourly_price_usd=hourly_price_usd)

    def preempt(self, id: str) -> None:
        """Take a machine away without being asked, and return when it has gone."""
        with self._lock:
            instance = self._instances[id]
            instance.preempted = True
            self._end(instance)
        self.await_gone(id)

    def await_gone(self, id: str, timeout_s: float = 60.0) -> None:
        """Wait until an instance has ended.

        Raises:
            RehearsalError: it is still there.
        """
        if not self._instances[id].gone.wait(timeout_s):
            raise RehearsalError(f"instance {id} is still there after {timeout_s:g} s")

    def bill(self) -> list[BillLine]:
        """Return what every instance has cost so far: seconds it lived times its price."""
        now = self._clock()
        with self._lock:
            return [_bill_line(instance, now) for instance in self._instances.values()]

    def cost_usd(self) -> float:
        """Return what everything has cost so far."""
        return math.fsum(line.cost_usd for line in self.bill())

    def close(self) -> None:
        """End every machine, whatever was told about refusing, and wait until all have gone."""
        self._closing.set()
        with self._lock:
            left = self.instances()
            for instance in left:
                self._end(instance)
        for instance in left:
            self.await_gone(instance.id)
        self._workers.shutdown()

    # How it works inside.

    def _never(self, type: str, region: str) -> bool:
        return any(one.times is None and one.covers(type, region) for one in self._shortages)

    def _refuse_if_short(self, type: str, region: str) -> None:
        for shortage in self._shortages:
            if shortage.covers(type, region):
                if shortage.times is not None:
                    shortage.times -= 1
                raise RefusedError(
                    "instance-operations/launch/insufficient-capacity",
                    "Not enough capacity to fulfill launch request.",
                )

    def _boot(self, instance: Instance, keys: list[str], delay_s: float) -> None:
        until = self._clock() + delay_s
        while self._clock() < until and instance.status == "booting" and not self._closing.is_set():
            self._closing.wait(0.1)
        machine: HiredMachine | None = None
        try:
            if instance.status == "booting":
                machine = self._start(instance.name, keys, instance.type)
        except RehearsalError:
            with self._lock:
                if instance.status == "booting":
                    instance.status = "unhealthy"
        finally:
            with self._lock:
                instance.machine = machine
                if machine is not None and instance.status == "booting":
                    instance.status = "active"
            instance.booted.set()

    def _end(self, instance: Instance) -> None:
        if instance.status != "terminating":
            instance.status = "terminating"
            self._workers.submit(self._finish, instance)

    def _finish(self, instance: Instance) -> None:
        instance.booted.wait()
        try:
            if instance.machine is not None:
                try:
                    for look in self.before_end if not instance.preempted else ():
                        look(instance)
                finally:
                    instance.machine.kill()
        finally:
            with self._lock:
                instance.ended_s = self._clock()
            instance.gone.set()


def _bill_line(instance: Instance, now_s: float) -> BillLine:
    seconds = (now_s if instance.ended_s is None else instance.ended_s) - instance.began_s
    return BillLine(
        id=instance.id,
        name=instance.name,
        type=instance.type.name,
        region=instance.region,
        hourly_price_usd=instance.hourly_price_usd,
        began_s=instance.began_s,
        ended_s=instance.ended_s,
        seconds=seconds,
        cost_usd=seconds / 3600 * instance.hourly_price_usd,
        preempted=instance.preempted,
    )
