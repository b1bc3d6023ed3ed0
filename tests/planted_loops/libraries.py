"""A loop over each library, with a slow decode and without: python libraries.py NAME slow|fast."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
from loops import decode_image, serial, tf_decoding

BATCHES = 60
STEP_MS = 40.0
SLOW_MS = 40.0
SLOW = sys.argv[2:] == ["slow"]


def decode_row(row: Any) -> Any:
    """Decode for long, if the program is told so, and return the same."""
    if SLOW:
        decode_image(SLOW_MS)
    return row


def made_row(number: int) -> dict[str, int]:
    """A row of a data set."""
    return {"number": number}


def tfdata(_: Path) -> Iterable[Any]:
    """A serial map."""
    import tensorflow as tf

    data = tf.data.Dataset.range(10_000)
    if SLOW:
        data = serial(tf, data.map(tf_decoding(2 * SLOW_MS)))
    return data.prefetch(2)


def grain(_: Path) -> Iterable[Any]:
    """Threads of Grain."""
    from grain.python import MapDataset

    return MapDataset.range(10_000).map(decode_row).to_iter_dataset().batch(4)


def datasets(_: Path) -> Iterable[Any]:
    """A streamed map."""
    from datasets import Dataset

    rows = Dataset.from_dict({"number": list(range(500))})
    return rows.to_iterable_dataset().map(decode_row)


def webdataset(folder: Path) -> Iterable[Any]:
    """A tar file of text."""
    import webdataset

    with tarfile.open(folder / "shard.tar", "w") as shard:
        for number in range(2 * BATCHES):
            entry = tarfile.TarInfo(f"{number:05}.txt")
            entry.size = 3
            shard.addfile(entry, io.BytesIO(b"abc"))
    return webdataset.WebDataset(str(folder / "shard.tar"), shardshuffle=False).map(decode_row)


def litdata(folder: Path) -> Iterable[Any]:
    """A streamed data set in a loader with one worker."""
    import litdata

    litdata.optimize(
        fn=made_row,
        inputs=list(range(2 * BATCHES)),
        output_dir=str(folder / "optimized"),
        chunk_bytes="1MB",
        num_workers=1,
    )
    return litdata.StreamingDataLoader(Rows(str(folder / "optimized")), batch_size=2, num_workers=1)


if sys.argv[1:2] == ["litdata"]:
    from litdata import StreamingDataset

    class Rows(StreamingDataset):
        """Rows that are decoded; its workers import it by name."""

        def __getitem__(self, index: Any) -> Any:
            """Return a decoded row."""
            return decode_row(super().__getitem__(index))


def ray(_: Path) -> Iterable[Any]:
    """A map in a process of Ray's."""
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    rows = ray.data.range(4 * BATCHES, override_num_blocks=BATCHES)
    return rows.map_batches(decode_row, batch_size=1).iter_batches(batch_size=4)


def pytorch(_: Path) -> Iterable[Any]:
    """One worker."""
    import torch

    class Rows(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4 * BATCHES

        def __getitem__(self, index: int) -> int:
            return decode_row(index)

    return torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1)


LIBRARIES: dict[str, Callable[[Path], Iterable[Any]]] = {
    "pytorch": pytorch,
    "tfdata": tfdata,
    "grain": grain,
    "hf-datasets": datasets,
    "webdataset": webdataset,
    "litdata": litdata,
    "ray": ray,
}


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as place:
        for _ in islice(LIBRARIES[sys.argv[1]](Path(place)), BATCHES):
            time.sleep(STEP_MS / 1e3)
