"""Planted files in a checkout and a home, and the machine after every way to send something there.

The client runs from a checkout of its own, so that nothing is planted in the one under test.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from skymark.cloud.sent_files import own_files
from tests.cloud.conftest import Client
from tests.cloud.launches import ROUNDS, SMALL, Command, await_gone, bucket_of, skymark
from tests.cloud.test_third_suite import PROFILE, path  # noqa: F401  # a fixture
from tests.planted_files import CANARY, PLANTED, SECRETS, arrived, plant
from tests.sky_ignore import ROOT

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_day, pytest.mark.timeout(3600)]

NAME = "skymark-leaves"
KEPT = (".lambda_cloud/lambda_keys",)
"""The machine ends itself with this key."""
LOADER = """
from skymark.suites.loading.adapters.numpy import NumpyReference
class Mine(NumpyReference):
    name = "Mine"
    slug = "of-one-s-own"
"""
ADAPTERS = ("--adapters", "numpy", "my_loader.py:Mine")
PLAN = ("--scenarios", "TAB-1:small", *ADAPTERS, "--effort", "quick", *ROUNDS)
KUBERNETES = f"apiVersion: v1\nkind: Config\nusers: [{{name: me, user: {{token: {CANARY}}}}}]\n"
IN_HOME = {**SECRETS, ".kube/config": KUBERNETES, ".config/vastai/vast_api_key": CANARY}
FOLDERS = ("", "src", "src/skymark/report", "benchmarks", "benchmarks/sky", "tests", "mine")
YAML = "workdir: mine\nrun: ls -RA; cat train.py\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with planted files that git ignores, tracks or does not know, and links."""
    root = tmp_path_factory.mktemp("leaves").resolve() / "checkout"
    for name, file in {**own_files().files, ".skyignore": ROOT / ".skyignore"}.items():
        plant(root, name, file.read_text())
    plant(root, "mine/train.py", "print('trained')\n")
    tracked = [plant(root / "tests", name, text) for name, text in PLANTED.items()]
    subprocess.run(["git", "init", "--quiet", root], check=True)
    subprocess.run(["git", "-C", root, "add", "--force", "."], check=True)
    plant(root, ".gitignore", "".join(f"/{name}\n" for name in PLANTED))
    for folder in FOLDERS:
        for name in PLANTED.keys() - {"settings.yaml" if folder == "benchmarks/sky" else ""}:
            plant(root / folder, name, PLANTED[name])
    (root / "src/skymark/linked.py").symlink_to(tracked[0])
    (root / "src/skymark/linked").symlink_to(root / "data")
    plant(root, "my_loader.py", LOADER)
    with (root / "src/skymark/__init__.py").open("a") as package:
        package.write('\nCHANGED = "changed here"\n')
    return root


