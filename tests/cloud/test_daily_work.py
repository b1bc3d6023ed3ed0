"""A SkyPilot user's daily work on two machines that `sky launch` made, with `sky` and `skymark`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skymark.cloud.machine_kinds import machine_file
from skymark.cloud.machine_script import RESULTS
from skymark.run.directory import RunDirectory
from tests.cloud.conftest import Client
from tests.cloud.launches import PLAN, ROUNDS, SMALL, Running, await_gone, skymark

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_day]

NAME = "skymark-shared"
PROFILE = "tests/cloud/machines/one_cell.toml"
KEY = "key0123456789key0123456789key0123456789k"


@pytest.fixture(scope="module")
def shared(client: Client) -> Iterator[str]:
    """What `sky launch` said of two machines of eight GPUs, made with one of our YAMLs."""
    machines = ("--infra", "lambda", "--gpus", "H100:8", "--num-nodes", "2", "-i", "30", "--down")
    profile = ("--env", f"SKYMARK_PROFILE={PROFILE}")
    yield client.sky("launch", "-y", str(SMALL), "-c", NAME, *machines, *profile)
    ended = skymark(client, "down", NAME)
    assert ended.status == 0, ended.output
    await_gone(client, NAME)


@pytest.fixture(scope="module")
def homes(client: Client, shared: str) -> list[Path]:
    """The machines' home directories."""
    return [client.world.machine(one).home for one in client.world.hired(NAME)]


def jobs(client: Client) -> list[dict]:
    return json.loads(skymark(client, "queue", NAME, "--json").output)


def await_end(client: Client, eventually: Callable[..., None], *numbers: int) -> dict[int, dict]:
    """Wait until jobs have ended; returns them by number."""
    found: dict[int, dict] = {}

    def ended() -> bool:
        found.update({one["id"]: one for one in jobs(client)})
        return not any(found[number]["is_going_on"] for number in numbers)

    eventually(ended, timeout_s=300, interval_s=2)
    return found


def number_in(output: str) -> int:
    return int(re.search(r"[Jj]ob(?: submitted, ID:|) (\d+)", output)[1])


def log_of(client: Client, number: int) -> str:
    return skymark(client, "logs", NAME, "--job-id", str(number)).output


def test_sky_launch_puts_each_job_s_results_into_a_directory_of_its_own(
    client: Client, shared: str, homes: list[Path]
) -> None:
    assert "Job finished (status: SUCCEEDED)" in shared
    runs = [(home / RESULTS / "latest").readlink() for home in homes]
    assert runs[0] == runs[1]
    assert str(runs[0]).startswith("sky-")
    counts = [RunDirectory(home / RESULTS / runs[0]).manifest().counts for home in homes]
    assert {"ok": 1} in counts  # each cell runs once
    assert {} in counts


def test_the_runner_needs_no_path_in_sky_exec(
    client: Client, shared: str, homes: list[Path]
) -> None:
    before = {(home / RESULTS / "latest").readlink() for home in homes}
    command = f"python -m benchmarks.runners.full_runner --profile {PROFILE} --rounds 1"
    said = client.sky("exec", NAME, command)
    assert "Job finished (status: SUCCEEDED)" in said
    (newest,) = {(home / RESULTS / "latest").readlink() for home in homes} - before
    (run,) = [home / RESULTS / newest for home in homes if (home / RESULTS / newest).is_dir()]
    assert RunDirectory(run).manifest().counts == {"ok": 1}


@pytest.mark.parametrize("option", ["--env", "--secret"])
def test_a_key_arrives_in_the_job_of_a_machine_s_yaml(
    client: Client, shared: str, tmp_path: Path, option: str
) -> None:
    described = machine_file("cpu").read_text()
    yaml = tmp_path / "key.yaml"
    yaml.write_text(described.partition("run: |")[0] + "run: 'echo KEY=[$WANDB_API_KEY]'\n")
    small = yaml.read_text().replace("memory: 32+", "").replace("cpus: 8+", "cpus: 1+")
    yaml.write_text(small)
    said = client.sky("exec", NAME, str(yaml), option, f"WANDB_API_KEY={KEY}")
    assert f"KEY=[{KEY}]" in said
    ours = skymark(client, "exec", NAME, str(yaml), option, f"WANDB_API_KEY={KEY}")
    assert f"KEY=[{KEY}]" in ours.output
    assert ours.status == 0


