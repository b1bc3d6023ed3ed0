"""Ray Data: a streaming dataset of rows, transformed by tasks and iterated over in batches.

As Ray's guide recommends for training, files come in random order, and a local buffer shuffles
their rows while you iterate. ``--set ray_shuffle=global`` shuffles all data before the first batch.
`workers` limits the tasks of `map_batches`, at least one, because Ray always works in processes of
its own. `prefetch` is Ray's `prefetch_batches`.

One Ray serves all cells. The adapter changes two of its settings. `preserve_order` is on, because
the order would otherwise depend on the fastest task. `use_datasource_v2` is off: the newer Parquet
reader starts 32 processes in every epoch to read footers, which takes many seconds on a small
machine.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.machine.private_directory import private_directory
from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.devices import TORCH_ON_GPUS
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.dataset.files import Reader
    from skymark.suites.loading.work import Batch

BLOCK_ROWS = 256
"""Rows of a block that is handed over from memory."""
SHUFFLE_BUFFER = 1024
"""Least number of rows to shuffle among, unless ``--set shuffle_buffer=N`` says otherwise."""
BATCHES_IN_BUFFER = 2
"""Least number of batches in the buffer: with fewer, Ray delivers short batches in the middle of an
epoch (https://github.com/ray-project/ray/issues/66085)."""
HEAD_TIMEOUT_S = 30.0
"""How long a rank waits for rank 0 to start Ray."""


def shuffle_buffer(job: LoadingJob) -> int:
    """Return the number of rows to shuffle among."""
    usual = max(SHUFFLE_BUFFER, BATCHES_IN_BUFFER * job.batch_size)
    return int(job.options.get("shuffle_buffer", usual))


def transform_block(
    job: LoadingJob, reader: Reader | None, epoch: int, rows: Any
) -> Iterator[dict[str, Any]]:
    """Turn a block of raw rows, an Arrow table, into columns of transformed elements."""
    elements = raw_elements(job, rows) if reader is None else read_elements(reader, rows)
    for start in range(0, len(elements), job.batch_size):
        chunk = elements[start : start + job.batch_size]
        yield columns_of([job.transform(element, epoch) for element in chunk], job)


def raw_elements(job: LoadingJob, rows: Any) -> list[Element]:
    """Return the elements in a block of rows that Ray has read."""
    from skymark.suites.loading.dataset.parquet import rows_of_table
    from skymark.suites.loading.dataset.tar import Members

    if job.format in {"parquet", "memory"}:
        return rows_of_table(rows, job.dataset.columns)
    layout = Members(job.dataset.columns)
    members = [[value.as_buffer() for value in rows[suffix]] for suffix in layout.suffixes]
    return [
        layout.read(key, dict(zip(layout.suffixes, row, strict=True)))
        for key, *row in zip(rows["__key__"].to_pylist(), *members, strict=True)
    ]


def read_elements(reader: Reader, rows: Any) -> list[Element]:
    """Read the elements that a block of indices names."""
    return [reader[index] for index in rows["index"].to_pylist()]


def columns_of(elements: list[Element], job: LoadingJob) -> dict[str, Any]:
    """Return one column per field: stacked, or an object array of arrays of varying length."""
    import numpy as np

    columns: dict[str, Any] = {}
    for name in elements[0]:
        values = [np.asarray(element[name]) for element in elements]
        if name in job.scenario.variable_length:
            columns[name] = np.empty(len(values), object)
            columns[name][:] = values
        else:
            columns[name] = np.stack(values)
    return columns


class RayLoader(Loader):
    """One lazy Ray dataset per epoch, with the epoch's order and random parameters."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.tasks = max(1, job.workers)
        self.shuffles_globally = job.choice("ray_shuffle", "buffer", "global") == "global"
        self.batches: Any = None
        self.blocks = self.blocks_in_memory() if job.format == "memory" else []
        self.reader = job.reader() if job.format in {"files", "http"} else None

    def blocks_in_memory(self) -> list[Any]:
        """Put this rank's elements into Ray's object store."""
        import ray

        from skymark.suites.loading.dataset.parquet import arrow_table

        job = self.job
        starts = range(job.rank * BLOCK_ROWS, len(job.dataset), job.world * BLOCK_ROWS)
        return [ray.put(arrow_table(job.dataset, at, at + BLOCK_ROWS)) for at in starts]

    def rows(self, seed: int | None) -> Any:
        """Return this rank's raw rows: its files, blocks or indices, in an order from the seed."""
        import numpy as np
        import pyarrow as pa
        import ray.data

        job = self.job
        if job.format == "memory":
            blocks = ray.data.from_arrow_refs(self.blocks)
            return blocks if seed is None else blocks.randomize_block_order(seed=seed)
        if job.format in {"parquet", "tar"}:
            read = ray.data.read_parquet
            if job.format == "tar":
                read = partial(ray.data.read_webdataset, decoder=None)
            files = [str(file) for file in sorted(job.storage.iterdir())[job.rank :: job.world]]
            order = None if seed is None else ray.data.FileShuffleConfig(seed=seed)
            return read(files, shuffle=order, concurrency=self.tasks)
        indices = np.arange(len(job.dataset))
        if seed is not None:
            np.random.default_rng(seed).shuffle(indices)
        mine = indices[job.rank :: job.world]
        starts = range(0, len(mine), BLOCK_ROWS)
        return ray.data.from_arrow(
            [pa.table({"index": mine[at : at + BLOCK_ROWS]}) for at in starts]
        )

    def dataset(self, epoch: int) -> tuple[Any, dict[str, Any]]:
        """Return the transformed rows and how to shuffle them while iterating."""
        from ray.data import TaskPoolStrategy

        job = self.job
        seed = job.shuffle_seed(epoch) if job.shuffle else None
        shuffling: dict[str, Any] = {}
        if seed is None:
            rows = self.rows(None)
        elif self.shuffles_globally:
            rows = self.rows(None).random_shuffle(seed=seed)
        else:
            rows = self.rows(seed)
            shuffling = {
                "local_shuffle_buffer_size": shuffle_buffer(job),
                "local_shuffle_seed": seed,
            }
        work = partial(transform_block, job, self.reader, epoch)
        tasks = TaskPoolStrategy(size=self.tasks)
        return rows.map_batches(work, batch_format="pyarrow", compute=tasks), shuffling

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays; fields of varying length are collated here.

        `iter_torch_batches` puts batches on a device, as Ray's guide recommends.
        """
        self.close()
        from skymark.suites.loading.delivery.on_torch import torch_device

        job = self.job
        dataset, shuffling = self.dataset(epoch)
        ragged = bool(job.scenario.variable_length)
        iterated = partial(dataset.iter_batches, batch_format="numpy")
        if job.deliver == "device" and job.copies_ahead and not (ragged or job.scenario.mixes):
            iterated = partial(
                dataset.iterator().iter_torch_batches,
                device=torch_device(job.platform, job.rank),
                pin_memory=job.page_locks,
            )
        batches: Iterator[Batch] = iter(
            iterated(
                batch_size=job.batch_size,
                prefetch_batches=job.prefetch,
                drop_last=job.drop_last and not ragged,
                **shuffling,
            )
        )
        self.batches = batches
        if ragged:
            return batches_of((row for batch in batches for row in rows_of(batch)), job)
        return (job.mix(batch, epoch) for batch in batches) if job.scenario.mixes else batches

    def close(self) -> None:
        """Stop the tasks of the latest epoch."""
        if self.batches is not None:
            self.batches.close()


def rows_of(batch: Batch) -> Iterator[Element]:
    """Yield the elements of a batch."""
    return (dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True))


@adapter
class RayData(Adapter):
    """`ray.data`, in a cluster of this machine alone."""

    slug: ClassVar = "ray"
    name: ClassVar = "Ray Data"
    distribution: ClassVar = "ray"
    imports: ClassVar = "ray.data"
    requirements: ClassVar = ("ray[data]", "pyarrow")
    homepage: ClassVar = "https://docs.ray.io/en/latest/data/data.html"
    guide: ClassVar = "https://docs.ray.io/en/latest/data/shuffling-data.html"
    abilities: ClassVar = all_but(
        {
            "mix": "its mixing begins no source again: a finished source drops out",
            "seek": "a stream comes to its middle by reading all that is before",
            "checkpoint": "Ray Data does not save the position of an iterator within an epoch",
            "jax": "Ray Data delivers NumPy, PyTorch or TensorFlow batches, not arrays on a JAX "
            "mesh",
        }
    )
    options: ClassVar = {
        "ray_shuffle": "`buffer` (files and a local buffer, the default) or `global`",
        "shuffle_buffer": f"rows in the local buffer, {SHUFFLE_BUFFER} by default and at least two "
        "batches; with fewer Ray may deliver short ones",
    }
    shuffles: ClassVar = f"shards, buffer {SHUFFLE_BUFFER}"
    # Its tasks go on until the object store is full, whatever has been asked for.
    works_ahead: ClassVar = "epoch"
    version: ClassVar = 2
    formats: ClassVar = ("parquet", "memory", "files", "tar", "http")
    framework: ClassVar = "torch"
    framework_platforms: ClassVar = frozenset({"gpu"})
    acceleration: ClassVar = TORCH_ON_GPUS
    variables: ClassVar = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
        "RAY_enable_metrics_collection": "0",
        # A new cluster asks for a token; who joins it by its address sends one only if told to.
        "RAY_AUTH_MODE": "token",
        # Else a call before or after would join the cluster that a file in /tmp/ray names.
        "RAY_ENABLE_AUTO_CONNECT": "0",
    }

    def __init__(self) -> None:
        self.directory: str | None = None
        self.is_head = True

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return whether it is global, or of files and a buffer of some size."""
        if job.options.get("ray_shuffle") == "global":
            return "global"
        return f"shards, buffer {shuffle_buffer(job)}"

    def execution(self, job: LoadingJob) -> Execution:
        """Return the processes of its tasks: it has at least one."""
        return Execution("processes", max(1, job.workers))

    def open(self, job: LoadingJob) -> Loader:
        """Return the loader, after starting Ray for the first."""
        if self.directory is None:
            self.start(job)
        return RayLoader(job)

    def start(self, job: LoadingJob) -> None:
        """Start Ray on this machine, once for all the ranks that a launcher started together."""
        import ray
        from ray.data import DataContext

        launch = os.environ.get("MASTER_PORT") if job.world > 1 else None
        self.is_head = launch is None or job.rank == 0
        if launch is None:
            self.directory = tempfile.mkdtemp(prefix="skymark-ray-")
        else:
            place = Path(tempfile.gettempdir(), f"skymark-ray-{os.getuid()}-{launch}")
            self.directory = str(private_directory([place]))
        address = Path(self.directory, "address")
        if self.is_head:
            with chdir("/"):  # Ray's processes import from where it is started
                ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    _temp_dir=self.directory,
                )
            address.write_text(ray.get_runtime_context().gcs_address)
        else:
            await_file(address)
            with chdir("/"):
                ray.init(address=address.read_text(), log_to_driver=False)
        context = DataContext.get_current()
        context.execution_options.preserve_order = True
        context.use_datasource_v2 = False
        logging.getLogger("ray.data").setLevel(logging.WARNING)

    def close(self) -> None:
        """Stop Ray and its processes, and remove its session directory."""
        import ray

        if self.directory is not None:
            ray.shutdown()
            if self.is_head:
                shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None


def await_file(path: Path) -> None:
    """Wait until rank 0 has written a file.

    Raises:
        TimeoutError: it was not there within `HEAD_TIMEOUT_S`.
    """
    deadline = time.monotonic() + HEAD_TIMEOUT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank 0 did not start Ray within {HEAD_TIMEOUT_S} s; see its log")
        time.sleep(0.1)
