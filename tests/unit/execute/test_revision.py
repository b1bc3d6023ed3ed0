"""Revisions of a checkout: found by name, laid out from git, refused before anything runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skymark.execute.asking import Interpreters
from skymark.execute.revision import WORKER, code_of, find_revision
from skymark.execute.venvs import Venvs
from skymark.model.errors import UsageError, VenvBuildError
from skymark.model.venv import VenvSpec

Git = Callable[..., None]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A checkout of three commits: without a worker, with one, and with pins of a new adapter."""
    root = tmp_path / "checkout"
    package = root / "src" / "skymark"
    (package / "execute").mkdir(parents=True)
    (root / "requirements").mkdir()

    def commit(path: Path, text: str) -> None:
        path.write_text(text)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for command in (("add", "--all"), (*who, "commit", "--quiet", "--message", text)):
            subprocess.run(["git", "-C", str(root), *command], check=True)

    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    commit(package / "__init__.py", "no worker")
    (root / "requirements" / "tiny.txt").write_text("six==1.0\n")
    commit(package / WORKER, "old")
    (root / "requirements" / "new.txt").write_text("six==1.1\n")
    commit(package / WORKER, "new")
    return package


def test_a_revision_s_code_is_what_git_has_of_it(package: Path, tmp_path: Path) -> None:
    revision = find_revision("HEAD~1", package)
    told: list[str] = []
    code = [code_of(revision, tmp_path / "cache", told.append) for _ in range(2)][1]
    assert (code.package / WORKER).read_text() == "old"
    (line,) = told
    assert revision.short in line
    assert not revision.dirty


def test_workers_of_a_revision_import_its_package(package: Path, tmp_path: Path) -> None:
    code = code_of(find_revision("HEAD~1", package), tmp_path / "cache", lambda _: None)
    root = Interpreters(None, Path("python"), "cpu", code.package).import_root(
        None, tmp_path / "cache", "skymark.suites.loading.runner:Runner"
    )
    assert root is not None
    assert (root / "skymark").resolve() == code.package.resolve()


def test_venvs_of_a_revision_have_its_pins(package: Path, tmp_path: Path) -> None:
    code = code_of(find_revision("HEAD~1", package), tmp_path / "cache", lambda _: None)
    venvs = Venvs(tmp_path, requirements=code.requirements)
    assert venvs.path_of(VenvSpec(name="tiny", locked="tiny.txt")).parent == tmp_path / "venvs"
    with pytest.raises(VenvBuildError, match=r"no requirements/new\.txt"):
        venvs.path_of(VenvSpec(name="new", locked="new.txt"))


def test_changes_that_are_in_no_commit_are_noticed(package: Path) -> None:
    (package / WORKER).write_text("newer still")
    assert find_revision("HEAD", package).dirty


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuch", "--against nosuch: .*git fetch"),
        ("--all", "--against --all: "),
        ("grain@0.2.3", "--adapters grain grain@0.2.3"),
        ("HEAD~2", "too old"),
    ],
)
def test_what_cannot_be_a_baseline_is_refused(package: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_revision(name, package)


def test_a_package_that_lies_in_no_checkout_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="in none"):
        find_revision("HEAD", tmp_path)
