"""A plan is sent only where the machine gets the files that it names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skymark.cli.cost import CostOptions
from skymark.cli.launch import plan_to_send
from skymark.model.errors import UsageError

ROOT = Path(__file__).parents[3]
ADAPTER = """
from skymark.suites.loading.adapters.numpy import NumpyReference
class Mine(NumpyReference):
    name = "Mine"
    slug = "{slug}"
"""


def options(adapter: str) -> CostOptions:
    return CostOptions(profile="ci_cpu", scenarios=("TAB-1",), adapters=(adapter,))


@pytest.fixture
def inside(monkeypatch):
    """A file of an adapter in the checkout, and the checkout as the current directory."""
    monkeypatch.chdir(ROOT)
    path = Path(f"adapter_of_test_{os.getpid()}.py")
    path.write_text(ADAPTER.format(slug=path.stem))
    yield path
    path.unlink()


def test_a_plan_without_files_is_sent_as_it_is():
    assert len(plan_to_send(options("numpy"), with_source=False).cells) == 1


def test_a_file_in_the_checkout_goes_along_by_its_path_from_there(inside):
    (planned,) = plan_to_send(options(f"{inside}:Mine"), with_source=True).cells
    assert planned.local_files == (str(inside),)


def test_an_image_has_no_file_of_the_user_s(inside):
    with pytest.raises(UsageError, match="gets nothing of this machine"):
        plan_to_send(options(f"{inside}:Mine"), with_source=False)


def test_a_file_elsewhere_is_refused_before_anything_is_hired(tmp_path, monkeypatch):
    path = tmp_path / "elsewhere.py"
    path.write_text(ADAPTER.format(slug=path.stem))
    with pytest.raises(UsageError, match="lies on this machine, and a rented one gets what lies"):
        plan_to_send(options(f"{path}:Mine"), with_source=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="lies on this machine"):
        plan_to_send(options("elsewhere.py:Mine"), with_source=True)
