"""The parts of a run that machines shared become one run, and what lacks is named."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from skymark.cloud.lifecycle.results import add_price, bring_from_store, merge, problems_of
from skymark.machine.facts import capture
from skymark.model.errors import CloudError
from skymark.model.manifest import Manifest
from skymark.model.record import Record, Round, Status
from skymark.rundir.directory import RunDirectory
from skymark.rundir.mending import damages
from skymark.suites.loading.metrics import DECLARATION
from tests.rented_runs import run_of
from tests.unit.rundir.past_runs import cell, plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CELLS = (cell("TAB-1"), cell("NLP-1"))
PLAN = plan(CELLS, profile="test")


def rounds_of(timed_s, count):
    return tuple(
        Round(round=number, started_at=NOW, setup_s=0.1, timed_ns=int(timed_s * 1e9))
        for number in range(count)
    )


@pytest.fixture
def part(tmp_path):
    """Make a machine's part of the run, with the records of some cells."""
    machine = capture(tmp_path)

    def make(name, *cells, plan=PLAN, cores=None):
        hardware = machine.hardware.model_copy(update={"logical_cores": cores})
        manifest = Manifest(
            run_id="one",
            created_at=NOW,
            ended_at=NOW,
            plan=plan,
            plan_hash=plan.hash,
            declaration=DECLARATION,
            machine=machine.model_copy(update={"hardware": hardware}),
        )
        run = RunDirectory.create(tmp_path / name / "one", manifest, resume=False)
        for one in cells:
            record = Record(
                cell=one, cell_hash=one.hash, status=Status.OK, started_at=NOW, ended_at=NOW
            )
            run.write_record(record)
        run.write_sums()
        (tmp_path / name / "one.outcome").write_text("run 0\n")
        return tmp_path / name

    return make


def test_the_parts_of_two_machines_are_one_whole_run(part, tmp_path):
    parts = [part("a", CELLS[0]), part("b", CELLS[1])]
    results = merge(parts, "one", tmp_path / "home", PLAN.hash)
    assert results.whole
    assert results.records == {Status.OK: 2}
    assert results.phases == ("run 0", "run 0")
    run = RunDirectory(tmp_path / "home")
    assert run.manifest().finished
    assert run.manifest().counts == {Status.OK: 2}
    assert all(run.record(one) for one in CELLS)


def test_machines_of_other_hardware_are_named_in_the_manifest(part, tmp_path):
    merge(
        [part("a", CELLS[0], cores=8), part("b", CELLS[1], cores=16)],
        "one",
        tmp_path / "home",
        PLAN.hash,
    )
    manifest = RunDirectory(tmp_path / "home").manifest()
    machines = (manifest.machine, *manifest.continued_on)
    assert [one.hardware.logical_cores for one in machines] == [8, 16]


def test_a_cell_without_a_record_is_named(part, tmp_path):
    results = merge([part("a", CELLS[0])], "one", tmp_path / "home", PLAN.hash)
    assert not results.whole
    assert results.missing == (CELLS[1].id,)
    assert not RunDirectory(tmp_path / "home").manifest().finished


def test_a_file_that_changed_on_its_way_is_named(part, tmp_path):
    place = part("a", *CELLS)
    record = place / "one" / "records" / f"{CELLS[0].id}.json"
    record.write_text(record.read_text() + " ")
    results = merge([place], "one", tmp_path / "home", PLAN.hash)
    assert results.differing == (f"records/{CELLS[0].id}.json",)
    assert not results.whole


