"""How many moments of each fault, and where the table of all faults goes.

    python -m pytest tests/faults --fault-moments 20 --fault-table docs/reference/faults.md

makes the table of the page; ``--fault-seed`` draws the same moments again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.faults.runs import STARTED, Case, started_below
from tests.faults.table import Table

MOMENTS = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--fault-moments", type=int, help="random moments of each fault")
    group.addoption("--fault-seed", type=int, help="draw the moments of an earlier session again")


@pytest.fixture(autouse=True)
def without_coverage(processes_without_coverage: None) -> None:
    """Count no lines in the thousand processes that are killed here."""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """End what a test that failed has left running."""
    yield
    while STARTED:
        process = STARTED.pop()
        for one in started_below(process):
            with suppress(psutil.Error):
                one.kill()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture(scope="session")
def moments(pytestconfig: pytest.Config) -> int:
    """How often each fault at a random moment is done."""
    return pytestconfig.getoption("--fault-moments", None) or MOMENTS


@pytest.fixture
def chance(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> random.Random:
    """Random moments; the seed is shown where the test fails."""
    seed = pytestconfig.getoption("--fault-seed", None)
    if seed is None:
        seed = random.SystemRandom().randrange(10**6)
    print(f"--fault-seed {seed}")
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Iterator[Table]:
    """Where every test puts its row; written at the end of the session."""
    collected = Table()
    yield collected
    if page := pytestconfig.getoption("--fault-table", None):
        collected.write(page)


@pytest.fixture(scope="session")
def usual_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the usual small run takes that nothing happens to, data and environments made."""
    for attempt in range(2):
        case = Case(tmp_path_factory.mktemp("usual"))
        begin = time.monotonic()
        status, stderr = case.run()
        took_s = time.monotonic() - begin
        assert status == 0, stderr
        row = case.row()
        assert (row.planned, row.measured, row.repeated, row.lost) == (8, 8, 0, 0), attempt
    return took_s
