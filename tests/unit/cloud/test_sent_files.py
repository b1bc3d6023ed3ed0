"""Files that may leave: planted ones stay, whatever they are called and wherever they lie."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skymark.cloud import sent_files
from skymark.cloud.sent_files import DIRECTORIES, NAMES, secret_in
from skymark.cloud.source import (
    checked_copy,
    made_directory,
    source_directory,
    source_of_job,
    source_with,
)
from skymark.model.errors import UsageError
from tests.examples import examples
from tests.planted_files import CANARY, PLANTED, PRIVATE_KEY, SECRETS, arrived, plant

ROOT = Path(__file__).parents[3]
OWN = {
    "pyproject.toml": (ROOT / "pyproject.toml").read_text(),
    "README.md": "read me",
    "src/skymark/__init__.py": "",
    "src/skymark/report/templates/report.css": "",
    "requirements/container.txt": "",
    "requirements/adapters/numpy.txt": "",
    "benchmarks/profiles/cpu.toml": "",
}
STAY = {"noxfile.py": "", "tests/test_it.py": "", "benchmarks/results/cpu/manifest.json": "{}"}
FOLDERS = ("", "src", "src/skymark", "src/skymark/report/templates", "requirements/adapters")
STATES = ("untracked", "ignored", "tracked", "staged and changed")


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-C", directory, *words], check=True, capture_output=True)


@contextmanager
def new_checkout(*, in_git: bool = True) -> Iterator[Path]:
    """A small checkout of skymark, which runs from it, and a cache of its own."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        root = Path(place).resolve() / "checkout"
        for name, text in (OWN | STAY).items():
            plant(root, name, text)
        if in_git:
            git(root.parent, "init", "--quiet", root)
            git(root, "add", ".")
        patch.setattr(sent_files, "checkout", lambda: root)
        patch.setenv("SKYMARK_CACHE", f"{place}/cache")
        patch.chdir(root)
        yield root


@pytest.fixture
def checkout():
    with new_checkout() as root:
        yield root


def names_in(directory: Path) -> set[str]:
    files = {path for path in directory.rglob("*") if not path.is_dir()}
    return {path.relative_to(directory).as_posix() for path in files} - {".skyignore"}


def is_listed(folder: str, name: str) -> bool:
    """Whether the list of a checkout has files of that ending there."""
    return (folder.startswith("requirements") and name == "notes.txt") or (
        folder == "benchmarks/sky" and name == "settings.yaml"
    )


