"""Quotes against the provider's bills, on every way to a machine, with jobs that sleep.

A stand-in sleeps a sixtieth of the time that such work takes, ±30 %. The quote counts the set-up at
its real time, so that a slow disk here is no fault of the price.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest

import skymark
from sky_rehearsal.lambda_cloud import BillLine
from skymark.rundir.reader import open_run
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    SMALL,
    LastLook,
    Running,
    bill_of,
    bucket_of,
)
from tests.faults.table import renew
from tests.installed_suite import install_into

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_prices, pytest.mark.timeout(4800)]

STAND_IN = Path(__file__).parents[1] / "data" / "standin_suite"
SET_UP_OF_SKYMARK = "--no-deps --no-build-isolation --editable .\n"
COLUMNS = ("way to the machine", "machines", "quote", "bill", "bill / quote", "ceiling")
WAYS = (
    "launch", "launch, client killed, jobs never end", "launch --managed", "launch --idle",
    "launch --keep", "launch --keep, client killed", "exec", "exec, client killed, jobs never end",
    "submit", "submit, jobs never end", "submit --managed, 4 jobs",
    "run --on", "run --on, client killed, jobs never end", "run --on --detach",
    "run --on, 64 slots", "run --on, 64 slots, one killed",
)  # fmt: skip
KINDS = ("one GPU", "eight GPUs", "two nodes", "four machines")
ROWS = tuple(f"{way}, {kind}" for way in WAYS for kind in KINDS)
EIGHT = ("--gpus", "H100:8")
ONE = ("--gpus", "H100:1")
TWO = (*ONE, "--num-nodes", "2")
MINUTES = ("-i", "1")
FOREVER = ("--env", "STANDIN_FACTOR=200")
TOLERANCE = 0.25
GONE_S = 1800.0


@dataclass(frozen=True)
class Told:
    """The figures of a quote as they are printed."""

    expected_usd: float
    high_usd: float
    before_s: float
    """Machine and set-up, which are replaced by their real times."""


def told(output: str) -> Told:
    said = re.search(r"expected ([0-9.]+) USD, at most ([0-9.]+) USD", output)
    before = re.search(r"machine (.+?), set-up (.+?), run", output)
    return Told(float(said[1]), float(said[2]), sum(map(seconds_of, before.groups())))


def seconds_of(text: str) -> float:
    units = {"h": 3600, "min": 60, "s": 1, "ms": 0.001}
    return sum(float(n) * units[unit] for n, unit in re.findall(r"([0-9.]+) (h|min|ms|s)\b", text))


class Rental:
    """Commands for machines whose suite sleeps, and their bills."""

    def __init__(self, client: Client, look: LastLook, directory: Path, page: Path | None) -> None:
        self.client, self.look, self.directory, self.page = client, look, directory, page
        self.held: set[str] = set()
        """Machines whose bill was compared."""
        installed = directory / "installed"
        install_into(STAND_IN, installed)
        source = os.fspath(Path(skymark.__file__).parents[1])
        self.variables = {"PYTHONPATH": os.pathsep.join([os.fspath(installed), source])}
        head, set_up, tail = SMALL.read_text().partition(SET_UP_OF_SKYMARK)
        package = "  uv pip install --quiet --no-deps --no-build-isolation ~/standin_suite\n"
        self.machine = directory / "standin.yaml"
        sent = f"\nfile_mounts:\n  ~/standin_suite: {STAND_IN}\n"
        self.machine.write_text(head + set_up + package + tail + sent)
        self.profile = directory / "standin.toml"
        names = ", ".join(f'"s{number}"' for number in range(1, 17))
        self.profile.write_text(
            'description = "Sleeps"\nsuite = "standin"\nplatform = "cpu"\n'
            f'scenarios = ["sleep"]\nadapters = [{names}]\ndeadline_minutes = 15\n'
            "max_cost_usd = 40\n"
        )

    def start(self, *arguments: str, **more: str) -> Running:
        return Running(self.client, *arguments, **self.variables, **more)

    def launch(self, *more: str, cells: int = 8) -> tuple[Running, str]:
        name = f"skymark-p{secrets.token_hex(3)}"
        where = ("--infra", "lambda", "--machine", str(self.machine), "-c", name, "--yes")
        output = ("--output", str(self.directory / "results"))
        command = ("launch", str(self.profile), *of(cells), *where, *output, *more)
        return self.start(*command), name

    def end(self, running: Running) -> str:
        done = running.end()
        assert done.status == 0, done.output
        return done.output

    def hold(self, way: str, kind: str, output: str, name: str | None, since_s: float | None = None,
             *, overrun: bool = False) -> None:  # fmt: skip
        """Wait for the machines' end and hold the quote against their bill.

        Args:
            way: of the row.
            kind: of the row.
            output: has the quote.
            name: of the cluster; None for all machines that were not compared yet, because SkyPilot
                cuts the names of managed jobs' clusters.
            since_s: from when on it counts, of a machine that was there; None from its order.
            overrun: whether the jobs never end, and only the ceiling counts.
        """
        lines = self.await_bill(name)
        quote = told(output)
        begun = {line.id: self.begun_s(line, since_s or line.began_s) for line in lines}
        paid = [(line, since_s or line.began_s) for line in lines]
        bill_usd = sum((one.ended_s - s) / 3600 * one.hourly_price_usd for one, s in paid)
        real_s = mean(begun[one.id] - s for one, s in paid)
        hourly_usd = sum(one.hourly_price_usd for one in lines)
        expected_usd = quote.expected_usd + (real_s - quote.before_s) / 3600 * hourly_usd
        share = bill_usd / expected_usd
        self.held.update(line.id for line in lines)
        row = [
            str(len(lines)),
            f"{expected_usd:.2f} USD",
            f"{bill_usd:.2f} USD",
            "" if overrun else f"{share:.2f}",
            f"{quote.high_usd:.2f} USD, kept" if bill_usd <= quote.high_usd else "BROKEN",
        ]
        print(way, kind, row, f"set-up {real_s:.0f} s")
        if self.page is not None:
            renew(self.page, "price table", COLUMNS, ROWS, {f"{way}, {kind}": row})
        assert bill_usd <= quote.high_usd
        assert overrun or abs(share - 1) <= TOLERANCE

    def await_bill(self, name: str | None) -> list[BillLine]:
        for line in self.lines_of(name):
            self.client.world.cloud.await_gone(line.id, GONE_S)
        return [one for one in self.lines_of(name) if one.ended_s is not None]

    def lines_of(self, name: str | None) -> list[BillLine]:
        if name is not None:
            return bill_of(self.client, name)
        return [one for one in self.client.world.cloud.bill() if one.id not in self.held]

    def begun_s(self, line: BillLine, since_s: float) -> float:
        """Return when a machine's run began, or its set-up was over where it had none."""
        runs = [open_run(run).manifest.created_at for run in self.look.runs(line.id)]
        begun = [at.timestamp() for at in runs if at.timestamp() >= since_s]
        return min(begun or self.look.ended_s(line.id))

    def await_run(self, name: str, eventually: Callable[..., None]) -> None:
        """Wait until a run has begun on a machine."""
        rented = self.client.world.rented(name)
        homes = [self.client.world.machine(one).home for one in rented]
        eventually(
            lambda: any(list(home.glob("results/*/manifest.json")) for home in homes),
            timeout_s=600,
        )