@pytest.fixture(scope="module")
def machine(
    watched: Client,
    checkout: Path,
    path: str,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, dict[str, str], Command]]:
    """The home of a machine that `launch --keep` left, its client's variables, and the launch."""
    for name, text in IN_HOME.items():
        plant(watched.world.home, name, text)
    variables = {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{path}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        where = ("--infra", "lambda", "--machine", str(SMALL), "-c", NAME, "--keep", "--yes")
        out = str(tmp_path_factory.mktemp("results"))
        command = skymark(watched, "launch", "cpu", *where, *PLAN, "--output", out, **variables)
        assert command.status == 0, command.output
        (rented,) = watched.world.rented(NAME)
        yield watched.world.machine(rented).home, variables, command
        skymark(watched, "down", NAME, **variables)
        await_gone(watched, NAME)


def planted_in(home: Path) -> list[str]:
    """Return the files of a machine's home in which a planted text stands."""
    found = [
        f"{one.name}/{name}"
        for one in home.iterdir()
        if one.is_dir() and one.name not in {"skymark-venv", ".cache", ".local", "proc"}
        for name in arrived(one)
        if not (one / name).is_symlink()
    ]
    return [*found, *(one.name for one in home.iterdir() if one.is_file() and CANARY in read(one))]


def read(file: Path) -> str:
    return file.read_bytes().decode("latin-1")


def newest_source(home: Path) -> Path:
    return max((home / "skymark-source").iterdir(), key=lambda one: one.name)


def test_launch(machine: tuple[Path, dict[str, str], Command]) -> None:
    home, _, launched = machine
    assert re.search(r"\b1 named file\b.*\bmy_loader\.py\b", launched.output)
    assert "src/skymark/linked.py" in launched.output
    assert planted_in(home) == []
    sent = home / "sky_workdir"
    assert (sent / "my_loader.py").read_text() == LOADER
    assert "changed here" in (sent / "src/skymark/__init__.py").read_text()
    assert all((home / name).is_file() for name in KEPT)


def test_exec_of_a_run_a_command_and_a_yaml(
    watched: Client, machine: tuple[Path, dict[str, str], Command], checkout: Path, tmp_path: Path
) -> None:
    home, variables, _ = machine

    def execute(*words: str, status: int = 0) -> str:
        done = skymark(watched, "exec", NAME, *words, **variables)
        assert done.status == status, done.output
        return done.output

    execute(*PLAN, "--output", str(tmp_path))
    assert (newest_source(home) / "my_loader.py").is_file()
    said = execute("--sync", "my_loader.py", "--", "cat my_loader.py; ls -A")
    assert "of-one-s-own" in said
    assert "pyproject.toml" in said
    job = plant(checkout, "job.yaml", YAML)
    said = execute(str(job))
    assert "trained" in said
    assert "`git add`" in said
    assert planted_in(home) == []
    before = len(list((home / "skymark-source").iterdir()))
    for name in ("tests", "id_rsa", ".aws"):
        said = execute("--sync", name, "--", "true", status=2)
        assert re.search(rf"{re.escape(name)}\b.*--secret", said)
    assert len(list((home / "skymark-source").iterdir())) == before


def test_submit(
    watched: Client, machine: tuple[Path, dict[str, str], Command], tmp_path: Path
) -> None:
    home, variables, _ = machine
    profile = plant(tmp_path, "sorting.toml", PROFILE)
    before = newest_source(home)
    asked = ("--cluster", NAME, "--profile", str(profile), "--rounds", "1")
    done = skymark(watched, "submit", *asked, "--sync", "my_loader.py", **variables)
    assert done.status == 0, done.output
    sent = newest_source(home)
    assert sent != before
    assert (sent / "my_loader.py").is_file()
    assert "changed here" in (sent / "src/skymark/__init__.py").read_text()
    assert planted_in(home) == []


def test_a_managed_job_and_a_rendered_yaml(
    watched: Client, machine: tuple[Path, dict[str, str], Command], tmp_path: Path
) -> None:
    _, variables, _ = machine
    seen: list[list[str]] = []

    def look(instance: object) -> None:
        home = instance.machine.home
        seen.append(planted_in(home))
        assert (home / "sky_workdir" / "my_loader.py").is_file()

    watched.world.cloud.before_end.append(look)
    with bucket_of(watched) as bucket:
        store = ("--managed", "--store", "s3://results/leaves", "--output", str(tmp_path / "out"))
        where = ("--infra", "lambda", "--machine", str(SMALL), "-c", f"{NAME}-2", "--yes")
        given = {**variables, **bucket.variables}
        done = skymark(watched, "launch", "cpu", *where, *PLAN, *store, **given)
        assert done.status == 0, done.output
    file = tmp_path / "task.yaml"
    words = ("render", "sky", "cpu", "--infra", "lambda", *PLAN, "--output", str(file))
    done = skymark(watched, *words, **variables)
    assert done.status == 0, done.output
    workdir = Path(re.search(r"(?m)^workdir: (.+)$", file.read_text())[1])
    assert arrived(workdir) == []
    assert (workdir / "my_loader.py").is_file()
    assert seen == [[]]