planted = st.lists(
    st.tuples(
        st.sampled_from(sorted(PLANTED)),
        st.sampled_from(FOLDERS),
        st.text("abcxyz", max_size=3),
        st.sampled_from(STATES),
        st.sampled_from([None, "file", "folder"]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples("SKYMARK_PLANTED"), deadline=None)
@given(files=planted, in_git=st.booleans())
def test_no_planted_file_is_sent_whatever_git_knows_of_it_and_wherever_it_or_a_link_lies(
    files, in_git
):
    with new_checkout(in_git=in_git) as root:
        for number, (name, folder, inner, state, link) in enumerate(files):
            path = plant(root / folder / inner, name, PLANTED[name])
            if link == "file":
                (root / "src/skymark" / f"linked_{number}.py").symlink_to(path)
            elif link == "folder":
                (root / "src/skymark" / f"linked_{number}").symlink_to(path.parent)
            if not in_git:
                continue
            if state == "ignored":
                with (root / ".gitignore").open("a") as ignored:
                    ignored.write(f"{path.relative_to(root)}\n")
            elif state.startswith(("tracked", "staged")):
                git(root, "add", "--force", ".")
                if state != "tracked":
                    path.write_text(PLANTED[name] + "more")
        made = None
        with suppress(UsageError):  # one with a name of the list has a key in it
            made = source_directory()
        if made is None:
            assert any(is_listed(folder, name) for name, folder, *_ in files)
            return
        assert arrived(made) == []
        assert names_in(made) >= OWN.keys()


def test_a_checkout_sends_its_tracked_files_of_the_list_as_they_lie_there(checkout):
    plant(checkout, "src/skymark/new.py", "")
    plant(checkout, "src/skymark/__init__.py", "changed = True")
    (checkout / "README.md").unlink()
    made = source_directory()
    assert names_in(made) == OWN.keys() - {"README.md"}
    assert (made / "src/skymark/__init__.py").read_text() == "changed = True"
    assert sent_files.own_files().untracked == ("src/skymark/new.py",)


def test_an_unpacked_sdist_sends_the_same_files():
    with new_checkout(in_git=False) as root:
        assert names_in(source_directory()) == OWN.keys()
        git(root.parent, "init", "--quiet", root.parent)  # somebody else's repository around it
        assert names_in(source_directory()) == OWN.keys()


def test_a_tracked_file_with_a_key_in_it_is_refused_by_its_name(checkout):
    plant(checkout, "src/skymark/__init__.py", PRIVATE_KEY)
    with pytest.raises(UsageError, match=r"skymark/__init__\.py .*private key"):
        source_directory()


def test_named_files_go_along_with_their_permissions_and_the_others_stay(checkout):
    loader = plant(checkout, "my_loader.py", "mine")
    plant(checkout, "other.py", "stays")
    loader.chmod(0o700)
    sent = source_with([Path("my_loader.py"), Path("tests"), checkout / "noxfile.py"])
    extra = {"my_loader.py", "tests/test_it.py", "noxfile.py"}
    assert names_in(sent.directory) == OWN.keys() | extra
    assert (sent.named.files.keys(), sent.size_bytes) == (extra, len("mine"))
    assert (sent.directory / "my_loader.py").stat().st_mode & 0o777 == 0o755
    assert sent.directory.stat().st_mode & 0o777 == 0o700


def test_of_a_folder_in_git_the_tracked_files_go_along_and_of_another_one_all(checkout):
    plant(checkout, "tests/untracked.py", "")
    plant(checkout, "tests/ignored.log", "")
    plant(checkout, ".gitignore", "*.log\ndata/\n")
    plant(checkout, "data/sub/one.csv", "1")
    sent = source_with([Path("tests"), Path("data")])
    assert sent.named.files.keys() == {"tests/test_it.py", "data/sub/one.csv"}
    assert sent.left.untracked == ("tests/untracked.py",)


@pytest.mark.parametrize("name", sorted(SECRETS))
@pytest.mark.parametrize("folder", ["mine", "mine/deep/er"])
def test_a_named_folder_with_a_secret_is_refused_and_nothing_is_made(checkout, name, folder):
    plant(checkout, f"{folder}/train.py", "")
    plant(checkout / folder, name, SECRETS[name])
    told = rf"{re.escape(f'{folder}/{name}')}.*--secret"
    with pytest.raises(UsageError, match=told):
        source_with([Path("mine")])
    assert list(checkout.parent.glob("cache/source/*")) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("../outside.py", "lies outside"),
        ("/etc/hostname", "lies outside"),
        ("gone.py", "is not there"),
        ("link.py", "is a link to"),
        ("folder/inner.py", "is a link to"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(checkout, name, error):
    plant(checkout.parent, "outside.py", "")
    plant(checkout.parent, "elsewhere/inner.py", "")
    (checkout / "link.py").symlink_to("../outside.py")
    (checkout / "folder").symlink_to("../elsewhere")
    with pytest.raises(UsageError, match=error):
        source_with([Path(name)])


def test_a_link_is_followed_only_to_a_file_that_is_sent_anyway(checkout):
    plant(checkout, "mine/a.py", "a")
    plant(checkout.parent, "secret", CANARY)
    (checkout / "mine/same.py").symlink_to("a.py")
    (checkout / "mine/out.py").symlink_to("../../secret")
    (checkout / "mine/in.py").symlink_to("../noxfile.py")
    (checkout / "mine/all").symlink_to("/etc")
    os.mkfifo(checkout / "mine/pipe")
    sent = source_with([Path("mine")])
    assert sent.named.files.keys() == {"mine/a.py", "mine/same.py"}
    assert set(sent.left.links) == {"mine/out.py", "mine/in.py", "mine/all", "mine/pipe"}
    assert arrived(sent.directory) == []


def test_a_job_of_one_s_own_gets_its_folder_and_no_file_of_skymark(checkout):
    project = checkout.parent / "project"
    plant(project, "train.py", "")
    plant(checkout, "my_data/one.csv", "")
    sent = source_of_job(project, [Path("my_data")])
    assert names_in(sent.directory) == {"train.py", "my_data/one.csv"}


def test_a_folder_whose_files_git_does_not_list_is_refused(checkout):
    (checkout / ".git" / "HEAD").write_text("damaged")
    with pytest.raises(UsageError, match=r"git -C .*tests ls-files"):
        source_with([Path("tests")])


@pytest.mark.parametrize("folder", [".kube", ".config/gcloud"])
def test_a_file_among_credentials_is_refused_from_within_too(checkout, monkeypatch, folder):
    path = plant(checkout, f"{folder}/config", CANARY)
    monkeypatch.chdir(path.parent)
    for send in (
        lambda: source_with([Path("config")]),
        lambda: source_of_job(path.parent, []),
        lambda: checked_copy(path),
        lambda: checked_copy(path.parent),
    ):
        with pytest.raises(UsageError, match=rf"{re.escape(folder)}/ .*credentials"):
            send()


def test_two_files_of_one_path_are_refused(checkout):
    project = checkout.parent / "project"
    plant(project, "noxfile.py", "another")
    with pytest.raises(UsageError, match=r"noxfile\.py"):
        source_of_job(project, [Path("noxfile.py")])


def test_a_directory_is_made_once_and_again_where_it_was_changed(checkout):
    made = source_directory()
    assert source_directory() == made
    for change in (
        lambda: (made / "pyproject.toml").write_text("changed"),
        lambda: plant(made, "src/skymark/more.py", "added"),
        lambda: (made / "src/skymark/link.py").symlink_to("/etc/passwd"),
    ):
        change()
        assert source_directory() == made
        assert names_in(made) == OWN.keys()
        assert (made / "pyproject.toml").read_text() == OWN["pyproject.toml"]


def test_a_directory_that_was_not_used_for_a_month_is_removed(checkout):
    old, used = (made_directory({name: checkout / name}) for name in ("README.md", "noxfile.py"))
    os.utime(old, (0, 0))
    source_directory()
    assert (old.exists(), used.exists()) == (False, True)


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_read(checkout):
    files = dict(sent_files.own_files().files)
    path = files["README.md"]
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match=r"/README\.md"):
        made_directory(files)


KEYS = {
    "AWS": "AKIA" + "ABCDEFGHIJKLMNOP",
    "secret key of AWS": "aws_secret_access_key" + " = " + "a" * 40,
    "Google": "AIza" + "b" * 35,
    "Hugging Face": "hf_" + "c" * 34,
    "GitHub": "ghp_" + "d" * 36,
    "GitLab": "glpat-" + "e" * 20,
    "Slack": "xoxb-" + "1" * 12,
    "W&B": "machine api.wandb.ai login user" + " password " + "f" * 40,
    "package registry": "pypi-" + "g" * 60,
    "private key": PRIVATE_KEY,
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_found_in_a_file_of_any_name(tmp_path, kind):
    path = plant(tmp_path, "notes.txt", f"some text\n{KEYS[kind]}\nmore text\n")
    assert kind in secret_in("notes.txt", path)


@pytest.mark.parametrize("name", [*NAMES, *(f"{one}/any" for one in DIRECTORIES)])
def test_a_name_tells_in_any_case_and_folder(tmp_path, name):
    place = name.replace("*", "x").replace("[0-9]", "1").replace("[-_]", "-").replace("[!.]", "a")
    path = plant(tmp_path, "any", "")
    assert secret_in(place, path)
    assert secret_in(f"deep/er/{place.upper()}", path)


@pytest.mark.parametrize(
    "name", ["core.py", "id_map.csv", "tokenizer.json", "tokens.txt", "envs.toml", "keys.md"]
)
def test_ordinary_names_are_no_secrets(tmp_path, name):
    assert secret_in(name, plant(tmp_path, name, "AKIA and hf_ are prefixes\n")) is None


def test_nothing_of_this_repository_counts_as_a_secret():
    listed = sent_files.own_files().files
    assert len(listed) > 500
    found = {name: secret_in(name, path) for name, path in listed.items()}
    assert {name for name, reason in found.items() if reason} == set()


def test_wheel_and_sdist_have_no_planted_file(tmp_path):
    root = tmp_path / "tree"
    for name, path in sent_files.own_files().files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, root / name)
    for folder in (*FOLDERS, "benchmarks", "benchmarks/profiles", "benchmarks/sky"):
        for name, text in PLANTED.items():
            if not is_listed(folder, name):
                plant(root / folder, name, text)
    build = (sys.executable, "-m", "hatchling", "build", "--directory", tmp_path / "made")
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    assert len(list((tmp_path / "made").iterdir())) == 2
    for made in (tmp_path / "made").iterdir():
        kind = "zip" if made.suffix == ".whl" else "gztar"
        shutil.unpack_archive(made, tmp_path / kind, kind)
        assert arrived(tmp_path / kind) == []
