"""One simulated cloud with the real SkyPilot, shared by the tests of a session."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from sky_rehearsal import UnfitError, World, check_requirements, rehearsal_world
from tests.cloud.footprint import NOTHING, footprint, users_files
from tests.cloud.launches import LastLook
from tests.cloud.table import Tables

collect_ignore_glob = [] if find_spec("sky") else ["test_*.py"]
"""SkyPilot has an environment of its own, where ``nox -s cloud_tests`` runs these tests."""

COMMAND_TIMEOUT_S = 1200.0
LOG_TAIL_CHARACTERS = 5000


@pytest.fixture(scope="session")
def fit() -> None:
    """Skip where no rehearsal can be held, and say why."""
    try:
        check_requirements()
    except UnfitError as reason:
        pytest.skip(str(reason))


def _read(output: IO[str]) -> str:
    output.seek(0)
    return output.read()


@dataclass
class Client:
    """A user of SkyPilot in the simulated cloud."""

    world: World

    def variables(self) -> dict[str, str]:
        """Return the variables of its programs; skymark's cache is in its home, too."""
        cache = self.world.home / ".cache" / "skymark"
        return {**self.world.variables(), "SKYMARK_CACHE": str(cache)}

    def sky(self, *arguments: str, check: bool = True) -> str:
        """Run SkyPilot's command and return what it says."""
        command = [str(Path(sys.executable).with_name("sky")), *arguments]
        with TemporaryFile("w+") as output:
            try:
                status = subprocess.run(
                    command,
                    env=self.variables(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    timeout=COMMAND_TIMEOUT_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired as late:
                pytest.fail(f"{late}: {_read(output)}\n{self._provisioning()}")
            said = _read(output)
        if check:
            assert status == 0, said
        return said

    def _provisioning(self) -> str:
        """Return the end of SkyPilot's newest log of making a machine ready."""
        logs = self.world.home.glob("sky_logs/*/provision.log")
        newest = max(logs, key=lambda path: path.stat().st_mtime, default=None)
        return newest.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if newest else ""

    def ask(self, question: str) -> Any:
        """Evaluate an expression with SkyPilot's SDK as ``sky``, in a process of its own."""
        program = f"import json, sky; print(json.dumps({question}))"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def clusters(self) -> dict[str, str]:
        """Return the status of every cluster, asked of the provider."""
        refresh = "refresh=sky.StatusRefreshMode.FORCE"
        return self.ask(f"{{c['name']: c['status'].value for c in sky.get(sky.status({refresh}))}}")


@pytest.fixture(scope="module")
def other_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for SkyPilot where a test imports it: nothing of it may get into the user's own."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def client(fit: None) -> Iterator[Client]:
    """A cloud for the session. When it ends, nothing of it may be left on this machine."""
    # Short: SkyPilot puts sockets below it, whose paths may have 108 characters.
    directory = Path(tempfile.mkdtemp(prefix="sm-"))
    before = users_files()
    with rehearsal_world(directory=directory, clouds=("lambda", "slurm")) as world:
        yield Client(world)
    assert footprint(directory, world.network.bridge) == NOTHING
    assert users_files() == before
    assert all(change.undone for change in world.changes.record)
    assert not directory.exists()


@pytest.fixture(scope="session")
def watched(fit: None) -> Iterator[Client]:
    """A cloud for the session whose SkyPilot runs controllers of managed jobs."""
    directory = Path(tempfile.mkdtemp(prefix="sm-"))
    with rehearsal_world(directory=directory, managed_jobs=True) as world:
        yield Client(world)
    assert footprint(directory, world.network.bridge) == NOTHING


@pytest.fixture(scope="session")
def look(client: Client, tmp_path_factory: pytest.TempPathFactory) -> LastLook:
    """What was on the machines when they were given back."""
    look = LastLook(tmp_path_factory.mktemp("machines"))
    client.world.cloud.before_end.append(look)
    return look


@pytest.fixture(scope="session")
def tables(pytestconfig: pytest.Config) -> Tables:
    """Where the tests put what they count."""
    return Tables(pytestconfig.getoption("--fault-table"))


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait for a condition of something that only time brings, such as an idle timer."""

    def wait(condition: Callable[[], object], timeout_s: float, interval_s: float = 0.2) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
            time.sleep(interval_s)

    return wait
