"""A SkyPilot user's daily work on two machines that `sky launch` made, with `sky` and `skymark`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from skymark.cloud.machine_script import RESULTS
from skymark.cloud.rented_run import machine_file
from skymark.rundir.directory import RunDirectory
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    ONE_CELL,
    PLAN,
    ROUNDS,
    SMALL,
    Running,
    await_gone,
    launching,
    skymark,
    small_with_profile,
)

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_day, pytest.mark.timeout(3600)]

NAME = "skymark-shared"
KEY = "key0123456789key0123456789key0123456789k"
ENOUGH = ("--max-cost", "1000")
"""Ceiling above what eight GPUs cost until they are idle; the profile's is of a small machine."""
SHOWS = "echo devices=$CUDA_VISIBLE_DEVICES nodes=$SKYPILOT_NUM_NODES of=$FROM_ENV-$FROM_FILE-$KEPT"
WAITS = "until [ -f ~/go-on ]; do sleep 0.2; done"


@pytest.fixture(scope="module")
def shared(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What `sky launch` said of two machines of eight GPUs, made with one of our YAMLs."""
    machines = ("--infra", "lambda", "--gpus", "H100:8", "--num-nodes", "2", "-i", "30", "--down")
    profile = ("--env", f"SKYMARK_PROFILE={ONE_CELL}")
    small = str(small_with_profile(tmp_path_factory.mktemp("machine")))
    yield client.sky("launch", "-y", small, "-c", NAME, "-n", "first", *machines, *profile)
    ended = skymark(client, "down", NAME)
    assert ended.status == 0, ended.output
    await_gone(client, NAME)


@pytest.fixture(scope="module")
def homes(client: Client, shared: str) -> list[Path]:
    """The machines' home directories."""
    return [client.world.machine(one).home for one in client.world.rented(NAME)]


def jobs(client: Client) -> list[dict]:
    return json.loads(skymark(client, "queue", NAME, "--json").output)


def await_end(client: Client, eventually: Callable[..., None], *numbers: int) -> dict[int, dict]:
    """Wait until jobs have ended; returns them by number."""
    found: dict[int, dict] = {}

    def ended() -> bool:
        found.update({one["id"]: one for one in jobs(client)})
        return not any(found[number]["is_going_on"] for number in numbers)

    eventually(ended, timeout_s=900, interval_s=2)
    return found


def number_in(output: str) -> int:
    return int(re.search(r"[Jj]ob(?: submitted, ID:|) (\d+)", output)[1])


def log_of(homes: Iterable[Path], number: int) -> str:
    """Return what a job said, as it lies on one of its machines."""
    (log,) = (path for home in homes for path in home.glob(f"sky_logs/{number}-*/run.log"))
    return log.read_text()


@contextmanager
def going_on(homes: Iterable[Path]) -> Iterator[None]:
    """Let jobs on machines go on that do as `WAITS` says."""
    for home in homes:
        (home / "go-on").touch()
    try:
        yield
    finally:
        for home in homes:
            (home / "go-on").unlink(missing_ok=True)  # with the machine


def variables(directory: Path) -> tuple[str, ...]:
    """Return options with the variables that `SHOWS` shows, but for the secret."""
    file = directory / "variables"
    file.write_text('FROM_FILE="a file"\nFROM_ENV=less\n')
    return "--env", "FROM_ENV=env", "--env-file", str(file)


def test_a_launch_gets_what_the_options_of_sky_launch_say(
    client: Client, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    small = yaml.safe_load(SMALL.read_text())
    machine = tmp_path / "machine.yaml"
    machine.write_text(yaml.safe_dump({**small, "run": f"{SHOWS}\n{WAITS}\n{small['run']}"}))
    name = "skymark-words"
    asked = ("-c", name, "-n", "mine", "--gpus", "A100:1", "--num-nodes", "2")
    ends = ("--down", "-i", "7", "--secret", "KEPT")
    results = tmp_path / "results"
    running = launching(client, machine, results, *asked, *variables(tmp_path), *ends, KEPT="kept")
    try:
        shown = r"rank=(\d).*devices=0 nodes=2 of=env-a file-kept"
        eventually(
            lambda: (
                len(set(re.findall(shown, running.output))) == 2
                or running.process.poll() is not None
            ),
            timeout_s=1200,
            interval_s=1,
        )
        assert set(re.findall(shown, running.output)) == {"0", "1"}, running.output
        live = json.loads(skymark(client, "status", "--json").output)
        there = [(one["nodes"], one["idle_minutes"]) for one in live if one["name"] == name]
        assert there == [(2, 7)]
        (job,) = json.loads(skymark(client, "queue", name, "--json").output)
        assert (job["name"], "A100:1" in job["resources"]) == ("mine", True)
        with going_on([client.world.machine(one).home for one in client.world.rented(name)]):
            ended = running.end()
    finally:
        running.kill()
        skymark(client, "down", name)
    assert ended.status == 0, ended.output
    await_gone(client, name)
    (run,) = runs_in(results)
    assert RunDirectory(run).manifest().counts == {"ok": 1}


def test_sky_launch_puts_each_job_s_results_into_a_directory_of_its_own(
    client: Client, shared: str, homes: list[Path]
) -> None:
    assert "(status: SUCCEEDED)" in shared
    runs = [(home / RESULTS / "latest").readlink() for home in homes]
    assert runs[0] == runs[1]
    assert str(runs[0]).startswith("sky-")
    counts = [RunDirectory(home / RESULTS / runs[0]).manifest().counts for home in homes]
    assert {"ok": 1} in counts  # each cell runs once
    assert {} in counts


def test_a_shell_a_command_and_files_reach_each_machine(
    client: Client, shared: str, homes: list[Path], tmp_path: Path
) -> None:
    here = ["env", *(f"{k}={v}" for k, v in client.variables().items()), sys.executable]
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
    of_sky = client.world.home / ".sky" / "generated"
    # To ssh ~ is the account's home, and not HOME, as it is here.
    ssh = f"ssh -F {of_sky}/ssh/{NAME} -i {of_sky}/ssh-keys/{NAME}.key"
    plain = subprocess.run([*ssh.split(), NAME, "hostname"], capture_output=True, check=True)
    assert plain.stdout.decode() == names[0].stdout
    rsync = ("rsync", "--archive", "--rsh", ssh, f"{NAME}:results/latest/", f"{tmp_path}/plain")
    subprocess.run(rsync, check=True)
    assert skymark(client, "ssh", NAME, "--node", "2", "--", "true").status == 2
    assert skymark(client, "rsync", f"{NAME}:results/latest/", str(tmp_path / "copy")).status == 0
    for copy in ("plain", "copy"):
        assert (tmp_path / copy / "manifest.json").is_file()
    collected = skymark(client, "collect", NAME, "--output", str(tmp_path / "home"))
    assert collected.status == 0, collected.output


def test_the_runner_needs_no_path_in_sky_exec(
    client: Client, shared: str, homes: list[Path]
) -> None:
    before = {(home / RESULTS / "latest").readlink() for home in homes}
    command = f"python -m benchmarks.runners.full_runner --profile {ONE_CELL} --rounds 1"
    said = client.sky("exec", NAME, command)
    assert "(status: SUCCEEDED)" in said
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
    part = ("--gpus", "H100:0.5", "--num-nodes", "1", "-n", "half", *ENOUGH)
    shows = ("--env", "SHOWN=yes", "--secret", f"HIDDEN={KEY}", "--output", str(tmp_path))
    done = skymark(client, "exec", NAME, *PLAN, *ROUNDS, *part, *shows)
    assert done.status == 0, done.output
    (run,) = runs_in(tmp_path)
    assert RunDirectory(run).manifest().counts == {"ok": 1}
    (job,) = [one for one in jobs(client) if one["name"] == "half"]
    assert "H100:0.5" in job["resources"]
    assert KEY not in json.dumps(client.ask(f"str(sky.get(sky.queue({NAME!r})))"))


def test_points_of_a_grid_run_side_by_side_on_cards_of_their_own(
    client: Client, shared: str, homes: list[Path], eventually: Callable[..., None]
) -> None:
    three = ("--grid", "workers=0,1,2", "--gpus", "H100:1", "--num-nodes", "1", "-d", *ENOUGH)
    endless = ("--rounds", "8000")
    done = skymark(client, "exec", NAME, *PLAN, *endless, *three)
    assert done.status == 0, done.output

    def measured() -> set[str]:
        rounds = (path for home in homes for path in home.glob(f"{RESULTS}/*/rounds/*/3.json"))
        return {path.parents[2].name.partition("-workers-")[2] for path in rounds}

    # On two machines: some of them are on the same one.
    eventually(lambda: measured() >= {"0", "1", "2"}, timeout_s=600, interval_s=1)
    newest = jobs(client)[:3]
    assert {one["status"] for one in newest} == {"RUNNING"}
    assert all("H100:1" in one["resources"] for one in newest)
    assert skymark(client, "cancel", NAME, "--all").output.count("is cancelled") == 3


YAML = f"""\
workdir: {{workdir}}
run: |
  {SHOWS}
  {WAITS}
  echo version=$(cat version)
"""


VERSIONS = ["one", "two", "three", "four"]


def queue_versions(exec_: Callable[..., str], directory: Path) -> list[int]:
    """Queue a job for each version of its source; returns their numbers."""
    numbers = []
    for version in VERSIONS:
        (directory / "version").write_text(version)
        numbers.append(number_in(exec_("-d", str(directory / "job.yaml"))))
    return numbers


def test_each_job_runs_its_own_source_where_sky_exec_gives_it_that_of_the_last(
    client: Client,
    shared: str,
    homes: list[Path],
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    (tmp_path / "job.yaml").write_text(YAML.format(workdir=tmp_path))
    raw = queue_versions(lambda *words: client.sky("exec", NAME, *words), tmp_path)
    ours = queue_versions(lambda *words: skymark(client, "exec", NAME, *words).output, tmp_path)
    with going_on(homes):
        await_end(client, eventually, *raw, *ours)
    ran = [re.search(r"version=(\w+)", log_of(homes, one))[1] for one in (*raw, *ours)]
    assert ran == [VERSIONS[-1]] * len(VERSIONS) + VERSIONS


def test_a_yaml_gets_what_the_options_of_sky_say(
    client: Client, shared: str, homes: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(YAML.format(workdir=tmp_path))
    (tmp_path / "version").write_text("one")
    words = (str(tmp_path / "job.yaml"), "--gpus", "H100:4", "--num-nodes", "2", "-n", "mine")
    given = (*words, *variables(tmp_path), "--secret")
    with going_on(homes):
        ours = Running(client, "exec", NAME, *given, "KEPT", KEPT="kept").end().output
        raw = client.sky("exec", NAME, *given, "KEPT=kept")
    # With sky a file's values are secrets too, and those win over --env, whatever its help says.
    for said, won in ((ours, "env"), (raw, "less")):
        assert len(re.findall(rf"devices=\d,\d,\d,\d nodes=2 of={won}-a file-kept", said)) == 2
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


def test_everyday_words_of_sky_work_as_they_are_printed(
    client: Client, shared: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    (tmp_path / "mine").write_text("from my directory")
    sent = ("--workdir", str(tmp_path), "-y", "--no-async")
    assert "from my directory" in skymark(client, "exec", NAME, *sent, "--", "cat mine").output
    grid = ("--grid", "lr=0.1,0.2", "-n", "point", "--async")
    done = skymark(client, "exec", NAME, *grid, "--", "echo first; echo lr={lr} of mine")
    assert done.status == 0, done.output
    numbers = [int(one) for one in re.findall(r"job (\d+) of", done.output)]
    ended = await_end(client, eventually, *numbers)
    assert {ended[one]["name"] for one in numbers} == {"point-lr-0.1", "point-lr-0.2"}
    said = skymark(client, "logs", NAME, str(numbers[1]), "--no-follow", "--tail", "1", "--follow")
    assert "lr=0.2 of mine" in said.output
    assert "first" not in said.output
    assert NAME in skymark(client, "status", NAME, "-r", "-v").output
    assert skymark(client, "status", "nowhere").status == 2
    assert skymark(client, "queue", NAME, "-u").status == 0
    assert "no job waits" in skymark(client, "cancel", NAME, "-u", "-y").output


def test_a_runner_that_is_given_the_directory_of_runs_is_what_collect_brings(
    client: Client, shared: str, tmp_path: Path
) -> None:
    command = f"python -m benchmarks.runners.full_runner --profile {ONE_CELL} --rounds 2"
    said = client.sky("exec", NAME, "--num-nodes", "2", f"{command} --output ~/results/")
    assert "(status: SUCCEEDED)" in said
    brought = skymark(client, "collect", NAME, "--output", str(tmp_path))
    assert brought.status == 0, brought.output
    (run,) = runs_in(tmp_path)
    assert RunDirectory(run).manifest().effort.max_rounds == 2


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


def test_sky_and_skymark_show_and_end_each_other_s_jobs(
    client: Client, shared: str, eventually: Callable[..., None]
) -> None:
    command = "echo begun; sleep 600"
    ours = number_in(skymark(client, "exec", NAME, "-d", "-n", "ours", "--", command).output)
    raw = number_in(client.sky("exec", NAME, "-d", "-n", "raw", command))

    def both_show(number: int) -> bool:
        said = (
            client.sky("logs", NAME, str(number), "--no-follow", check=False),
            skymark(client, "logs", NAME, "--job-id", str(number), "--no-follow").output,
        )
        return all("begun" in one for one in said)

    for number in (ours, raw):
        eventually(lambda number=number: both_show(number), timeout_s=600)
    watching = Running(client, "queue", NAME, "--watch", "--skip-finished")
    for shown in (client.sky("queue", NAME, "--skip-finished"), watched_twice(watching)):
        assert re.search(rf"{ours} +ours .*RUNNING", shown)
        assert re.search(rf"{raw} +raw .*RUNNING", shown)
    client.sky("cancel", "-y", NAME, str(ours))
    assert f"job {raw} (raw) is cancelled" in skymark(client, "cancel", NAME, str(raw)).output
    found = await_end(client, eventually, ours, raw)
    assert {found[one]["status"] for one in (ours, raw)} == {"CANCELLED"}
    assert NAME in client.sky("status")
    live = json.loads(skymark(client, "status", "--json").output)
    assert [(one["nodes"], one["idle_minutes"]) for one in live if one["name"] == NAME] == [(2, 30)]


def watched_twice(watching: Running) -> str:
    """Return what a watched queue shows until it has shown two tables; ends it with Ctrl-C."""
    deadline_s = time.monotonic() + 600
    while len(re.findall(r"^ *id +name", watching.output, re.MULTILINE)) < 2:
        assert time.monotonic() < deadline_s, watching.output
        time.sleep(0.2)
    watching.process.send_signal(signal.SIGINT)
    ended = watching.end()
    assert ended.status == 130
    return ended.output


REFUSED = [
    (("--gpus", "H100:9", "--", "true"), "the machine has H100:8"),
    (("--gpus", "A6000:1", *PLAN), "the machine has H100:8"),
    (("--num-nodes", "3", "--", "true"), f"{NAME} has 2"),
    (("--num-nodes", "3", *PLAN), f"{NAME} has 2"),
    (("--env", "NOT_SET_HERE", "--", "true"), "it is not set here"),
    (("--grid", "workers=1,2", "--", "true"), "the command has no {workers}"),
    (("gone.yaml",), "is no file"),
]


def test_what_the_machine_cannot_give_is_refused_and_queues_nothing(
    client: Client, shared: str
) -> None:
    before = len(jobs(client))
    for words, why in REFUSED:
        refused = skymark(client, "exec", NAME, *words)
        assert refused.status == 2, refused.output
        assert why in refused.output
    assert len(jobs(client)) == before