def test_a_machine_whose_set_up_failed_has_no_run(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.outcome").write_text("setup 3\n")
    results = merge([tmp_path / "a"], "one", tmp_path / "home", PLAN.hash)
    assert results.phases == ("setup 3",)
    assert results.records == {}
    assert not (tmp_path / "home").exists()


def test_nothing_comes_of_a_machine_that_never_began(tmp_path):
    (tmp_path / "a").mkdir()
    assert merge([tmp_path / "a"], "one", tmp_path / "home", PLAN.hash) is None


@pytest.mark.parametrize("broken", ["a", "b"])
def test_a_damaged_manifest_of_one_machine_does_not_keep_the_others_away(part, tmp_path, broken):
    parts = [part("a", CELLS[0]), part("b", CELLS[1])]
    manifest = tmp_path / broken / "one" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"one"', b'"two"'))
    results = merge(parts, "one", tmp_path / "home", PLAN.hash)
    assert results.records == {Status.OK: 2}
    assert results.differing == ("manifest.json",)
    assert not results.whole
    assert any("manifest.json" in problem for problem in problems_of(results))
    assert damages(tmp_path / "home") == {}


def test_records_come_home_where_every_manifest_is_damaged(part, tmp_path):
    place = part("a", *CELLS)
    (place / "one" / "manifest.json").write_bytes(b"")
    results = merge([place], "one", tmp_path / "home", PLAN.hash)
    assert (results.records, results.differing) == ({}, ("manifest.json",))
    assert all(RunDirectory(tmp_path / "home").record(one) for one in CELLS)


def test_a_machine_does_not_replace_what_another_one_measured(part, tmp_path):
    parts = [part("a", CELLS[0]), part("b", *CELLS)]
    path = f"records/{CELLS[0].id}.json"
    (tmp_path / "b" / "one" / path).write_bytes(b"{}")
    merge(parts, "one", tmp_path / "home", PLAN.hash)
    ours = tmp_path / "a" / "one" / path
    assert (tmp_path / "home" / path).read_bytes() == ours.read_bytes()


def test_machines_with_different_plans_are_no_run(part, tmp_path):
    other = PLAN.model_copy(update={"cells": PLAN.cells[:1]})
    with pytest.raises(CloudError, match=f"{other.hash[:12]}.*{PLAN.hash[:12]}"):
        merge(
            [part("a", CELLS[0]), part("b", CELLS[0], plan=other)],
            "one",
            tmp_path / "home",
            PLAN.hash,
        )


def test_the_cost_goes_into_the_manifest_and_its_digest(part, tmp_path):
    merge([part("a", *CELLS)], "one", tmp_path / "home", PLAN.hash)
    add_price(tmp_path / "home", 0.8, 0.0218)
    manifest = RunDirectory(tmp_path / "home").manifest()
    assert (manifest.hourly_price_usd, manifest.price_usd) == (0.8, 0.0218)
    assert (
        merge([_as_part(tmp_path / "home")], "one", tmp_path / "again", PLAN.hash).differing == ()
    )


def test_the_shares_of_the_cells_that_were_measured_add_up_to_the_cost(part, tmp_path):
    home = RunDirectory(part("a", *CELLS) / "one")
    fast, slow = rounds_of(0.2, count=1), rounds_of(0.2, count=3)
    for one, rounds in zip(CELLS, (fast, slow), strict=True):
        record = home.record(one).model_copy(update={"rounds": rounds})
        home.rewrite_record(record)
    add_price(home.path, 0.8, 0.0218)
    shares = [home.record(one).price_usd for one in CELLS]
    assert sum(shares) == pytest.approx(0.0218)
    assert shares[1] == pytest.approx(3 * shares[0], rel=0.05)


def test_a_cell_that_was_not_measured_has_no_share(part, tmp_path):
    home = RunDirectory(part("a", *CELLS) / "one")
    add_price(home.path, 0.8, 0.0218)
    assert [home.record(one).price_usd for one in CELLS] == [None, None]


def _as_part(home):
    (home.parent / "part").mkdir()
    home.rename(home.parent / "part" / "one")
    return home.parent / "part"


def stored(run_id="one"):
    return run_of(run_id=run_id, plan_hash=PLAN.hash)


def test_a_run_comes_home_from_a_store_with_what_lacks(part, tmp_path):
    results = bring_from_store(part("store", CELLS[0]).as_uri(), stored(), tmp_path / "home")
    assert results.records == {Status.OK: 1}
    assert results.missing == (CELLS[1].id,)
    assert not results.whole
    assert RunDirectory(tmp_path / "home").record(CELLS[0]) is not None


def test_a_store_without_the_run_brings_nothing(part, tmp_path):
    assert bring_from_store(part("store").as_uri(), stored("two"), tmp_path / "home") is None
    assert not (tmp_path / "home").exists()


def test_a_run_of_another_plan_than_was_sent_is_refused(part, tmp_path):
    other = PLAN.model_copy(update={"cells": PLAN.cells[:1]})
    place = part("a", CELLS[0], plan=other)
    with pytest.raises(CloudError, match=f"{other.hash[:12]}.*{PLAN.hash[:12]}"):
        merge([place], "one", tmp_path / "home", PLAN.hash)
    with pytest.raises(CloudError, match=f"{other.hash[:12]}.*{PLAN.hash[:12]}"):
        bring_from_store(place.as_uri(), stored(), tmp_path / "stored")


@pytest.mark.timeout(30)
def test_links_and_fifos_from_a_machine_are_named_and_not_followed(part, tmp_path):
    secret = tmp_path / "credentials"
    secret.write_text("the provider's key")
    came = part("a", *CELLS)
    (came / "one" / "logs").mkdir()
    (came / "one" / "logs" / "key.log").symlink_to(secret)
    os.mkfifo(came / "one" / "logs" / "fifo.log")
    (came / "one.outcome").unlink()
    (came / "one.outcome").symlink_to(secret)
    results = merge([came], "one", tmp_path / "home", PLAN.hash)
    assert results.records == {Status.OK: 2}
    assert set(results.strange) == {"one/logs/key.log", "one/logs/fifo.log", "one.outcome"}
    assert "no regular files" in problems_of(results)[0]
    assert results.phases == ("",)
    brought = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not any(b"provider" in path.read_bytes() for path in brought)


def test_a_run_directory_that_is_a_link_is_not_brought_home(part, tmp_path):
    elsewhere = part("a", *CELLS) / "one"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one").symlink_to(elsewhere)
    results = merge([tmp_path / "b"], "one", tmp_path / "home", PLAN.hash)
    assert results.records == {}
    assert results.strange == ("one",)


def test_a_changed_log_keeps_the_digest_that_the_machine_made_of_it(part, tmp_path):
    came = part("a", *CELLS)
    run = RunDirectory(came / "one")
    run.write_log(CELLS[0], "as it was")
    run.write_sums()
    run.log_path(CELLS[0]).write_text("changed")
    results = merge([came], "one", tmp_path / "home", PLAN.hash)
    assert results.differing == (f"logs/{CELLS[0].id}.log",)
    add_price(tmp_path / "home", 1.0, 0.5)
    assert damages(tmp_path / "home").keys() == set(results.differing)
