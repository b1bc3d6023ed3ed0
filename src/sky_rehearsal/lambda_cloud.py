"""The simulated Lambda Cloud: instance types, rented machines, bill and faults."""

from __future__ import annotations

import csv
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from sky_rehearsal.machine import Machine
from sky_rehearsal.requirements import RehearsalError, UnfitError

CLOSE_TIMEOUT_S = 600.0
"""Limit of a machine's end: the copy of SkyPilot's runtime takes minutes on a slow disk."""


@dataclass(frozen=True)
class InstanceType:
    """A kind of machine with its price."""

    name: str
    hourly_price_usd: float
    cpus: int
    memory_gib: int
    gpus: int
    gpu_name: str | None
    regions: tuple[str, ...]


def read_instance_types(catalogs: Path) -> Mapping[str, InstanceType]:
    """Read ``lambda/vms.csv`` below a directory in the layout of ``~/.sky/catalogs/v8``.

    Raises:
        UnfitError: there is no such file.
    """
    path = catalogs / "lambda" / "vms.csv"
    if not path.is_file():
        raise UnfitError(f"{path} is not there; name a directory such as ~/.sky/catalogs/v8")
    types: dict[str, InstanceType] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["InstanceType"]
            regions = types[name].regions if name in types else ()
            types[name] = InstanceType(
                name=name,
                hourly_price_usd=float(row["Price"]),
                cpus=round(float(row["vCPUs"])),
                memory_gib=round(float(row["MemoryGiB"])),
                gpus=round(float(row["AcceleratorCount"] or 0)),
                gpu_name=row["AcceleratorName"] or None,
                regions=(*regions, row["Region"]),
            )
    return types


