"""A training loop with a planted limit: python loops.py NAME [JSON].

The JSON has settings of the loader that replace the loop's own, as a verdict advises them, or
`"free": true` for a loop whose planted stage costs nothing. The program keeps to two cores. A step
is a sleep: an accelerator computes, and the host is idle.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CORES = 2
STEP_MS = 20.0
BATCH = 4
FILE_BYTES = 24 << 20
FILES = 8
SLOW_EVERY = 60


def jpeg(side: int) -> bytes:
    """A square image of noise."""
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


JPEG = jpeg(320)
LARGE_JPEG = jpeg(960)
LONG_MS = 20.0


def decode_image(ms: float) -> None:
    """Decode with Pillow for some CPU time.

    Pillow decodes without Python's lock, and opens an image with it: for a third of the time of a
    small image, which threads would wait for.
    """
    content = LARGE_JPEG if ms >= LONG_MS else JPEG
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        Image.open(io.BytesIO(content)).load()


def augment(ms: float) -> None:
    """Compute in Python for some CPU time."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(number * number for number in range(100))


def read_file(ms: float) -> None:
    """Wait for storage."""
    time.sleep(ms / 1e3)


def read_from_disk(folder: str, index: int) -> int:
    """Read a file that the page cache does not have."""
    file = os.open(Path(folder, str(index % FILES)), os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return len(os.read(file, FILE_BYTES))
    finally:
        os.close(file)


@dataclass(frozen=True)
class Costs:
    """Milliseconds of each stage of one sample; of a batch for the collating."""

    decode: float = 0.0
    transform: float = 0.0
    read: float = 0.0
    collate: float = 0.0
    tail: float = 0.0
    """Of every sixtieth sample's decoding."""
    folder: str = ""
    """With files to read from the disk."""
    values: int = 8
    """Elements of a sample."""

    def sample(self, index: int) -> Any:
        """Make one sample."""
        if self.folder:
            read_from_disk(self.folder, index)
        if self.read:
            read_file(self.read)
        if self.decode:
            decode_image(self.decode)
        if self.tail and index % SLOW_EVERY == SLOW_EVERY - 1:
            decode_image(self.tail)
        if self.transform:
            augment(self.transform)
        return np.zeros(self.values, np.float32)


def collate_batch(costs: Costs, samples: list[Any]) -> Any:
    """Stack samples as tensors."""
    import torch

    if costs.collate:
        end = time.thread_time() + costs.collate / 1e3
        while time.thread_time() < end:
            sum(number * number for number in range(100))
    return torch.from_numpy(np.stack(samples))


def collate_objects(costs: Costs, samples: list[Any]) -> Any:
    """Return Python objects, which are costly to hand over."""
    return [objects(number) for number in range(len(samples))]


@cache
def objects(number: int) -> dict[str, float]:
    """Python objects that are made once in each worker."""
    return {f"{number} {place}": float(place) for place in range(20_000)}


class OnHost:
    """A batch in pageable memory, with a copy to the device that the loop waits for."""

    def __init__(self, ms: float) -> None:
        self._ms = ms

    def to(self, device: str) -> OnHost:
        """Copy."""
        time.sleep(self._ms / 1e3)
        return self


def torch_loader(costs: Costs, batches: int, changes: dict[str, Any], **settings: Any) -> Any:
    """A PyTorch loader with the settings of a loop and the changes to them."""
    import torch

    iterable = settings.pop("iterable", False)
    collate = settings.pop("collate", collate_batch)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return batches * BATCH

        def __getitem__(self, index: int) -> Any:
            return costs.sample(index)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            info = torch.utils.data.get_worker_info()
            first, step = (info.id, info.num_workers) if info else (0, 1)
            return map(costs.sample, range(first, batches * BATCH, step))

    settings = {"num_workers": 1, **settings, **changes}
    return torch.utils.data.DataLoader(
        Stream() if iterable else Samples(),
        batch_size=BATCH,
        collate_fn=partial(collate, costs),
        **settings,
    )


def train(batches: Iterable[Any], step_ms: float = STEP_MS) -> None:
    """One epoch."""
    for _ in batches:
        time.sleep(step_ms / 1e3)


def train_on_device(batches: Iterable[Any], copy_ms: float) -> None:
    """One epoch with a copy to the device before each step."""
    for _ in batches:
        batch = OnHost(copy_ms)
        batch = batch.to("device")
        time.sleep(STEP_MS / 1e3)


def torch_loop(
    costs: Costs = Costs(),
    batches: int = 150,
    epochs: int = 1,
    step_ms: float = STEP_MS,
    **settings: Any,
) -> Callable[[dict[str, Any]], None]:
    """A loop over a PyTorch loader."""

    def run(changes: dict[str, Any]) -> None:
        own = dict(settings)
        changes = dict(changes)
        cost = costs
        if changes.pop("free", False):
            cost = Costs(values=costs.values)
            own.pop("collate", None)
        loader = torch_loader(cost, batches, changes, **own)
        for _ in range(epochs):
            train(loader, step_ms)

    return run


def restart(_: int) -> None:
    """Set a worker up for long."""
    time.sleep(0.4)


def from_disk(changes: dict[str, Any]) -> None:
    """A loop over files on the disk."""
    if changes.pop("free", False):
        torch_loop(Costs(), 60)(changes)
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for number in range(FILES):
            path = Path(folder, str(number))
            path.write_bytes(os.urandom(FILE_BYTES))
            with path.open("rb") as file:
                os.fsync(file.fileno())
        torch_loop(Costs(folder=folder), 60)(changes)


def in_small_memory(changes: dict[str, Any]) -> None:
    """A loop in whose small /dev/shm the batches made ahead have hardly room."""
    changes.clear()
    loader = torch_loader(
        Costs(values=1 << 17), 60, {}, num_workers=2, prefetch_factor=5, persistent_workers=True
    )
    train(loader, 60.0)


def copied(changes: dict[str, Any]) -> None:
    """A loop that copies each batch from pageable memory."""
    pinned = changes.pop("pin_memory", False) or changes.pop("free", False)
    train_on_device(torch_loader(Costs(), 100, changes), 0.0 if pinned else 25.0)


def plain(costs: Costs) -> Callable[[dict[str, Any]], None]:
    """A loop over a generator, watched by one line."""

    def run(changes: dict[str, Any]) -> None:
        from skymark.watching import watch

        cost = Costs() if changes.get("free") else costs
        batches = ([cost.sample(index) for index in range(BATCH)] for _ in range(100))
        train(watch(batches))

    return run


def in_threads(changes: dict[str, Any]) -> None:
    """A loop over batches that threads make in Python."""
    from skymark.watching import watch

    cost = Costs() if changes.get("free") else Costs(transform=15)

    def made(pool: ThreadPoolExecutor) -> Iterator[Any]:
        waiting = [pool.submit(cost.sample, 0) for _ in range(6)]
        for _ in range(100):
            yield waiting.pop(0).result()
            waiting.append(pool.submit(cost.sample, 0))

    with ThreadPoolExecutor(3) as pool:
        train(watch(made(pool)), 8.0)


def tf_decoding(ms: float) -> Callable[[Any], Any]:
    """A function for a map of tf.data that decodes one image after another for so long."""
    import tensorflow as tf

    tries, begin = 100, time.perf_counter()
    for _ in range(tries):
        tf.io.decode_jpeg(JPEG)
    images = max(1, round(ms / 1e3 * tries / (time.perf_counter() - begin)))

    def decoded(number: Any) -> Any:
        pixel = number
        for place in range(images):
            # Each has bytes of its own behind it, and waits for the one before: TensorFlow would
            # decode equal ones once, and others at once.
            end = tf.strings.as_string(number * 1000 + place + pixel // 2**60)
            pixel = tf.cast(tf.io.decode_jpeg(tf.strings.join([JPEG, end]))[0, 0, 0], tf.int64)
        return pixel

    return decoded


def serial(tf: Any, data: Any) -> Any:
    """Keep TensorFlow from running a map in parallel by itself."""
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    return data.with_options(options)


def tfdata(changes: dict[str, Any]) -> None:
    """A loop over a serial map of tf.data."""
    import tensorflow as tf

    decoded = tf_decoding(1.0 if changes.get("free") else 2 * STEP_MS)
    train(serial(tf, tf.data.Dataset.range(120).map(decoded)).prefetch(2))


def grain(costs: Costs) -> Callable[[dict[str, Any]], None]:
    """A loop over Grain's threads."""

    def run(changes: dict[str, Any]) -> None:
        from grain.python import MapDataset

        cost = Costs() if changes.get("free") else costs
        data = MapDataset.range(100 * BATCH).map(cost.sample).to_iter_dataset().batch(BATCH)
        train(islice(iter(data), 100))

    return run


LOOPS: dict[str, Callable[[dict[str, Any]], None]] = {
    "torch-none": torch_loop(Costs(decode=1), step_ms=50.0),
    "torch-serial-decode": torch_loop(Costs(decode=8), num_workers=0),
    "torch-serial-transform": torch_loop(Costs(transform=8), num_workers=0),
    "torch-serial-storage": torch_loop(Costs(read=10), num_workers=0),
    "torch-few-decode": torch_loop(Costs(decode=7)),
    "torch-few-transform": torch_loop(Costs(transform=7)),
    "torch-few-iterable": torch_loop(Costs(decode=7), iterable=True),
    "torch-few-storage": torch_loop(Costs(read=15)),
    "torch-cores-decode": torch_loop(Costs(decode=25), 100, num_workers=2),
    "torch-cores-collate": torch_loop(Costs(collate=100), 100, num_workers=2),
    "torch-disk": from_disk,
    "torch-pickle": torch_loop(num_workers=2, collate=collate_objects),
    "torch-shm": in_small_memory,
    "torch-tail": torch_loop(Costs(tail=300), 240, num_workers=2),
    "torch-restart": torch_loop(
        Costs(decode=1), 12, 8, num_workers=2, worker_init_fn=restart, persistent_workers=False
    ),
    "torch-crowd": torch_loop(Costs(decode=8), 12, 6, num_workers=12),
    "torch-copy": copied,
    "plain-none": plain(Costs()),
    "plain-decode": plain(Costs(decode=5)),
    "plain-storage": plain(Costs(read=5)),
    "plain-gil": in_threads,
    "tfdata-decode": tfdata,
    "grain-decode": grain(Costs(decode=25)),
    "grain-gil": grain(Costs(transform=25)),
}


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    LOOPS[sys.argv[1]](json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
