"""The real `datasets` and `webdataset` under policies, and what becomes of them without one."""

from __future__ import annotations

import errno
import json
import sys

import pytest

from skymark.cache.providing import known_rates
from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
from tests.cache_table.__main__ import VENVS, lying_locks
from tests.cache_table.jobs import run_row, write_data

pytestmark = pytest.mark.libraries

PROCESSES = 3
ATTEMPTS = 5


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_data(place)
    return place


@pytest.fixture(scope="module")
def python_of(cache):
    def find(kind):
        spec = VenvSpec(name=VENVS[kind], locked=f"adapters/{VENVS[kind]}.txt")
        return str(Venvs(cache).ensure(spec).python)

    return find


@pytest.mark.parametrize("policy", ["per-job", "prebuilt", "parquet", "parquet+shared"])
def test_datasets_reads_every_row_under_each_policy(data, python_of, policy):
    outcome = run_row("json", policy, 2, data, python_of("json"), {})
    assert outcome.errors == ()
    assert outcome.wrong_rows == 0


def test_datasets_shares_one_cache_and_reads_the_source_once_where_every_lock_lies(
    data, python_of, tmp_path
):
    lying = {"LD_PRELOAD": str(lying_locks(tmp_path))}
    outcome = run_row("json", "shared", PROCESSES, data, python_of("json"), lying)
    assert outcome.errors == ()
    assert outcome.wrong_rows == 0
    assert outcome.whole_reads == 1


@pytest.mark.parametrize(
    ("policy", "error"), [("shared", errno.ENOSYS), ("parquet+shared", errno.ENOLCK)]
)
def test_datasets_reads_every_row_where_every_lock_is_refused(
    data, python_of, tmp_path, policy, error
):
    refusing = {"LD_PRELOAD": str(lying_locks(tmp_path)), "FLOCK_ERRNO": str(error)}
    outcome = run_row("json", policy, 1, data, python_of("json"), refusing)
    assert outcome.errors == ()
    assert outcome.wrong_rows == 0
    assert outcome.whole_reads == 1


def test_plain_datasets_collides_where_every_lock_lies(data, python_of, tmp_path):
    lying = {"LD_PRELOAD": str(lying_locks(tmp_path))}

    def collides():
        outcome = run_row("json", "plain", PROCESSES, data, python_of("json"), lying)
        return outcome.failures + outcome.wrong_rows > 0

    # On a busy machine one process may be through before the next begins.
    assert any(collides() for _ in range(ATTEMPTS))


def test_shards_of_the_same_names_are_kept_apart_and_without_a_policy_mixed(data, python_of):
    plain = run_row("tar", "plain", 2, data, python_of("tar"), {})
    assert plain.wrong_rows > 0
    for policy in ("shared", "staggered"):
        ours = run_row("tar", policy, 2, data, python_of("tar"), {})
        assert ours.errors == ()
        assert ours.wrong_rows == 0
        assert ours.whole_reads == 1


def test_rates_are_measured_with_the_real_library_and_kept(data, python_of, skymark, tmp_path):
    words = ("cache", "plan", str(data / "rows.json"), "--jobs", "4", "--cache-root", str(tmp_path))
    ran = skymark(*words, "--measure", "--python", python_of("json"), "--json")
    assert ran.status == 0, ran.stderr
    rates = json.loads(ran.stdout)["rates"]
    assert rates["measured"]
    assert known_rates(tmp_path).model_dump() == rates
    # That of conversion would stand there if no library had built anything.
    assert rates["build_bytes_per_s"] != rates["convert_bytes_per_s"]
    assert 1e5 < rates["build_bytes_per_s"] < 1e11
    assert not list(tmp_path.glob(".measure-*"))
    again = skymark(*words, "--json")
    assert json.loads(again.stdout)["rates"] == rates


def test_an_interpreter_without_the_library_measures_nothing(data, skymark, tmp_path):
    words = ("cache", "plan", str(data / "rows.json"), "--cache-root", str(tmp_path))
    ran = skymark(*words, "--measure", "--python", sys.executable)
    assert ran.status == 1
    assert f"{sys.executable} has no datasets" in " ".join(ran.stderr.split())
    assert not known_rates(tmp_path).measured
    assert not list(tmp_path.glob(".measure-*"))
