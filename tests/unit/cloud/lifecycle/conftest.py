"""Machines and their parts of runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skymark.machine.facts import capture
from skymark.model.manifest import Manifest
from skymark.model.record import Record, Status
from skymark.rundir.directory import RunDirectory
from skymark.store.kinds import open_store
from skymark.suites.loading.metrics import DECLARATION
from tests.stores.installed import install_zip_store, packages_in
from tests.unit.cloud.lifecycle.machine import Machines
from tests.unit.rundir.past_runs import cell, plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CELLS = (cell("TAB-1"), cell("NLP-1"))
PLAN = plan(CELLS, profile="test")


@pytest.fixture(autouse=True)
def stepped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that is set forward and back by hours, between any two looks at it."""
    looks, began_s = itertools.count(1), time.time()
    monkeypatch.setattr(time, "time", lambda: began_s + (-1) ** (look := next(looks)) * 3600 * look)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """A place for machines."""
    return Machines(tmp_path, monkeypatch)


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., RunDirectory]:
    """Write a run with records of some cells, as a machine does."""
    machine = capture(tmp_path)

    def write(path: Path, *cells, ended: bool = True) -> RunDirectory:
        manifest = Manifest(
            run_id=path.name,
            created_at=NOW,
            ended_at=NOW if ended else None,
            plan=PLAN,
            plan_hash=PLAN.hash,
            declaration=DECLARATION,
            machine=machine,
        )
        run = RunDirectory.create(path, manifest, resume=False)
        for one in cells:
            run.write_log(one, f"log of {one.id}")
            run.write_record(
                Record(cell=one, cell_hash=one.hash, status=Status.OK, started_at=NOW, ended_at=NOW)
            )
        if ended:
            run.write_sums()
            path.with_name(f"{path.name}.outcome").write_text("run 0\n")
        return run

    return write


@pytest.fixture
def stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_run: Callable[..., RunDirectory]
) -> Iterator[Callable[..., str]]:
    """Put the run ``one``, with records of some cells, into a store that outlives machines."""

    def put(*cells) -> str:
        run = write_run(tmp_path / "sent" / "one", *cells, ended=False)
        with closing(open_store(address, "one")) as store:
            for path in run.files():
                store.put(path, (run.path / path).read_bytes())
        return address

    address = f"zip://{tmp_path}"
    with packages_in(tmp_path / "site", monkeypatch) as site:
        install_zip_store(site)
        yield put