class RefusedError(Exception):
    """A refusal of the cloud; `code` and the message are in the form of Lambda's API."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass
class Instance:
    """A rented machine, from the request to its end."""

    id: str
    name: str
    type: InstanceType
    region: str
    hourly_price_usd: float
    began_s: float
    status: str = "booting"
    machine: Machine | None = None
    ended_s: float | None = None
    preempted: bool = False
    booted: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class BillLine:
    """The cost of one instance. `ended_s` is None while it is still rented."""

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
    """Requests to refuse. None stands for any type, any region, any number of times."""

    type: str | None
    region: str | None
    times: int | None

    def covers(self, type: str, region: str) -> bool:
        """Return whether it concerns an instance type in a region."""
        return self.type in {None, type} and self.region in {None, region} and self.times != 0


class LambdaCloud:
    """The state of the cloud; `lambda_api` speaks HTTP for it.

    Every fault is set here by name, at any time, from any thread.

    Args:
        types: machines for rent, by name.
        start: starts a machine, given its name, the public keys and its type.
        clock: seconds since the epoch; the bill is made from it.

    Attributes:
        before_end: each is shown every machine that is given back, while it still runs.
    """

    def __init__(
        self,
        types: Mapping[str, InstanceType],
        start: Callable[[str, Sequence[str], InstanceType], Machine],
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

    # Requests of the API.

    def types(self) -> list[tuple[InstanceType, list[str]]]:
        """Return every type with the regions that have some left."""
        with self._lock:
            lasting = [shortage for shortage in self._shortages if shortage.times is None]
            return [
                (type, [region for region in type.regions if not _short(lasting, type, region)])
                for type in self._types.values()
            ]

    def launch(self, type: str, region: str, name: str, key_names: Sequence[str]) -> Instance:
        """Rent a machine; it boots in the background.

        Raises:
            RefusedError: there is no such type or key, or no capacity.
        """
        with self._lock:
            wanted = self._types.get(type)
            if wanted is None or region not in wanted.regions:
                raise RefusedError("global/object-does-not-exist", f"no {type} in {region}", 404)
            if unknown := [key for key in key_names if key not in self.ssh_keys]:
                raise RefusedError("global/object-does-not-exist", f"no SSH key {unknown}", 404)
            for shortage in _short(self._shortages, wanted, region):
                if shortage.times is not None:
                    shortage.times -= 1
                raise RefusedError(
                    "instance-operations/launch/insufficient-capacity",
                    "Not enough capacity to fulfill launch request.",
                )
            instance = Instance(
                id=uuid.uuid4().hex,
                name=name,
                type=wanted,
                region=region,
                hourly_price_usd=wanted.hourly_price_usd,
                began_s=self._clock(),
            )
            self._instances[instance.id] = instance
            keys = [self.ssh_keys[key] for key in key_names]
            self._workers.submit(self._boot, instance, keys, self._boot_delay_s)
            return instance

    def listed(self) -> list[Instance]:
        """Return the instances that the API lists."""
        with self._lock:
            return [] if self._clock() < self._lists_nothing_until_s else self.instances()

    def terminate(self, ids: Sequence[str]) -> list[Instance]:
        """Give machines back; they end in the background.

        Raises:
            RefusedError: an instance is unknown, or `refuse_to_terminate` was called.
        """
        with self._lock:
            if unknown := [id for id in ids if id not in self._instances]:
                raise RefusedError("global/object-does-not-exist", f"no instance {unknown}", 404)
            if self._refusals_to_terminate > 0:
                self._refusals_to_terminate -= 1
                raise RefusedError("global/internal-error", "the instance did not terminate", 500)
            named = [self._instances[id] for id in ids]
            if named and self._ignored_terminations > 0:
                self._ignored_terminations -= 1
                return named
            for instance in named:
                self._end(instance)
            return named

    # The truth, whatever the API says.

    def instances(self) -> list[Instance]:
        """Return the rented instances, including ending instances."""
        with self._lock:
            return [one for one in self._instances.values() if one.ended_s is None]

    def bill(self) -> list[BillLine]:
        """Return the cost of every instance: its seconds times its price."""
        now_s = self._clock()
        with self._lock:
            return [_bill_line(instance, now_s) for instance in self._instances.values()]

    def await_gone(self, id: str, timeout_s: float = 60.0) -> None:
        """Wait until an instance has ended.

        Raises:
            RehearsalError: it is still there.
        """
        if not self._instances[id].gone.wait(timeout_s):
            raise RehearsalError(f"instance {id} is still there after {timeout_s:g} s")

    def close(self) -> None:
        """End every machine, even against a simulated refusal, and wait until all are gone."""
        self._closing.set()
        with self._lock:
            left = self.instances()
            for instance in left:
                self._end(instance)
        for instance in left:
            self.await_gone(instance.id, CLOSE_TIMEOUT_S)
        self._workers.shutdown()

    # Faults.

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
        """Have machines rented from now on boot this much later; infinity: never."""
        self._boot_delay_s = seconds

    def refuse_to_terminate(self, times: float = math.inf) -> None:
        """Answer the next `times` requests to terminate with an error; 0 ends it."""
        self._refusals_to_terminate = times

    def ignore_terminations(self, times: float = math.inf) -> None:
        """Take the next `times` requests to terminate, and end nothing; 0 ends it."""
        self._ignored_terminations = times

    def list_nothing(self, seconds: float) -> None:
        """Have the API list no machine for a time; the machines stay rented."""
        self._lists_nothing_until_s = self._clock() + seconds

    def set_price(self, type: str, hourly_price_usd: float) -> None:
        """Change a price for machines rented from now on."""
        with self._lock:
            self._types[type] = replace(self._types[type], hourly_price_usd=hourly_price_usd)

    def preempt(self, id: str) -> None:
        """Take a machine away without being asked, and return when it has gone."""
        with self._lock:
            instance = self._instances[id]
            instance.preempted = True
            self._end(instance)
        self.await_gone(id)

    # Life of an instance, in the background.

    def _boot(self, instance: Instance, keys: Sequence[str], delay_s: float) -> None:
        until_s = self._clock() + delay_s
        while self._clock() < until_s and instance.status == "booting":
            if self._closing.wait(0.1):
                break
        machine, status = None, "unhealthy"
        try:
            if instance.status == "booting":
                machine = self._start(instance.name, keys, instance.type)
                status = "active"
        except RehearsalError:
            pass  # the instance is unhealthy, and costs money all the same
        finally:
            with self._lock:
                instance.machine = machine
                if instance.status == "booting":
                    instance.status = status
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


def _short(shortages: Sequence[Shortage], type: InstanceType, region: str) -> list[Shortage]:
    return [shortage for shortage in shortages if shortage.covers(type.name, region)]


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
