"""Files that a plan names, or --sync, are sent with it, or the plan is refused."""

from __future__ import annotations

import re
import secrets
import subprocess
from pathlib import Path

import pytest

from skymark.cli.rented_options import CostOptions
from skymark.cli.terminal import Terminal
from skymark.cloud.source import SentSource, source_for
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

ADAPTER = """
from skymark.suites.loading.adapters.numpy import NumpyReference
class Mine(NumpyReference):
    name = "Mine"
    slug = "{slug}"
"""


def options(adapter: str) -> CostOptions:
    return CostOptions(profile="ci_cpu", scenarios=("TAB-1",), adapters=(adapter,))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of the user's own, in no checkout, and a cache of its own."""
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path.resolve() / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def loader(here):
    path = Path("my_loader.py")
    path.write_text(ADAPTER.format(slug=f"of-test-{secrets.token_hex(4)}"))
    return path


def plan(adapter: str) -> Plan:
    return CostOptions(profile="ci_cpu", scenarios=("TAB-1",), adapters=(adapter,)).plan()


def test_without_named_files_skymark_s_own_are_sent():
    assert source_for([plan("numpy")], ()).directory is None
    assert source_for([plan("numpy")], (), with_source=False) == SentSource()


def test_an_adapter_s_file_goes_along_by_its_path_from_here(loader, capsys):
    source = source_for([plan(f"{loader}:Mine")], ())
    assert (source.directory / "my_loader.py").read_text() == loader.read_text()
    assert (source.directory / "src/skymark/__init__.py").is_file()
    Terminal().sends(source)
    assert " 1 named file, " in capsys.readouterr().err


def test_an_image_has_no_file_of_the_user_s(loader):
    with pytest.raises(UsageError, match=r"my_loader\.py .*container image"):
        source_for([plan(f"{loader}:Mine")], (), with_source=False)
    with pytest.raises(UsageError, match="--image"):
        source_for([plan("numpy")], [loader], with_source=False)


def test_a_file_elsewhere_is_refused_before_anything_is_rented(loader, here, monkeypatch):
    asked = plan(f"{loader}:Mine")
    cells = tuple(
        one.model_copy(update={"local_files": (str(here / loader),)}) for one in asked.cells
    )
    with pytest.raises(UsageError, match=r"/my_loader\.py .*relative path"):
        source_for([asked.model_copy(update={"cells": cells})], ())
    (here / "sub").mkdir()
    monkeypatch.chdir("sub")
    with pytest.raises(UsageError, match=r"add --sync my_loader\.py"):
        source_for([asked], ())


def test_a_folder_is_sent_where_it_is_named(here, loader, capsys):
    (here / "data").mkdir()
    (here / "data" / "one.txt").write_text("1" * 2048)
    folder = plan("numpy")
    cells = tuple(one.model_copy(update={"local_files": ("data",)}) for one in folder.cells)
    folder = folder.model_copy(update={"cells": cells})
    with pytest.raises(UsageError, match="add --sync data"):
        source_for([folder], ())
    source = source_for([folder], [Path("data")])
    assert (source.directory / "data" / "one.txt").is_file()
    Terminal().sends(source)
    assert re.search(r"\b1\D+2\.05 kB: data/one\.txt", capsys.readouterr().err)


def test_what_stays_is_said(here, capsys):
    subprocess.run(["git", "init", "--quiet", "."], check=True)
    (here / "code").mkdir()
    (here / "code" / "known.py").touch()
    subprocess.run(["git", "add", "."], check=True)
    (here / "code" / "new.py").touch()
    (here / "code" / "link.py").symlink_to("/etc/hostname")
    Terminal().sends(source_for([plan("numpy")], [Path("code")]))
    said = capsys.readouterr().err
    assert re.search("code/.*`git add`", said)
    assert "code/new.py" in said
