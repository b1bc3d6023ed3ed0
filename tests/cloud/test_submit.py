"""Slot workers on a shared machine: few jobs, each group once, and a killed one is replaced."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skymark.cloud.machine_script import RESULTS
from skymark.model.plan import Plan
from skymark.rundir.mending import damages
from skymark.rundir.reader import open_run
from tests.cloud.conftest import Client
from tests.cloud.launches import Command, Running, await_gone, skymark
from tests.cloud.test_third_suite import PROFILE, machine_of, path  # noqa: F401  # a fixture

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_day, pytest.mark.timeout(4800)]

NAME = "skymark-slots"
GROUPS = 64
ALL_STORED_S = 1800


class Cluster:
    """A machine of eight cards that runs nothing, and commands for it."""

    def __init__(self, client: Client, variables: dict[str, str], directory: Path) -> None:
        self.client = client
        self.variables = variables
        self.directory = directory

    def command(self, *arguments: str) -> Command:
        done = skymark(self.client, *arguments, **self.variables)
        assert done.status == 0, done.output
        return done

    def start(self, *arguments: str) -> Running:
        return Running(self.client, *arguments, **self.variables)

    def plan(self, seed: int, groups: int = GROUPS) -> Path:
        """A plan of cells that each have a group of their own."""
        file = self.directory / f"plan-{seed}-{groups}.json"
        self.command("plan", "--profile", str(self.profile), "--rounds", "1", "--output", str(file))
        made = json.loads(file.read_text())
        (pattern,) = made["cells"]
        made["cells"] = [
            {
                **pattern,
                "group": f"group-{seed * 1000 + number}",
                "cell": {
                    **pattern["cell"],
                    "axes": {"seed": seed * 1000 + number},
                    "specification": {"length": 1000, "seed": seed * 1000 + number},
                },
            }
            for number in range(groups)
        ]
        file.write_text(Plan.model_validate(made).model_dump_json())
        return file

    @property
    def profile(self) -> Path:
        """Of one cell."""
        file = self.directory / "sorting.toml"
        file.write_text(PROFILE.replace('["builtin", "merge"]', '["builtin"]'))
        return file

    @property
    def results(self) -> Path:
        """The directory of runs on the machine."""
        (rented,) = self.client.world.rented(NAME)
        return self.client.world.machine(rented).home / RESULTS

    def records(self, run_id: str) -> int:
        return len(list(self.results.glob(f"{run_id}/records/*.json")))

    def await_records(self, run_id: str, count: int) -> None:
        deadline = time.monotonic() + ALL_STORED_S
        while self.records(run_id) < count:
            assert time.monotonic() < deadline, f"{self.records(run_id)} of {count} records"
            time.sleep(0.5)

    def jobs(self) -> list[dict]:
        return json.loads(self.command("queue", NAME, "--json").output)

    def await_idle(self) -> None:
        deadline = time.monotonic() + ALL_STORED_S
        while any(job["is_going_on"] for job in self.jobs()):
            assert time.monotonic() < deadline
            time.sleep(5)

    def times_taken(self, seed: int) -> Counter[str]:
        """How often each group of a plan was taken, by what the workers said."""
        logs = self.results.parent.glob("sky_logs/*/run.log")
        said = "\n".join(log.read_text("utf-8", "replace") for log in logs)
        return Counter(re.findall(rf"taking (group-{seed}\d{{3}})\b", said))


def run_of(command: Command) -> str:
    return re.search(r"(\S+): jobs? \d", command.output)[1]


@pytest.fixture(scope="module")
def cluster(
    client: Client,
    path: str,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("slots")
    made = Cluster(client, {"PYTHONPATH": path}, directory)
    yaml = machine_of(directory)
    where = ("--infra", "lambda", "--gpus", "H100:8", "--machine", str(yaml), "-c", NAME)
    made.command("launch", str(made.profile), *where, "--idle", "--idle-minutes", "60", "--yes")
    yield made
    made.command("down", NAME)
    await_gone(client, NAME)


def test_a_dry_run_shows_the_jobs_and_submits_none(cluster: Cluster) -> None:
    before = len(cluster.jobs())
    plan = ("--plan", str(cluster.plan(1)))
    shown = cluster.command("submit", "--cluster", NAME, *plan, "--dry-run")
    assert re.search(r"\b64 groups\b.*\b64 workers\b.*\b8 jobs\b", shown.output)
    assert "H100:1" in shown.output
    quarter = ("--gpu-fraction", "0.25", "--max-jobs", "10")
    shown = cluster.command("submit", "--cluster", NAME, *plan, *quarter, "--dry-run")
    assert re.search(r"\b10 groups\b.*\b10 workers\b.*\b3 jobs\b", shown.output)
    assert len(cluster.jobs()) == before


def test_all_groups_are_measured_once_and_come_home(cluster: Cluster, tmp_path: Path) -> None:
    began_s = time.monotonic()
    done = cluster.command("submit", "--cluster", NAME, "--plan", str(cluster.plan(2)))
    run_id = run_of(done)
    cluster.await_records(run_id, GROUPS)
    print(f"slot workers: {time.monotonic() - began_s:.0f} s for {GROUPS} groups")
    cluster.await_idle()
    assert {job["status"] for job in cluster.jobs()} == {"SUCCEEDED"}
    cluster.command("collect", NAME, run_id, "--output", str(tmp_path))
    run = open_run(tmp_path / run_id)
    assert len(run.records) == GROUPS
    assert run.manifest.finished
    assert damages(run.directory) == {}
    assert set(cluster.times_taken(2).values()) == {1}


def test_a_killed_worker_is_replaced_and_two_submissions_do_not_measure_twice(
    cluster: Cluster, eventually: Callable[..., None]
) -> None:
    plan = cluster.plan(3)
    both = [cluster.start("submit", "--cluster", NAME, "--plan", str(plan)) for _ in range(2)]
    runs = [run_of(one.end()) for one in both]
    eventually(lambda: sum(map(cluster.records, runs)) > 4, timeout_s=300, interval_s=0.2)
    kill = f"pkill --signal KILL --newest --full 'skymark run --plan .*({'|'.join(runs)})'"
    eventually(lambda: skymark(cluster.client, "ssh", NAME, "--", kill).status == 0, timeout_s=300)
    for run_id in runs:
        cluster.await_records(run_id, GROUPS)
    cluster.await_idle()
    first, second = (open_run(cluster.results / run_id).by_id for run_id in runs)
    assert len(first) == GROUPS
    assert first.keys() == second.keys()
    for id, record in first.items():
        assert second[id].started_at == record.started_at, "it was measured twice"


def test_a_job_for_each_group_measures_the_same(cluster: Cluster) -> None:
    began_s = time.monotonic()
    plan = ("--plan", str(cluster.plan(4)))
    submitting = cluster.start("submit", "--cluster", NAME, *plan, "--one-job-per-group")
    done = submitting.end(timeout_s=ALL_STORED_S)
    assert done.status == 0, done.output
    cluster.await_records(run_of(done), GROUPS)
    print(f"one job per group: {time.monotonic() - began_s:.0f} s for {GROUPS} groups")
    cluster.await_idle()
    assert set(cluster.times_taken(4).values()) == {1}


def test_the_same_submission_again_is_for_the_groups_that_no_job_has(cluster: Cluster) -> None:
    cluster.command("exec", NAME, "--gpus", "H100:8", "-d", "--", "sleep", "3600")
    (blocking,) = (job["id"] for job in cluster.jobs() if job["status"] == "RUNNING")
    plan = ("--plan", str(cluster.plan(6, groups=6)))
    submit = ("submit", "--cluster", NAME, *plan, "--one-job-per-group")
    first = cluster.command(*submit)
    assert " 6: group-6005 " in first.output
    queued = [job["id"] for job in cluster.jobs() if job["id"] > blocking]
    assert len(queued) == 6
    cluster.command("cancel", NAME, *map(str, queued[:2]))
    shown = cluster.command(*submit, "--dry-run")
    assert "4 of 6" in shown.output
    assert re.search(r"\b2 groups\b.*\b2 workers\b.*\b2 jobs\b", shown.output)
    again = cluster.command(*submit)
    assert "4 of 6" in again.output
    assert run_of(again) == run_of(first)
    assert "no job" in cluster.command(*submit).output
    assert len([job for job in cluster.jobs() if job["id"] > blocking]) == 8
    cluster.command("cancel", NAME, str(blocking))
    cluster.await_records(run_of(first), 6)
    cluster.await_idle()
    assert "no job" in cluster.command(*submit).output


def test_an_exec_for_each_group_as_it_is_done_by_hand(cluster: Cluster) -> None:
    """The time that slot workers are compared with; nothing of skymark's is in the way."""
    cluster.command("rsync", str(cluster.plan(5)), f"{NAME}:by-hand.json")
    began_s = time.monotonic()
    run = "~/skymark-venv/bin/skymark run --plan ~/by-hand.json --share --output ~/results/by-hand"
    for number in range(GROUPS):
        group = f"group-{5000 + number}"
        part = ("--gpus", "H100:0.125", "-n", group, "-d")
        cluster.client.sky("exec", NAME, *part, f"{run} --group {group}")
    print(f"submitted by hand in {time.monotonic() - began_s:.0f} s")
    cluster.await_records("by-hand", GROUPS)
    print(f"one exec per group: {time.monotonic() - began_s:.0f} s for {GROUPS} groups")
    cluster.await_idle()
