"""Plain `sky launch benchmarks/sky/…`: SkyPilot's own two ways to list a checkout's files."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skymark.cloud.sent_files import own_files
from tests.planted_files import PLANTED, PRIVATE, SECRETS, arrived, plant
from tests.sky_ignore import NOT_NEEDED, ROOT, text

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("other_home")]

CONTENT_ALONE_TELLS = {"notes.txt", "settings.yaml", "thesis.tex", "wandb/run-1/config.yaml"}
"""SkyPilot looks at names; below the folders of the list, these look like any other file."""


def by_rsync(source: Path, target: Path) -> None:
    """Copy as SkyPilot does where its API server is on this machine."""
    from sky.utils.command_runner import LocalProcessCommandRunner

    LocalProcessCommandRunner().rsync(str(source), str(target), up=True, stream_logs=False)


def by_zip(source: Path, target: Path) -> None:
    """Copy as SkyPilot does where its API server is elsewhere."""
    from sky.data.storage_utils import zip_files_and_folders

    packed = target.parent / "packed.zip"
    zip_files_and_folders([str(source)], str(packed))
    with zipfile.ZipFile(packed) as content:
        content.extractall(target.parent / "unpacked")
    shutil.copytree(target.parent / "unpacked" / source.relative_to("/"), target)


def test_the_file_is_the_one_that_is_made() -> None:
    assert (ROOT / ".skyignore").read_text() == text()


@pytest.mark.parametrize("copy", [by_rsync, by_zip])
def test_sky_launch_sends_what_a_machine_needs_and_no_planted_file(
    copy: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    checkout, there = tmp_path / "checkout", tmp_path / "there"
    needed = set()
    for name, path in {**own_files().files, ".skyignore": ROOT / ".skyignore"}.items():
        plant(checkout, name, path.read_text())
        if not any(name.startswith("/".join(one)) for one in NOT_NEEDED):
            needed.add(name)
    for name, content in PLANTED.items():
        plant(checkout, name, content)
        plant(checkout / "tests", name, content)
    for folder in ("src", "src/skymark/report", "requirements/adapters", "benchmarks/sky"):
        for name in (SECRETS.keys() | PRIVATE.keys()) - CONTENT_ALONE_TELLS:
            plant(checkout / folder, name, PLANTED[name])
    copy(checkout, there)
    assert arrived(there) == []
    files = {path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()}
    assert files == needed - {".skyignore"}
