"""Tasks of more runs and of a user's own jobs, made by the real SkyPilot without its server."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sky_rehearsal.world import CATALOGS
from skymark.cloud.machine_script import source_place
from skymark.cloud.rented_run import RentedRun, machine_kinds
from skymark.cloud.sky.clusters import profile_of
from skymark.cloud.sky.internals import withhold_provider_keys
from skymark.cloud.sky.tasks import make_run_task, make_task, make_user_task, source_of
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Machine
from skymark.resources import resource_directory
from tests import rented_runs

YAMLS = sorted(resource_directory("sky").glob("*.yaml"))
KEY = "WANDB_API_KEY"

pytestmark = pytest.mark.filterwarnings("ignore")  # SkyPilot's, of its libraries


@pytest.fixture(scope="module", autouse=True)
def sky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """SkyPilot in this process, with a home and catalogues of its own."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(CATALOGS, home / ".sky" / "catalogs" / "v8")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("HOME", str(home))
        import sky

        yield sky


@pytest.fixture
def eight(sky: Any) -> Any:
    """A machine of eight cards, as SkyPilot has it when it is up."""
    return sky.Resources(infra="lambda", accelerators="H100:8")


def run_of(**changes: object) -> RentedRun:
    return rented_runs.run_of(**{"profile": "gpu_h100", "run_id": "one", **changes})


def test_a_run_takes_all_cards_unless_told_which_part(eight: Any) -> None:
    whole = make_run_task(run_of(nodes=4), "mine", eight)
    (resources,) = whole.resources
    assert (resources.accelerators, whole.num_nodes) == ({"H100": 8}, 4)
    part = make_run_task(run_of(nodes=4, job=Job(nodes=2, gpus="H100:0.5")), "mine", eight)
    (resources,) = part.resources
    assert (resources.accelerators, part.num_nodes) == ({"H100": 0.5}, 2)
    assert "SKYMARK_LOCK" in part.run
    assert "SKYMARK_LOCK" not in whole.run


@pytest.mark.parametrize("gpus", ["H100:9", "A6000:1"])
def test_cards_that_a_machine_has_not_are_refused(eight: Any, gpus: str) -> None:
    with pytest.raises(UsageError, match=rf"--gpus {gpus}\b.*\bH100:8\b"):
        make_run_task(run_of(job=Job(gpus=gpus)), "mine", eight)
    with pytest.raises(UsageError, match=rf"--gpus {gpus}\b.*\bH100:8\b"):
        make_user_task(Job(words=("true",), gpus=gpus), eight, "one")


def test_a_run_is_in_the_source_of_its_submission_and_has_its_variables(
    eight: Any,
) -> None:
    run = run_of(submission="first", variables={"A": "1", "SKYMARK_RUN_ID": "other"})
    task = make_run_task(run, "mine", eight)
    assert source_place("first") in task.run
    assert task.workdir is None
    assert (task.name, task.envs["A"], task.envs["SKYMARK_RUN_ID"]) == ("mine", "1", "one")
    assert source_of(run) is not None
    assert source_of(run_of(image="skymark:gpu")) is None


def test_an_idle_machine_is_set_up_and_runs_nothing() -> None:
    task = make_task(run_of(idle=True, job=Job(name="mine"), gpus="H100:8", infra="lambda"))
    assert task.name == "mine"
    assert "env build" in task.run
    assert "skymark run" not in task.run
    assert {str(one.accelerators) for one in task.resources} == {"{'H100': 8}"}


