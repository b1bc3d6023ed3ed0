"""`skymark launch` in the simulated cloud: started as a user does, watched, and counted."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sky_rehearsal import BillLine, Instance
from skymark.cloud.machine_script import LATEST, RESULTS
from skymark.model.record import RoundResult
from skymark.store.kinds import open_store, runs_at
from tests.cloud.table import Row
from tests.faults.runs import rounds_in
from tests.stores.s3_server import S3Server, s3_server

if TYPE_CHECKING:
    from tests.cloud.conftest import Client

TOOLS = Path(__file__).parents[2] / ".venv" / "bin" / "python"
"""Has what serves a bucket, which SkyPilot's environment has not."""

SMALL = Path(__file__).with_name("machines") / "small.yaml"
ONE_CELL = "../one_cell.toml"
"""A profile's path from the source on a machine of `small_with_profile`."""
PLAN = ("--scenarios", "TAB-1:small", "--adapters", "numpy", "--effort", "quick")
ROUNDS = ("--rounds", "1")
TIMEOUT_S = 1200.0
COPY_TRIES = 10


@dataclass
class Command:
    """A skymark that has ended."""

    status: int
    output: str

    @property
    def cluster(self) -> str:
        """The machine that it rented."""
        return cluster_in(self.output)


class Running:
    """A skymark that runs, and what it says, with the time at which it said it."""

    def __init__(
        self, client: Client, *arguments: str, stdin: int = subprocess.DEVNULL, **variables: str
    ) -> None:
        # A shell's background job ignores Ctrl-C, and so would what the tests start from one.
        self.process = subprocess.Popen(
            client.world.command(
                "env", "--default-signal=INT", sys.executable, "-m", "skymark", *arguments
            ),
            env={**client.variables(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=stdin,
            text=True,
        )
        self.said: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """What it said so far."""
        return "".join(line for _, line in self.said)

    @property
    def cluster(self) -> str:
        """The machine that it rents; waits until it says so."""
        self.said_at_s("renting skymark-")
        return cluster_in(self.output)

    def said_at_s(self, text: str, timeout_s: float = TIMEOUT_S) -> float:
        """Wait until it says something, and return the moment of `time.time` when it did."""
        deadline = time.monotonic() + timeout_s
        while True:
            running = self._reader.is_alive()
            for at_s, line in list(self.said):
                if text in line:
                    return at_s
            assert running, f"it ended without saying {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"{text!r} was not said:\n{self.output}"
            time.sleep(0.01)

    def kill(self) -> Command:
        """Send it SIGKILL."""
        self.process.kill()
        return self.end()

    def end(self, timeout_s: float = TIMEOUT_S) -> Command:
        """Wait for its end."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end within {timeout_s:g} s; it said:\n{self.output}")
        finally:
            self.process.kill()
            self._reader.join()
            self.process.stdout.close()
            self.process.wait()
        return Command(self.process.returncode, self.output)

    def _read(self) -> None:
        for line in self.process.stdout:
            self.said.append((time.time(), line))


def skymark(client: Client, *arguments: str, **variables: str) -> Command:
    """Run a command of skymark to its end."""
    return Running(client, *arguments, **variables).end()


def launching(
    client: Client, machine: Path, results: Path, *more: str, profile: str = "cpu", **variables: str
) -> Running:
    """Start `skymark launch` with a small plan, under a name that no other test's machine had."""
    command = ("launch", profile, "--infra", "lambda", "--machine", str(machine), "--yes")
    rounds = () if "--rounds" in more else ROUNDS
    name = () if "-c" in more else ("-c", f"skymark-cpu-{secrets.token_hex(3)}")
    options = (*PLAN, *rounds, *name, "--output", str(results), *more)
    return Running(client, *command, *options, **variables)


def launch(client: Client, machine: Path, results: Path, *more: str, **variables: str) -> Command:
    """Run `skymark launch` with a small plan to its end."""
    return launching(client, machine, results, *more, **variables).end()


@contextmanager
def bucket_of(client: Client) -> Iterator[S3Server]:
    """A bucket that the machines of a client's world reach."""
    assert TOOLS.is_file(), "the bucket is served by the tools in .venv: run make setup"
    with s3_server(client.world.network.gateway, str(TOOLS)) as server:
        server.make_bucket("results")
        yield server


def reach(bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process read a bucket."""
    for name, value in bucket.variables.items():
        monkeypatch.setenv(name, value)


def stored_rounds(address: str) -> set[str]:
    """Return when the rounds began that lie in a store, of cells that are not finished."""
    found = set()
    for run in runs_at(address):
        with closing(open_store(address, run)) as store:
            for path in store.sizes():
                if path.startswith("rounds/"):
                    with suppress(FileNotFoundError):  # its cell has finished
                        result = RoundResult.model_validate(json.loads(store.get(path))["result"])
                        found.add(result.started_at.isoformat())
    return found


def cluster_in(output: str) -> str:
    """Return the name of the machine that a launch says it rents."""
    return re.search(r"renting (skymark-\S+)", output)[1]


def bill_of(client: Client, cluster: str) -> list[BillLine]:
    """Return what the provider asks for, of a cluster's machines."""
    return [line for line in client.world.cloud.bill() if line.name.startswith(f"{cluster}-")]


def await_gone(client: Client, cluster: str) -> None:
    """Wait until the provider has ended all of a cluster's machines."""
    for line in bill_of(client, cluster):
        client.world.cloud.await_gone(line.id)


def machine_of(directory: Path, name: str, **sections: str) -> Path:
    """Write a machine of the simulated cloud that takes no set-up."""
    content = {
        "name": name,
        "resources": {"accelerators": "A6000:1"},
        "envs": {"SKYMARK_RUN_ID": ""},
        **sections,
    }
    path = directory / f"{name}.yaml"
    path.write_text(json.dumps(content))
    return path


def small_with_profile(directory: Path) -> Path:
    """Write the small machine for plain `sky`, which sends a profile of one cell along."""
    path = directory / "small.yaml"
    profile = SMALL.with_name("one_cell.toml")
    path.write_text(f"{SMALL.read_text()}\nfile_mounts:\n  ~/one_cell.toml: {profile}\n")
    return path


class LastLook:
    """Keeps the results of every machine as they lay on its disk when it was given back."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, instance: Instance) -> None:
        """Copy a machine's results; times of files stay."""
        assert instance.machine is not None
        there = instance.machine.home / RESULTS
        copy = self._directory / instance.id
        # The newest is a link to one that is copied besides.
        ignored = shutil.ignore_patterns(LATEST, "*.part")
        for tries_left in reversed(range(COPY_TRIES)):
            if not there.is_dir():
                return
            try:
                shutil.copytree(there, copy, ignore=ignored)
                return
            except (shutil.Error, FileNotFoundError):  # a run renamed or removed files meanwhile
                if tries_left == 0:
                    raise
                shutil.rmtree(copy, ignore_errors=True)

    def runs(self, instance: str) -> list[Path]:
        """Return the runs that were on a machine."""
        return sorted(path.parent for path in self._directory.glob(f"{instance}/*/manifest.json"))

    def ended_s(self, instance: str) -> list[float]:
        """Return when the jobs of a machine ended."""
        outcomes = self._directory.glob(f"{instance}/*.outcome")
        return [path.stat().st_mtime for path in outcomes]


def count(
    client: Client, look: LastLook, cluster: str, home: Path | None, *, planned: int = 1
) -> Row:
    """Count the rounds of a launch when its machines are gone.

    Args:
        client: whose launch it was.
        look: has what was on the machines.
        cluster: the launch's machines.
        home: the run's directory where it came to; None where nothing did.
        planned: rounds of all cells.
    """
    await_gone(client, cluster)
    bill = bill_of(client, cluster)
    kept = [] if home is None else [one for cell in rounds_in(home).values() for one in cell]
    on_disks = {  # of a run that another machine took up, on both of theirs
        one.started_at: one
        for line in bill
        for run in look.runs(line.id)
        for cell in rounds_in(run).values()
        for one in cell
    }
    measured = on_disks.values()
    assert all(one in measured for one in kept), "what was on the machines is not known"
    idle_s = [
        line.ended_s - ended_s
        for line in bill
        for ended_s in look.ended_s(line.id)
        if line.ended_s is not None
    ]
    return Row(
        planned=planned,
        measured=len(measured),
        home=len(kept),
        lost=sum(one not in kept for one in measured),
        left=len(client.world.rented(cluster)),
        bill_usd=sum(line.cost_usd for line in bill),
        idle_s=max(idle_s, default=None),
    )
