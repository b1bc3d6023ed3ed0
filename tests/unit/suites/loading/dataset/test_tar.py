"""Random access into tar shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import write_dataset
from skymark.suites.loading.dataset.tar import TarReader, write_tar


def test_of_two_threads_that_open_a_shard_at_once_neither_closes_the_others_file(
    tmp_path, monkeypatch
):
    values = np.arange(4, dtype=np.int64)
    dataset = write_dataset(tmp_path / "canonical", "numbers", {"value": values * 7})
    write_tar(dataset, tmp_path)
    reader = TarReader(tmp_path, dataset)
    real_open, opened = Path.open, []

    def open_with_another_thread_between(path, mode):
        if not opened:
            opened.append(path)
            reader[1]  # as another thread would, which is the first to be done
            opened.append(reader._files[path])
        return real_open(path, mode)

    monkeypatch.setattr(Path, "open", open_with_another_thread_between)
    assert [int(reader[index]["value"]) for index in range(4)] == [0, 7, 14, 21]
    path, first = opened
    assert reader._files[path] is first
    assert not first.closed
