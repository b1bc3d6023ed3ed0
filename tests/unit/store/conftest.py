"""A run's directory with files in it, and a store whose faults a test commands."""

from __future__ import annotations

import threading

import pytest

from skymark.model.errors import StoreUnavailableError
from skymark.store.directory import DirectoryStore


class FaultyStore(DirectoryStore):
    """A directory as a store that can be away, lie, or be slow."""

    parallel = 2

    def __init__(self, root):
        super().__init__(root)
        self.away = False
        self.damages: set[str] = set()
        self.puts: list[str] = []
        self.deletes: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.in_request = threading.Event()
        self.completions = 0

    def put(self, path, data):
        self.in_request.set()
        assert self.may_go_on.wait(60)
        if self.away:
            raise StoreUnavailableError("the store is away")
        self.puts.append(path)
        super().put(path, data[:-1] if path in self.damages else data)

    def delete(self, path):
        self.deletes.append(path)
        super().delete(path)

    def complete(self, directory):
        if self.away:
            raise StoreUnavailableError("the store is away")
        self.completions += 1
        return "look there"


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return FaultyStore(tmp_path / "store" / "run")


@pytest.fixture
def directory(tmp_path):
    """Files as a run has them, of two cells; what is in them does not matter here."""
    root = tmp_path / "run"
    for path in (
        "manifest.json",
        "records/A.1.json",
        "samples/A.1.parquet",
        "logs/A.1.log",
        "records/B.1.json",
        "logs/B.1.log",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"content of {path}")
    return root
