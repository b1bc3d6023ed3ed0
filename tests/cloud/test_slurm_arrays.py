"""Rendered batch scripts on a real Slurm: arrays, time limits, and a node that fails."""

from __future__ import annotations

import os
import re
import shlex
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sky_rehearsal.changes import Changes
from sky_rehearsal.image import Image, host_certificates
from sky_rehearsal.machine import LOGIN_USER
from sky_rehearsal.network import make_network
from sky_rehearsal.requirements import PROGRAMS, SLURM_PROGRAMS, missing_packages
from sky_rehearsal.slurm import SlurmCluster, start_slurm
from skymark.rundir.directory import RunDirectory
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import open_run
from tests.faults.runs import rounds_in

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
HOME = f"/home/{LOGIN_USER}"
PROGRAM = """\
#!/bin/sh
export SKYMARK_CACHE=$HOME/cache
case $1 in run) exec ~/venv/bin/python -m skymark "$@" --env current ;; esac
exec ~/venv/bin/python -m skymark "$@"
"""
"""The user's `skymark`: of a venv that has this checkout and the packages of this interpreter."""
SET_UP = """\
mkdir bin
cat > bin/skymark
chmod +x bin/skymark
/opt/python/bin/python3 -m venv --without-pip venv
printf '/opt/packages\\n/opt/skymark/src\\n' > "$(echo venv/lib/python3.*/site-packages)"/tests.pth
"""

CELLS = ("--scenarios", "TAB-1", "NLP-1", "IO-1", "--adapters", "numpy")
WAIT_S = 1200.0


class ImageWithSkymark(Image):
    """A machine that sees this checkout and this interpreter with its packages."""

    def spec(self, *arguments: Any) -> dict[str, Any]:
        there = super().spec(*arguments)
        places = {
            "/opt/python": sys.base_prefix,
            "/opt/packages": sysconfig.get_paths()["purelib"],
            "/opt/skymark": os.fspath(ROOT),
        }
        binds = {at: {"source": source, "writable": False} for at, source in places.items()}
        libraries = {"/etc/ld.so.conf.d/tests.conf": "/opt/python/lib\n"}
        return there | {"binds": there["binds"] | binds, "files": there["files"] | libraries}


