"""A run that comes home is what lies on its machine; else it is copied again, or said not to be."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import closing
from hashlib import sha256

import pytest

from skymark.cloud.lifecycle.results import problems_of
from skymark.cloud.lifecycle.retrieving import bring_home
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.sky.ssh import rsync, take
from skymark.model.errors import CloudError, StoreRefusedError, UnreachableError
from skymark.model.record import Status
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import MANIFEST
from skymark.rundir.mending import damages
from skymark.store.kinds import open_store
from tests.rented_runs import run_of
from tests.unit.cloud.lifecycle.conftest import CELLS, PLAN

CLUSTER = "skymark-cpu-1"
RSYNC = shutil.which("rsync")

pytestmark = pytest.mark.needs("rsync")

DAMAGING = """#!/bin/sh
{rsync} "$@"
status=$?
case "$*" in *--dry-run*|*--server*) exit $status ;; esac
echo copied >> {count}
[ "$(wc -l < {count})" -gt {times} ] && exit $status
for last in "$@"; do :; done
for file in $(find "$last" -path '*/{what}' -type f); do
  truncate --size=-1 "$file"
done
exit $status
"""
"""rsync whose disk loses the last byte of some files, so many times."""


def rented(**changes):
    return run_of(run_id="one", plan_hash=PLAN.hash, name=CLUSTER, **changes)


@pytest.fixture
def damaging(machines, tmp_path):
    """Let what comes be damaged, so many times; returns the file that counts the copies."""

    def damage(times, what):
        count = tmp_path / "copies"
        count.write_text("")
        values = {"rsync": RSYNC, "count": count, "times": times, "what": what}
        machines.program("rsync", DAMAGING.format(**values))
        return count

    return damage


def digests(directory):
    return {
        str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {"manifest.json", "SHA256SUMS"}
    }


@pytest.mark.parametrize("what", ["records/*", "logs/*", "manifest.json"])
@pytest.mark.parametrize("ended", [True, False])
def test_what_came_damaged_is_copied_again(machines, write_run, damaging, tmp_path, what, ended):
    there = machines.node(CLUSTER) / RESULTS / "one"
    write_run(there, *CELLS, ended=ended)
    count = damaging(2, what)
    results = bring_home(rented(), tmp_path / "results" / "one")
    assert results.whole
    assert results.records == {Status.OK: 2}
    assert digests(tmp_path / "results" / "one") == digests(there)
    assert len(count.read_text().splitlines()) == 3
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["one"]


@pytest.mark.parametrize("ended", [True, False])
def test_what_comes_damaged_each_time_is_named_and_not_taken_for_the_run(
    machines, write_run, damaging, tmp_path, ended
):
    write_run(machines.node(CLUSTER) / RESULTS / "one", *CELLS, ended=ended)
    damaging(1000, "logs/*")
    results = bring_home(rented(), tmp_path / "one")
    assert not results.faithful
    assert not results.whole
    assert set(results.unequal) == {f"logs/{one.id}.log" for one in CELLS}
    assert ": logs/" in problems_of(results)[0]


def test_what_is_damaged_on_the_machine_itself_is_named_and_is_all_there_is(
    machines, write_run, tmp_path
):
    run = write_run(machines.node(CLUSTER) / RESULTS / "one", *CELLS)
    run.log_path(CELLS[0]).write_text("changed")
    results = bring_home(rented(), tmp_path / "one")
    assert results.faithful
    assert results.differing == (f"logs/{CELLS[0].id}.log",)


def test_the_parts_of_two_nodes_are_compared_each_with_its_own(machines, write_run, tmp_path):
    for node, one in zip((CLUSTER, f"{CLUSTER}-worker1"), CELLS, strict=True):
        write_run(machines.node(node) / RESULTS / "one", one)
    results = bring_home(rented(nodes=2), tmp_path / "one")
    assert results.whole
    assert results.records == {Status.OK: 2}


def test_a_machine_without_the_run_brings_nothing(machines, tmp_path):
    (machines.node(CLUSTER) / RESULTS).mkdir()
    assert bring_home(rented(), tmp_path / "one") is None


def test_a_set_up_that_failed_leaves_nothing_to_compare(machines, tmp_path):
    home = machines.node(CLUSTER)
    (home / RESULTS).mkdir()
    (home / RESULTS / "one.outcome").write_text("setup 3\n")
    results = bring_home(rented(), tmp_path / "one")
    assert results.phases == ("setup 3",)
    assert results.faithful


def test_a_machine_that_does_not_answer_is_another_fault_than_a_directory_that_takes_nothing(
    machines, write_run, tmp_path
):
    home = machines.node(CLUSTER)
    write_run(home / RESULTS / "one", *CELLS)
    (tmp_path / "file").write_text("")
    with pytest.raises((CloudError, OSError)) as raised:
        bring_home(rented(), tmp_path / "file" / "one")
    assert not isinstance(raised.value, UnreachableError)
    shutil.rmtree(home)
    with pytest.raises(UnreachableError, match=r"status (12|255)"):
        bring_home(rented(), tmp_path / "one")


def test_a_run_that_is_here_already_is_renewed_by_what_is_proved_and_by_nothing_else(
    machines, write_run, damaging, tmp_path
):
    there = machines.node(CLUSTER) / RESULTS / "one"
    write_run(there, *CELLS[:1], ended=False)
    assert bring_home(rented(), tmp_path / "one").missing == (CELLS[1].id,)
    shutil.rmtree(there)
    write_run(there, *CELLS)
    assert bring_home(rented(), tmp_path / "one").whole
    damaging(1000, "records/*")
    assert not bring_home(rented(), tmp_path / "one").faithful
    assert damages(tmp_path / "one") == {}
    assert digests(tmp_path / "one") == digests(there)


def test_ctrl_c_at_the_terminal_does_not_reach_what_copies(machines):
    machines.node(CLUSTER)
    machines.program("rsync", "#!/bin/sh\nps -o sid= -p $$\n")
    assert int(rsync(CLUSTER, "from", "to")) != os.getsid(0)


def test_of_a_lost_node_the_cells_are_named_and_the_others_come_home(machines, write_run, tmp_path):
    write_run(machines.node(CLUSTER) / RESULTS / "one", CELLS[0])
    results = bring_home(rented(nodes=2), tmp_path / "one", lambda _: 1)
    assert results.faithful
    assert (results.lost, results.missing) == ((1,), (CELLS[1].id,))
    assert results.records == {Status.OK: 1}
    gone, missing = problems_of(results)
    assert gone.startswith("node 1 ")
    assert f"launch cpu --scenarios {CELLS[1].label} --adapters {CELLS[1].adapter}" in missing


@pytest.mark.parametrize("running", [2, None])
def test_a_node_that_may_still_be_there_is_not_given_up(machines, write_run, tmp_path, running):
    write_run(machines.node(CLUSTER) / RESULTS / "one", CELLS[0])
    with pytest.raises(UnreachableError, match=r"\b1 earlier record"):
        bring_home(rented(nodes=2), tmp_path / "one", lambda _: running)
    assert RunDirectory(tmp_path / "one").record(CELLS[0]) is not None


def test_of_a_lost_node_comes_what_it_had_sent_to_a_store(machines, write_run, stored, tmp_path):
    write_run(machines.node(CLUSTER) / RESULTS / "one", CELLS[0])
    two = rented(nodes=2, stores=(stored(CELLS[1]),))
    results = bring_home(two, tmp_path / "one", lambda _: 1)
    assert results.whole
    assert (results.lost, results.records) == ((1,), {Status.OK: 2})


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        b"{",
        lambda theirs: theirs.replace(PLAN.hash.encode(), b"0" * len(PLAN.hash)),
        lambda theirs: re.sub(rb'("schema_version": ?)\d+', rb"\g<1>999", theirs),
    ],
    ids=["absent", "damaged", "of another plan", "of a newer skymark"],
)
def test_a_store_without_the_run_keeps_nothing_from_coming_home(
    machines, write_run, stored, tmp_path, manifest
):
    write_run(machines.node(CLUSTER) / RESULTS / "one", CELLS[0])
    address = stored(CELLS[1])
    if manifest is None:
        address = f"{address}/other"
    else:
        with closing(open_store(address, "one")) as store:
            theirs = store.get(MANIFEST)
            other = manifest if isinstance(manifest, bytes) else manifest(theirs)
            assert other != theirs
            store.put(MANIFEST, other)
    two = rented(nodes=2, stores=(address,))
    results = bring_home(two, tmp_path / "home" / "one", lambda _: 1)
    assert results.faithful
    assert (results.lost, results.records) == ((1,), {Status.OK: 1})


def test_a_file_that_is_too_large_is_named_and_all_others_come(machines, write_run, tmp_path):
    run = write_run(machines.node(CLUSTER) / RESULTS / "one", *CELLS)
    log = f"logs/{CELLS[0].id}.log"
    with run.log_path(CELLS[0]).open("r+b") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    run.write_sums()
    results = bring_home(rented(), tmp_path / "one")
    assert results.whole
    assert results.records == {Status.OK: 2}
    assert results.strange == (f"one/{log}",)
    assert log in problems_of(results)[0]
    assert not (tmp_path / "one" / log).exists()


def test_all_that_came_of_a_run_that_is_refused_stays(machines, write_run, tmp_path, monkeypatch):
    write_run(machines.node(CLUSTER) / RESULTS / "one", *CELLS)
    monkeypatch.setattr("skymark.store.fetching.MOST_FILES", 3)
    with pytest.raises(StoreRefusedError, match=re.escape(f" {tmp_path / 'one.refused'}")):
        bring_home(rented(), tmp_path / "one")
    assert len(list((tmp_path / "one.refused").rglob("*.json"))) == 3


HUGE_BYTES = 6 << 30


def sparse(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)


def device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:  # without root: there are FIFOs
        os.mkfifo(path)


def file_of_another(path):
    path.write_text("a secret")
    path.chmod(0o6777)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)


PLANTED = {
    "core": sparse,
    "core.4711": sparse,
    "logs/core": sparse,
    "samples/huge.parquet": sparse,
    "records/huge.json": sparse,
    "records/below/huge.json": sparse,
    "logs/key.log": lambda path: path.symlink_to(path.parents[2] / "a key"),
    "logs/away": lambda path: path.symlink_to("/etc"),
    "logs/fifo.log": os.mkfifo,
    "logs/device.log": device,
    "device": device,
    ".env": file_of_another,
    "run.sh": file_of_another,
    "report.html": file_of_another,
    "logs/a\nmanifest.json": file_of_another,
    "logs/\x1b[2J.log": file_of_another,
    "rounds/one/1.json": lambda path: (path.parent.mkdir(parents=True), sparse(path)),
}
"""Files that a hostile machine puts into a run, and those that break off beside one."""


def test_of_a_hostile_tree_only_files_of_a_run_come_and_none_is_lost(
    machines, write_run, tmp_path, monkeypatch
):
    there = machines.node(CLUSTER) / RESULTS / "one"
    run = write_run(there, *CELLS)
    file_of_another(run.log_path(CELLS[0]))
    run.write_sums()
    for name, plant in PLANTED.items():
        plant(there / name)
    staged = []
    usual = shutil.rmtree

    def look(path, **options):
        staged.extend(found for found in path.rglob("*") if not found.is_dir())
        assert all(found.is_file() and not found.is_symlink() for found in staged if found.exists())
        assert sum(found.stat().st_size for found in staged if found.exists()) < 1 << 20
        usual(path, **options)

    monkeypatch.setattr("skymark.cloud.lifecycle.retrieving.shutil.rmtree", look)
    home = tmp_path / "came"
    results = bring_home(rented(), home / "one")
    assert results.whole
    assert results.records == {Status.OK: 2}
    assert {path.name for path in home.rglob("*") if path.is_file()} == {
        "manifest.json",
        "SHA256SUMS",
        *(f"{one.id}{suffix}" for one in CELLS for suffix in (".json", ".log")),
    }
    for path in (*home.rglob("*"), *staged):
        if path.is_file():
            assert path.stat().st_mode & 0o7777 == 0o644
            assert path.stat().st_uid == os.geteuid()
    assert set(results.strange) >= {
        f"one/{name}"
        for name in ("samples/huge.parquet", "records/huge.json", "logs/key.log", "logs/fifo.log")
    }
    assert all(name.isprintable() for name in results.strange)


BREAKING = """#!/bin/sh
for word in "$@"; do
  case $word in --files-from=/*) grep -q {folder}/ "${{word#--files-from=}}" && exit 12 ;; esac
done
exec {rsync} "$@"
"""


def test_a_machine_that_goes_away_on_the_way_has_given_its_records(
    machines, write_run, tmp_path, monkeypatch
):
    monkeypatch.setattr("skymark.cloud.lifecycle.retrieving.LITTLE_BYTES", 0)
    write_run(machines.node(CLUSTER) / RESULTS / "one", *CELLS)
    machines.program("rsync", BREAKING.format(rsync=RSYNC, folder="logs"))
    with pytest.raises(UnreachableError, match=f"{tmp_path}/one .*2 earlier"):
        bring_home(rented(), tmp_path / "one")
    came = RunDirectory(tmp_path / "one")
    assert all(came.record(one) is not None for one in CELLS)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("incoming")] == []
    machines.program("rsync", f'#!/bin/sh\nexec {RSYNC} "$@"\n')
    assert bring_home(rented(), tmp_path / "one").whole


def test_a_machine_that_never_ends_its_answer_is_given_up(machines, tmp_path, monkeypatch):
    monkeypatch.setattr("skymark.cloud.sky.ssh.LEAST_LIMIT_S", 1.0)
    machines.node(CLUSTER)
    machines.program("ssh", "#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(UnreachableError, match=r"longer\D+1 s"):
        bring_home(rented(), tmp_path / "one")


def test_a_file_that_grows_on_its_way_ends_at_the_limit(machines, monkeypatch, tmp_path):
    monkeypatch.setattr("skymark.cloud.sky.ssh.LARGEST_FILE_BYTES", 1 << 20)
    machines.node(CLUSTER)
    machines.program("rsync", f"#!/bin/sh\nexec head -c {1 << 30} /dev/zero > {tmp_path}/file\n")
    with pytest.raises(CloudError):
        take(CLUSTER, "from", "to")
    assert (tmp_path / "file").stat().st_size == 1 << 20