def of(cells: int) -> tuple[str, ...]:
    return ("--adapters", *(f"s{number}" for number in range(1, cells + 1)))


@pytest.fixture(scope="module")
def rental(
    client: Client, look: LastLook, tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Rental:  # fmt: skip
    page = pytestconfig.getoption("--fault-table")
    return Rental(client, look, tmp_path_factory.mktemp("rental"), page)


MACHINES = [pytest.param("one GPU", ONE, id="one"), pytest.param("eight GPUs", EIGHT, id="eight"),
            pytest.param("two nodes", TWO, id="two")]  # fmt: skip


@pytest.mark.parametrize(("kind", "where"), MACHINES)
def test_launch(rental: Rental, kind: str, where: tuple[str, ...]) -> None:
    running, name = rental.launch(*where)
    rental.hold("launch", kind, rental.end(running), name)


@pytest.mark.parametrize(("kind", "where"), MACHINES[:2])
def test_submit_to_a_machine_that_stays(rental: Rental, kind: str, where: tuple[str, ...]) -> None:
    ceiling_usd = "0.60" if kind == "one GPU" else "3.50"
    for way, more in (
        ("submit", ()),
        ("submit, jobs never end", (*FOREVER, "--max-cost", ceiling_usd)),
    ):
        launched, name = rental.launch(*where, "--idle", "-i", "2")
        rental.end(launched)
        since_s = time.time()
        plan = ("--profile", str(rental.profile), "--gpu-fraction", "1")
        output = rental.end(rental.start("submit", "--cluster", name, *plan, *more))
        rental.hold(way, kind, output, name, since_s, overrun=bool(more))


@pytest.mark.parametrize(("kind", "where"), MACHINES)
def test_launch_whose_client_is_killed(
    rental: Rental, kind: str, where: tuple[str, ...], eventually: Callable[..., None]
) -> None:
    running, name = rental.launch(*where, "--deadline", "4m", *MINUTES, *FOREVER)
    running.said_at_s("is up after")
    rental.await_run(name, eventually)
    output = running.kill().output
    way = "launch, client killed, jobs never end"
    rental.hold(way, kind, output, name, overrun=True)


@pytest.mark.parametrize(("kind", "where"), MACHINES)
def test_a_machine_that_stays(rental: Rental, kind: str, where: tuple[str, ...]) -> None:
    for way, option in (("launch --keep", "--keep"), ("launch --idle", "--idle")):
        running, name = rental.launch(*where, option, "-i", "2")
        rental.hold(way, kind, rental.end(running), name)


@pytest.mark.parametrize(("kind", "where"), MACHINES)
def test_exec_on_a_machine_that_stays(
    rental: Rental, kind: str, where: tuple[str, ...], eventually: Callable[..., None]
) -> None:
    for way, more in (("exec", ()), ("exec, client killed, jobs never end", FOREVER)):
        launched, name = rental.launch(*where, "--idle", "-i", "2")
        rental.end(launched)
        since_s = time.time()
        options = (*of(8), "--deadline", "3m", "--output", str(rental.directory / "results"))
        running = rental.start("exec", name, *options, *more)
        if more:
            rental.await_run(name, eventually)
            output = running.kill().output
        else:
            output = rental.end(running)
        rental.hold(way, kind, output, name, since_s, overrun=bool(more))


def run_on(
    rental: Rental, *more: str, fraction: str = "1", **variables: str
) -> tuple[Running, str]:
    """Start a run on all GPUs of a machine; returns it and the machine's name."""
    profile = rental.directory / f"on-{secrets.token_hex(3)}.toml"  # the machine has its name
    profile.write_text(rental.profile.read_text())
    work = ("run", "--profile", str(profile), "--on", "H100:8", "--gpu-fraction", fraction)
    where = ("--infra", "lambda", "--machine", str(rental.machine), "--yes")
    running = rental.start(*work, *where, *more, **variables)
    running.said_at_s("renting ")
    return running, re.search(r"renting (skymark-\S+)", running.output)[1]


def test_a_run_on_eight_gpus_that_are_rented_for_it(
    rental: Rental, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    running, name = run_on(rental, "--max-cost", "12")
    output = rental.end(running)
    rental.hold("run --on", "eight GPUs", output, name)
    (home,) = (tmp_path / "results").glob("*-*")
    assert len(open_run(home).records) == 16
    with bucket_of(rental.client) as bucket:
        stored = ("--store", "s3://results/on", "--max-cost", "7")
        running, name = run_on(rental, *stored, "--detach", **bucket.variables)
        output = rental.end(running)
        rental.hold("run --on --detach", "eight GPUs", output, name)
        forever = ("--secret", "STANDIN_FACTOR=200")
        running, name = run_on(rental, *stored, *forever, **bucket.variables)
        running.said_at_s("is up after")
        rental.await_run(name, eventually)
        output = running.kill().output
        way = "run --on, client killed, jobs never end"
        rental.hold(way, "eight GPUs", output, name, overrun=True)


@pytest.mark.parametrize("is_one_killed", [False, True], ids=["all-live", "one-killed"])
def test_sixty_four_slots_on_eight_gpus(
    rental: Rental, eventually: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, *, is_one_killed: bool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    names = [f"l{number}" for number in range(1, 65)]
    limits = ("--max-cost", "40", "--deadline", "30m")
    running, name = run_on(rental, *limits, "--adapters", *names, fraction="0.125")
    running.said_at_s("is up after")
    rental.await_run(name, eventually)
    if is_one_killed:
        taking = "pgrep --count --full 'skymark ru[n] --plan'"
        newest = "pkill --signal KILL --newest --full 'skymark ru[n] --plan'"
        on_machine = ("ssh", name, "--", f"test $({taking}) -ge 64 && {newest}")
        eventually(lambda: rental.start(*on_machine).end().status == 0, timeout_s=300)
    output = rental.end(running)
    way = f"run --on, 64 slots{', one killed' if is_one_killed else ''}"
    rental.hold(way, "eight GPUs", output, name, overrun=is_one_killed)
    (home,) = (tmp_path / "results").glob("*-*")
    assert len(open_run(home).records) == 64


def test_managed_jobs(
    watched: Client, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    look = LastLook(tmp_path_factory.mktemp("machines"))
    watched.world.cloud.before_end.append(look)
    page = pytestconfig.getoption("--fault-table")
    rental = Rental(watched, look, tmp_path_factory.mktemp("rental"), page)
    with bucket_of(rental.client) as bucket:
        store = ("--store", "s3://results/prices", "--infra", "lambda", *ONE)
        rental.variables = {**rental.variables, **bucket.variables}
        running, name = rental.launch("--managed", "--store", "s3://results/one", *ONE)
        rental.hold("launch --managed", "one GPU", rental.end(running), name)
        command = ("submit", "--managed", "--profile", str(rental.profile), "--jobs", "4", "--yes")
        said = rental.end(rental.start(*command, "--machine", str(rental.machine), *store))
        rental.hold("submit --managed, 4 jobs", "four machines", said, None)
