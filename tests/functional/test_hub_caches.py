"""Data sets of a small Hub on this machine, converted for real: each file is fetched once."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
from tests.cache_table.__main__ import VENVS
from tests.hub_server import serving

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.libraries

FILES = {
    "data/train-00000-of-00002.parquet": range(700),
    "data/train-00001-of-00002.parquet": range(700, 1000),
    "data/test-00000-of-00001.parquet": range(5),
}
SPLITS = {"train": list(range(1000)), "test": list(range(5))}
COUNTED = """
import json, sys
from datasets import load_dataset, load_from_disk
found = eval(sys.argv[1])
print(json.dumps({name: [row["index"] for row in found[name]] for name in found}))
"""


@pytest.fixture(scope="module")
def python(cache):
    """The interpreter that has the real `datasets`."""
    spec = VenvSpec(name=VENVS["json"], locked=f"adapters/{VENVS['json']}.txt")
    return str(Venvs(cache).ensure(spec).python)


@pytest.fixture
def hub():
    with serving() as server:
        files = {path: table_of(numbers) for path, numbers in FILES.items()}
        server.datasets["o/numbers"] = {"main": {"README.md": b"", **files}}
        yield server


@pytest.fixture
def build(hub, skymark, tmp_path):
    """Build a cache of the data set, and return what was said."""

    def call(*words, status=0, word="build"):
        ran = skymark(
            *("cache", word, "--cache-root", str(tmp_path / "root"), *words),
            HF_ENDPOINT=f"http://127.0.0.1:{hub.server_port}",
            HF_HUB_CACHE=str(tmp_path / "hub-cache"),
        )
        assert ran.status == status, ran.stderr
        return ran

    return call


def table_of(numbers):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"index": list(numbers)}), buffer)
    return buffer.getvalue()


def rows_by(python, snippet):
    """What the real `datasets` reads by the call that was printed."""
    done = subprocess.run(
        [python, "-c", COUNTED, snippet], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def snippet_in(ran):
    return ran.stdout.splitlines()[-1].strip()


def test_a_data_set_of_the_hub_becomes_parquet_and_each_file_is_fetched_once(
    build, hub, python, tmp_path
):
    ran = build("hf://o/numbers", "--cache-policy", "parquet", "--shards", "7")
    assert "before: 3 parquet" in ran.stdout
    assert re.search(r"\btest\b.*\b5\b.*\b5\b.*\b7\b", ran.stderr)
    assert "hf://datasets/o/numbers@main/data/train-00000-of-00002.parquet" in ran.stdout
    assert "after:  12 files" in ran.stdout
    assert sorted(hub.fetched) == sorted(FILES)
    assert rows_by(python, snippet_in(ran)) == SPLITS
    assert not (tmp_path / "hub-cache").exists()
    assert not list(Path(tmp_path, "root").rglob(".hub-*"))
    build("hf://o/numbers", "--cache-policy", "parquet")
    assert sorted(hub.fetched) == sorted(FILES)


def test_a_split_of_the_hub_becomes_an_arrow_directory(build, hub, python):
    words = ("--cache-policy", "parquet", "--to", "arrow", "--python", python)
    ran = build("hf://o/numbers:test", *words)
    assert "load_from_disk(" in snippet_in(ran)
    assert rows_by(python, snippet_in(ran)) == {"test": SPLITS["test"]}
    assert hub.fetched == ["data/test-00000-of-00001.parquet"]


def test_a_new_commit_is_another_cache_and_the_old_one_is_named(build, hub, monkeypatch):
    ran = build("hf://o/numbers", "--cache-policy", "parquet")
    monkeypatch.setattr("tests.hub_server.commit_of", lambda name: name.encode().hex().zfill(40))
    hub.fetched.clear()
    assert (
        "hf://datasets/o/numbers@main/data/test-00000-of-00001.parquet has changed"
        in build(word="verify", status=1).stdout
    )
    again = build("hf://o/numbers", "--cache-policy", "parquet")
    assert sorted(hub.fetched) == sorted(FILES)
    assert snippet_in(again) != snippet_in(ran)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://o/absent", "no such dataset"),
        ("hf://o/numbers:tset", "Did you mean 'test'"),
        ("hf://o/numbers@v9", "no such revision"),
        ("hf://numbers", "hf://owner/name"),
    ],
)
def test_what_the_hub_has_not_is_refused(build, address, message):
    ran = build(address, "--cache-policy", "parquet", status=2)
    assert message in " ".join(ran.stderr.split())


def test_a_hub_that_is_down_says_so(build, hub, tmp_path):
    with serving() as stopped:
        pass
    hub.server_port = stopped.server_port
    ran = build("hf://o/numbers", "--cache-policy", "parquet", status=2)
    assert "not be fetched" in ran.stderr
    assert list((tmp_path / "root" / "converted").glob("[!.]*")) == []


@pytest.mark.parametrize("policy", ["parquet", "parquet+shared"])
def test_a_job_reads_data_of_the_hub_from_its_parquet(build, hub, python, policy):
    read = "import os; from pathlib import Path; import pyarrow.parquet as pq; "
    read += "print(sum(pq.read_metadata(one).num_rows for one in "
    read += "Path(os.environ['SKYMARK_CACHE_DATA']).glob('train-*.parquet')))"
    words = ("--data", "hf://o/numbers", "--cache-policy", policy, "--python", python)
    ran = build(*words, "--", python, "-c", read, word="use")
    assert ran.stdout.strip() == "1000"
    assert sorted(hub.fetched) == sorted(FILES)


@pytest.mark.parametrize("policy", ["shared", "prebuilt"])
def test_datasets_itself_reads_the_hub_for_the_other_policies(build, hub, python, policy):
    words = ("--cache-policy", policy, "--python", python)
    ran = build("hf://o/numbers", *words)
    snippet = snippet_in(ran).removeprefix("read it with: ")
    hub.fetched.clear()
    job = ("--data", "hf://o/numbers", *words, "--", python, "-c", COUNTED, snippet)
    assert json.loads(build(*job, word="use").stdout) == SPLITS
    assert hub.fetched == []