def test_a_command_is_joined_as_sky_exec_joins_it(eight: Any, tmp_path: Path) -> None:
    task, source = make_user_task(Job(words=("echo", "$A", "'x  y'"), name="mine"), eight, "first")
    assert source is not None
    assert (source.directory / "pyproject.toml").is_file()
    assert (task.name, task.num_nodes) == ("mine", 1)
    (tmp_path / source_place("first")).mkdir(parents=True)
    variables = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "A": "1"}
    done = subprocess.run(
        ["bash", "-c", task.run], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 x  y\n"


def test_a_yaml_keeps_what_it_says_but_for_the_options(
    sky: Any, eight: Any, tmp_path: Path
) -> None:
    yaml = tmp_path / "job.yaml"
    yaml.write_text(
        f"name: its\nworkdir: {tmp_path}\nnum_nodes: 2\nresources: {{accelerators: 'H100:4'}}\n"
        "envs: {A: '1', B: null}\nsecrets: {S: null}\nrun: echo $A\n"
    )
    job = Job(words=(str(yaml),), variables={"B": "2"}, secrets={"S": "3"})
    task, source = make_user_task(job, eight, "first")
    (resources,) = task.resources
    assert (task.name, task.num_nodes, resources.accelerators) == ("its", 2, {"H100": 4})
    assert source is not None
    assert (source.named.files, task.workdir) == ({"job.yaml": yaml}, None)
    assert task.envs == {"A": "1", "B": "2"}
    assert sky.task.get_plaintext_secrets(task.secrets) == {"S": "3"}
    other = tmp_path / "other"
    elsewhere = Job(words=(str(yaml),), variables={"B": "2"}, secrets={"S": "3"}, workdir=other)
    with pytest.raises(UsageError, match="is no directory"):
        make_user_task(elsewhere, eight, "first")
    other.mkdir()
    (other / "train.py").write_text("pass")
    task, source = make_user_task(elsewhere, eight, "first")
    assert source is not None
    assert (source.named.files, task.workdir) == ({"train.py": other / "train.py"}, None)
    assert source_place("first") in task.run
    changed = Job(
        words=(str(yaml),),
        name="mine",
        gpus="H100:1",
        nodes=1,
        variables={"B": "2"},
        secrets={"S": "3"},
    )
    task, _ = make_user_task(changed, eight, "first")
    (resources,) = task.resources
    assert (task.name, task.num_nodes, resources.accelerators) == ("mine", 1, {"H100": 1})


def test_a_job_gets_its_named_files_beside_its_source(
    eight: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.resolve())
    (tmp_path / "mine.py").write_text("mine")
    (tmp_path / "job.yaml").write_text("run: cat mine.py\n")
    for words, skymark_s in ((("job.yaml",), False), (("cat", "mine.py"), True)):
        job = Job(words=words, files=(Path("mine.py"),))
        task, source = make_user_task(job, eight, "first")
        assert source is not None
        assert source_place("first") in task.run
        assert (source.directory / "mine.py").read_text() == "mine"
        assert (source.directory / "src").is_dir() == skymark_s
        run = run_of(source=source.directory, submission="one")
        assert source_of(run) == source.directory
        assert make_task(run).workdir == str(source.directory)
    bare = tmp_path / "bare.yaml"
    bare.write_text("run: cat mine.py\n")
    assert make_task(run_of(file=bare)).workdir is None
    assert make_task(run.changed(machine=Machine(file=bare))).workdir is not None


def test_files_that_a_yaml_mounts_are_sent_as_copies_and_secrets_are_refused(
    sky: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one.txt").write_text("1")
    path = tmp_path / "own.yaml"
    mounts = f"{{~/folder: {folder}, ~/file: {folder}/one.txt, ~/bucket: 's3://one/two'}}"
    path.write_text(f"file_mounts: {mounts}\nrun: echo\n")
    sent = make_task(run_of(file=path)).file_mounts
    assert sent["~/bucket"] == "s3://one/two"
    for place in (Path(sent["~/folder"], "one.txt"), Path(sent["~/file"])):
        assert place.read_text() == "1"
        assert not place.is_relative_to(tmp_path)
    (folder / ".env").touch()
    with pytest.raises(UsageError, match=r"/\.env\b.*--secret"):
        make_task(run_of(file=path))


def test_the_keys_of_providers_that_are_not_used_stay(sky: Any) -> None:
    withhold_provider_keys({"gcp", "lambda"})
    sent = sky.skypilot_config.to_dict()
    withheld = {name for name, one in sent.items() if one.get("remote_identity") == "NO_UPLOAD"}
    assert {"aws", "azure", "kubernetes", "vast"} <= withheld
    assert not withheld & {"gcp", "lambda"}


def test_a_variable_arrives_where_a_yaml_declares_a_secret_of_its_name(
    sky: Any, eight: Any, tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"secrets: {{{KEY}: '', OTHER: null}}\nenvs: {{A: null}}\nrun: echo\n")
    given = {KEY: "value", "OTHER": "other", "A": "1"}
    run = run_of(file=path, variables=given)
    for task in (
        make_user_task(Job(words=(str(path),), variables=given), eight, "first")[0],
        make_task(run),
        make_run_task(run, "mine", eight),
    ):
        arrived = sky.task.get_plaintext_envs_and_secrets(task.envs_and_secrets)
        assert {name: arrived[name] for name in given} == given
        assert not task.envs.keys() & {KEY, "OTHER"}  # nobody is to read it


def test_a_yaml_that_is_wrong_is_refused_as_bad_usage(eight: Any, tmp_path: Path) -> None:
    yaml = tmp_path / "job.yaml"
    yaml.write_text("rnu: echo\n")
    with pytest.raises(UsageError, match=r"job\.yaml"):
        make_user_task(Job(words=(str(yaml),)), eight, "first")
    for wrong in ("echo", "run: echo\nrun: ls\n"):
        yaml.write_text(wrong)
        with pytest.raises(UsageError, match=r"job\.yaml"):
            make_user_task(Job(words=(str(yaml),)), eight, "first")
    yaml.write_text("workdir: /not/there\nrun: echo\n")
    with pytest.raises(UsageError, match="/not/there"):
        make_user_task(Job(words=(str(yaml),)), eight, "first")


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["env", "secret"])
def test_a_key_for_one_of_our_yamls_arrives_either_way(sky: Any, path: Path, kind: str) -> None:
    read = sky.utils.yaml_utils.read_yaml(str(path))
    given = [(KEY, "value")]
    task = sky.Task.from_yaml_config(
        read, given if kind == "env" else [], given if kind == "secret" else []
    )
    arrived = sky.task.get_plaintext_envs_and_secrets(task.envs_and_secrets)
    assert arrived[KEY] == "value"


def test_the_profile_of_a_cluster_is_that_of_its_yaml(sky: Any) -> None:
    config = sky.Task.from_yaml(str(machine_kinds()["gpu-benchmark"])).to_yaml_config()
    text = sky.utils.yaml_utils.dump_yaml_str(config)
    assert profile_of({"last_creation_yaml": text}) == "gpu_a100"
    assert profile_of({"last_creation_yaml": "run: true"}) is None
    assert profile_of({"last_creation_yaml": None}) is None