def test_a_run_on_one_of_two_machines_and_half_a_card_comes_home(
    client: Client, shared: str, tmp_path: Path
) -> None:
    part = ("--gpus", "H100:0.5", "--num-nodes", "1", "-n", "half")
    shows = ("--env", "SHOWN=yes", "--secret", f"HIDDEN={KEY}", "--output", str(tmp_path))
    done = skymark(client, "exec", NAME, *PLAN, *ROUNDS, *part, *shows)
    assert done.status == 0, done.output
    (run,) = tmp_path.iterdir()
    assert RunDirectory(run).manifest().counts == {"ok": 1}
    (job,) = [one for one in jobs(client) if one["name"] == "half"]
    assert "H100:0.5" in job["resources"]
    assert KEY not in json.dumps(client.ask(f"str(sky.get(sky.queue({NAME!r})))"))


def test_points_of_a_grid_run_side_by_side_on_cards_of_their_own(
    client: Client, shared: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    grid = ("--grid", "workers=0,1", "--gpus", "H100:1", "--num-nodes", "1", "-d")
    done = skymark(client, "exec", NAME, *PLAN, "--rounds", "60", *grid)
    assert done.status == 0, done.output
    pair = [one["id"] for one in jobs(client)[:2]]
    found = await_end(client, eventually, *pair)
    assert {one["status"] for one in found.values() if one["id"] in pair} == {"SUCCEEDED"}
    for number in pair:
        assert "waiting: another skymark run" not in log_of(client, number)
    copied = skymark(client, "rsync", f"{NAME}:results/", str(tmp_path))
    assert copied.status == 0, copied.output


WAITS = """\
workdir: {workdir}
run: |
  echo devices=$CUDA_VISIBLE_DEVICES nodes=$SKYPILOT_NUM_NODES of=$FROM_ENV-$FROM_FILE-$KEPT
  until [ -f ~/go-on ]; do sleep 0.2; done
  echo version=$(cat version)
"""


def queue_two_versions(exec_: Callable[..., str], directory: Path) -> tuple[int, int]:
    """Queue a job, change its source, queue it again; returns both numbers."""
    numbers = []
    for version in ("one", "two"):
        (directory / "version").write_text(version)
        numbers.append(number_in(exec_("-d", str(directory / "job.yaml"))))
    return numbers[0], numbers[1]


def test_each_job_runs_its_own_source_where_sky_exec_gives_it_that_of_the_next(
    client: Client,
    shared: str,
    homes: list[Path],
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    (tmp_path / "job.yaml").write_text(WAITS.format(workdir=tmp_path))
    raw = queue_two_versions(lambda *words: client.sky("exec", NAME, *words), tmp_path)
    ours = queue_two_versions(lambda *words: skymark(client, "exec", NAME, *words).output, tmp_path)
    for home in homes:
        (home / "go-on").touch()
    await_end(client, eventually, *raw, *ours)
    for home in homes:
        (home / "go-on").unlink()
    versions = [re.search(r"version=(\w+)", log_of(client, one))[1] for one in (*raw, *ours)]
    assert versions == ["two", "two", "one", "two"]


def test_a_yaml_gets_what_the_options_of_sky_say(
    client: Client, shared: str, homes: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(WAITS.format(workdir=tmp_path))
    (tmp_path / "version").write_text("one")
    (tmp_path / "variables").write_text('FROM_FILE="a file"\nFROM_ENV=less\n')
    for home in homes:
        (home / "go-on").touch()
    given = ("--env", "FROM_ENV=env", "--env-file", str(tmp_path / "variables"), "--secret", "KEPT")
    asked = ("--gpus", "H100:4", "--num-nodes", "2", "-n", "mine")
    words = (str(tmp_path / "job.yaml"), *asked, *given)
    for said in (
        Running(client, "exec", NAME, *words, KEPT="kept").end().output,
        client.sky("exec", NAME, *words[:-1], "KEPT=kept"),
    ):
        assert len(re.findall(r"devices=\d,\d,\d,\d nodes=2 of=env-a file-kept", said)) == 2
    for home in homes:
        (home / "go-on").unlink()
    newest = jobs(client)[:2]
    assert [one["name"] for one in newest] == ["mine", "mine"]
    assert all("H100:4" in one["resources"] and one["user"] for one in newest)


def test_a_command_runs_in_the_source_with_skymark_s_python_and_fails_with_its_job(
    client: Client, shared: str
) -> None:
    command = "python -c 'import skymark; print(skymark.__file__)'; exit 3"
    done = skymark(client, "exec", NAME, "--", command)
    assert re.search(r"/skymark-source/[^/]+/src/skymark/__init__.py", done.output)
    assert done.status == 1


def test_jobs_are_cancelled_by_number_and_all_at_once(client: Client, shared: str) -> None:
    for _ in range(3):
        done = skymark(client, "exec", NAME, "-d", "-n", "sleeper", "--", "sleep 600")
        assert done.status == 0, done.output
    first, *others = sorted(one["id"] for one in jobs(client)[:3])
    assert (
        f"job {first} (sleeper) is cancelled" in skymark(client, "cancel", NAME, str(first)).output
    )
    rest = skymark(client, "cancel", NAME, "--all")
    assert all(f"job {one} (sleeper) is cancelled" in rest.output for one in others)
    states = {one["id"]: one["status"] for one in jobs(client)}
    assert {states[one] for one in (first, *others)} == {"CANCELLED"}
    assert skymark(client, "cancel", NAME, "9999").status == 2
    assert re.search(r"sleeper +\S+ .*CANCELLED", skymark(client, "queue", NAME).output)


def test_a_shell_a_command_and_files_reach_each_machine(
    client: Client, shared: str, homes: list[Path], tmp_path: Path
) -> None:
    here = ["env", *(f"{k}={v}" for k, v in client.world.variables().items()), sys.executable]
    names = [
        subprocess.run(
            [*here, "-m", "skymark", "ssh", NAME, "--node", node, "--", "hostname; exit 7"],
            capture_output=True,
            text=True,
            check=False,
        )
        for node in ("0", "1")
    ]
    assert [one.returncode for one in names] == [7, 7]
    assert names[0].stdout != names[1].stdout
    assert skymark(client, "ssh", NAME, "--node", "2", "--", "true").status == 2
    assert skymark(client, "rsync", f"{NAME}:results/latest/", str(tmp_path / "copy")).status == 0
    assert (tmp_path / "copy" / "manifest.json").is_file()
    collected = skymark(client, "collect", NAME, "--output", str(tmp_path / "home"))
    assert collected.status == 0, collected.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--gpus", "H100:9", "--", "true"), "the machine has H100:8"),
        (("--gpus", "A6000:1", *PLAN), "the machine has H100:8"),
        (("--num-nodes", "3", "--", "true"), f"{NAME} has 2"),
        (("--num-nodes", "3", *PLAN), f"{NAME} has 2"),
        (("--env", "NOT_SET_HERE", "--", "true"), "it is not set here"),
        (("--grid", "workers=1,2", "--", "true"), "a command has no --grid"),
        (("gone.yaml",), "is no file"),
    ],
)
def test_what_the_machine_cannot_give_is_refused_and_queues_nothing(
    client: Client, shared: str, words: tuple[str, ...], why: str
) -> None:
    before = len(jobs(client))
    refused = skymark(client, "exec", NAME, *words)
    assert refused.status == 2, refused.output
    assert why in refused.output
    assert len(jobs(client)) == before