@pytest.fixture(scope="module")
def slurm(fit: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if absent := missing_packages({**PROGRAMS, **SLURM_PROGRAMS}):
        pytest.skip(f"apt-get install {' '.join(absent)}")
    home: Path = tmp_path_factory.mktemp("home")
    certificates = host_certificates()
    assert certificates is not None
    changes = Changes()
    try:
        image = ImageWithSkymark(certificates, {}, None, None, None)
        cluster = start_slurm(home, image, make_network(changes), home / "machine")
        sh(cluster, f"printf %s {shlex.quote(PROGRAM)} | bash -c {shlex.quote(SET_UP)}")
        yield cluster
        cluster.stop()
    finally:
        changes.undo_all()


def sh(cluster: SlurmCluster, command: str) -> str:
    """Run a command on the login node, with the user's `skymark` on its path."""
    done = cluster.run(f"export PATH=$HOME/bin:$PATH; {command}", timeout_s=WAIT_S)
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout


def submit(cluster: SlurmCluster, name: str, *words: str, sbatch: str = "") -> str:
    """Render a script, submit it, and return the job's id; the run is called like the script."""
    limits = ("--timeout", "300", "--deadline", "2h")
    results = ("--results", "results of $USER")
    given = (*words, *limits, *results, "--run-id", name, "--output", f"{name}.sh")
    sh(cluster, shlex.join(["skymark", "render", "slurm", "ci_cpu", *given]))
    return sh(cluster, f"sbatch --parsable {sbatch} {name}.sh").strip()


def run_of(cluster: SlurmCluster, name: str) -> RunDirectory:
    return RunDirectory(cluster.machine.home / f"results of {LOGIN_USER}" / name)


def records(cluster: SlurmCluster, name: str) -> dict[str, str]:
    """Return the status of each stored record by cell."""
    return {
        record.cell.label: record.status for record in open_run(run_of(cluster, name).path).records
    }


def states(cluster: SlurmCluster, job: str) -> list[str]:
    """Return the states of a job's tasks; Slurm knows them for an hour after their end."""
    return shown(cluster, job, "JobState")


def restarts(cluster: SlurmCluster, job: str) -> int:
    """Return how often Slurm has queued a job's tasks again; they may run again already."""
    return sum(map(int, shown(cluster, job, "Restarts")))


def shown(cluster: SlurmCluster, job: str, name: str) -> list[str]:
    """Return what Slurm shows of each task of a job under a name."""
    words = sh(cluster, f"scontrol --oneliner show job {job}").split()
    return [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]


def logs(cluster: SlurmCluster) -> dict[str, str]:
    return {path.name: path.read_text() for path in cluster.machine.home.glob("*.log")}


def await_end(cluster: SlurmCluster, job: str, eventually: Callable[..., None]) -> None:
    """Wait until no task of a job is waiting or running, and start at once those that wait."""

    def over() -> bool:
        found = states(cluster, job)
        if "PENDING" in found:  # a task that queues up again would wait for two minutes
            cluster.run(f"scontrol update JobId={job} StartTime=now")
        return not {"PENDING", "RUNNING", "COMPLETING", "REQUEUED"} & set(found)

    eventually(over, WAIT_S, 1.0)


def test_chained_starts_wait_for_one_another(slurm: SlurmCluster) -> None:
    words = [*CELLS, "--rounds", "1", "--split", "even:3", "--stagger", "7"]
    sh(slurm, shlex.join(["skymark", "render", "slurm", "ci_cpu", *words, "--output", "chain.sh"]))
    chain = (
        "sed -n '/^#   job=/,/^#   done/s/^#   //p' chain.sh | sed s/THIS-FILE/--hold\\ chain.sh/"
    )
    first, last = sh(slurm, f'eval "$({chain})"; echo "$((job - 2)) $job"').split()
    try:
        told = sh(slurm, f"scontrol --oneliner show job {last}")
        assert f"Dependency=after:{int(last) - 1}_*+7" in told
        assert "ArrayTaskId=2" in told
        assert "Dependency=(null)" in sh(slurm, f"scontrol --oneliner show job {first}")
    finally:
        sh(slurm, f"scancel $(seq {first} {last})")


def test_every_task_of_an_array_measures_its_own_part(
    slurm: SlurmCluster, eventually: Callable[..., None]
) -> None:
    words = ("--split", "longest:3", "--gpus", "H100:1")
    job = submit(slurm, "parts", *CELLS, "--rounds", "1", *words)
    await_end(slurm, job, eventually)
    assert states(slurm, job) == ["COMPLETED"] * 3, "".join(logs(slurm).values())
    planned = {planned.cell.label for planned in run_of(slurm, "parts").manifest().plan.cells}
    assert run_of(slurm, "parts").manifest().finished
    assert records(slurm, "parts") == dict.fromkeys(planned, "ok")
    said = [text for name, text in logs(slurm).items() if f"-{job}_" in name]
    assert sorted(text.partition(" rank ")[2][:6] for text in said) == [
        "0 of 3",
        "1 of 3",
        "2 of 3",
    ]
    assert not sh(slurm, "find /tmp -maxdepth 1 -name 'skymark-*.*'")


def test_a_task_that_is_submitted_again_alone_takes_its_own_part(
    slurm: SlurmCluster, eventually: Callable[..., None]
) -> None:
    words = (*CELLS, "--rounds", "1", "--split", "even:3")
    job = submit(slurm, "alone", *words, sbatch="--array=1")
    await_end(slurm, job, eventually)
    (said,) = (text for name, text in logs(slurm).items() if f"-{job}_" in name)
    assert "1 of 3" in said
    assert re.search(r"\b1\b.*\b3 tasks\b", said)
    whole = {planned.cell.label for planned in run_of(slurm, "alone").manifest().plan.cells}
    assert set(records(slurm, "alone")) < whole


def test_an_array_larger_than_slurm_takes_is_refused_before_sbatch_refuses_it(
    slurm: SlurmCluster,
) -> None:
    render = "skymark render slurm ci_cpu --output large.sh --split"
    sh(slurm, f"{render} even:1001 && sbatch --test-only large.sh")
    refused = sh(slurm, f"{render} even:1002 2>&1 || echo status $?")
    assert "takes 1,001 here" in " ".join(refused.split())
    assert refused.endswith("status 2\n")


def test_a_script_runs_without_sbatch_too(slurm: SlurmCluster) -> None:
    words = ["ci_cpu", "--scenarios", "TAB-1", "--adapters", "numpy", "--rounds", "1"]
    sh(slurm, shlex.join(["skymark", "render", "slurm", *words, "--output", "here.sh"]))
    sh(slurm, "mkdir -p 'a b' && cd 'a b' && bash ../here.sh")
    (run,) = runs_in(slurm.machine.home / "a b" / "results")
    assert RunDirectory(run).manifest().finished


def test_a_cancelled_task_says_where_its_results_are(
    slurm: SlurmCluster, eventually: Callable[..., None]
) -> None:
    job = submit(slurm, "cancelled", *CELLS, "--rounds", "6")
    eventually(lambda: begun(slurm, "cancelled", 1), WAIT_S)
    sh(slurm, f"scancel {job}")
    await_end(slurm, job, eventually)
    said = (slurm.machine.home / f"skymark-ci-cpu-{job}.log").read_text()
    assert f"results of {LOGIN_USER}/cancelled" in said.partition("told to end")[2]
    assert "the same command\n" in said
    assert not sh(slurm, "find /tmp -maxdepth 1 -name 'skymark-*.*'")


def begun(cluster: SlurmCluster, name: str, count: int) -> bool:
    """Whether so many rounds of a run are stored already, of cells that go on."""
    folder = run_of(cluster, name).path / "rounds"
    return folder.is_dir() and len(list(folder.glob("*/*.json"))) >= count


def stored(cluster: SlurmCluster, name: str) -> set[datetime]:
    """Return when the rounds of a run began, of all its cells."""
    found = rounds_in(run_of(cluster, name).path)
    return {one.started_at for rounds in found.values() for one in rounds}


def test_near_its_time_limit_a_task_queues_up_again_and_goes_on(
    slurm: SlurmCluster, eventually: Callable[..., None]
) -> None:
    """Slurm's signal is sent by hand, in place of a limit of minutes."""
    job = submit(slurm, "limit", *CELLS, "--rounds", "6")
    eventually(lambda: states(slurm, job) == ["RUNNING"], WAIT_S)
    log = slurm.machine.home / f"skymark-ci-cpu-{job}.log"
    eventually(lambda: log.exists() and log.read_text(), WAIT_S)
    time.sleep(5)
    sh(slurm, f"scancel --batch --signal=USR1 {job}")
    eventually(lambda: "queues up again" in log.read_text(), WAIT_S)
    await_end(slurm, job, eventually)
    assert states(slurm, job) == ["COMPLETED"], log.read_text()
    assert restarts(slurm, job) == 1
    manifest = run_of(slurm, "limit").manifest()
    assert manifest.finished
    assert set(records(slurm, "limit").values()) == {"ok"}
    assert not sh(slurm, "find /tmp -maxdepth 1 -name 'skymark-*.*'")


def test_where_a_node_fails_its_tasks_go_on_with_what_is_stored(
    slurm: SlurmCluster, eventually: Callable[..., None]
) -> None:
    job = submit(slurm, "failed", *CELLS, "--rounds", "4", "--split", "even:2")
    eventually(lambda: begun(slurm, "failed", 2), WAIT_S)
    assert "RUNNING" in states(slurm, job)
    sh(slurm, f"sudo scontrol update NodeName={slurm.name} State=DOWN Reason=test")
    eventually(lambda: restarts(slurm, job) > 0, WAIT_S)
    folder = run_of(slurm, "failed").path / "records"
    finished = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    before = stored(slurm, "failed")
    assert len(before) >= 2
    # It may be back by itself (ReturnToService=2), and is no node to resume then.
    slurm.run(f"sudo scontrol update NodeName={slurm.name} State=RESUME")
    await_end(slurm, job, eventually)
    assert set(states(slurm, job)) == {"COMPLETED"}, "".join(logs(slurm).values())
    planned = {planned.cell.label for planned in run_of(slurm, "failed").manifest().plan.cells}
    assert run_of(slurm, "failed").manifest().finished
    assert records(slurm, "failed") == dict.fromkeys(planned, "ok")
    assert before <= stored(slurm, "failed")
    assert {name: (folder / name).read_bytes() for name in finished} == finished
