"""Kept features in a bucket: those that cells may use are fetched, and new ones are stored."""

from __future__ import annotations

import pytest

from skymark.model.errors import UsageError
from skymark.suites.clip.features import (
    beginning_of,
    features_directory,
    fetch_features,
    store_features,
)
from tests.stores.s3_server import s3_server

MNIST, CARS = (beginning_of(f"wds_{name}-test", "ViT-B-32") for name in ("mnist", "cars"))


@pytest.fixture(scope="module")
def bucket():
    with s3_server() as server:
        server.make_bucket("results")
        yield server


@pytest.fixture
def address(bucket, monkeypatch, tmp_path):
    for name, value in bucket.variables.items():
        monkeypatch.setenv(name, value)
    return f"s3://results/{tmp_path.name}/features"


@pytest.fixture
def cells(planned, address):
    return [one.cell for one in planned("wds/mnist", features=address)]


def test_new_features_are_stored_and_only_fitting_ones_come_back(cells, address, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    made = features_directory(address, here)
    made.mkdir(parents=True)
    (made / f"{MNIST}a1.safetensors").write_bytes(b"mnist")
    (made / f"{CARS}a2.safetensors").write_bytes(b"cars")
    (made / f"{MNIST}a1.part").write_bytes(b"half")
    said = []
    store_features(cells, here, said.append)
    fetch_features(cells, there, said.append)
    (found,) = features_directory(address, there).iterdir()
    assert (found.name, found.read_bytes()) == (f"{MNIST}a1.safetensors", b"mnist")
    assert said == [f"fetching {address}/{found.name}"]
    fetch_features(cells, there, said.append)
    assert len(said) == 1, "it is there already"


def test_a_directory_that_cannot_be_written_stops_no_run(planned, tmp_path):
    (tmp_path / "taken").write_text("a file")
    cells = [one.cell for one in planned("wds/mnist", features=f"file://{tmp_path}/taken/kept")]
    made = features_directory(cells[0].reuse, tmp_path)
    made.mkdir(parents=True)
    (made / f"{MNIST}a1.safetensors").write_bytes(b"mnist")
    said = []
    store_features(cells, tmp_path, said.append)
    assert len(said) == 1
    assert f"{made} are not" in said[0]
    assert f"{tmp_path}/taken/kept: " in said[0]


@pytest.mark.parametrize("features", ["wandb://a/b", "gopher://x/y", "s3://bucket"])
def test_features_need_a_bucket_with_a_prefix(planned, features):
    with pytest.raises(UsageError):
        planned("wds/mnist", features=features)


def test_a_directory_is_the_workers_own(tmp_path):
    assert features_directory(str(tmp_path), tmp_path / "cache") == tmp_path
