"""Datarax: a compiled `Pipeline` of JAX stages over arrays in memory, or over the host's batches.

JAX operators do the work of some scenarios (`operators`), one stage per step. Columns of fixed
shape are a source in memory, which the compiled step indexes. Datarax serves full batches only, so
the adapter cuts repeated elements off the last one. All other data is a streaming source, whose
elements the reference reads and transforms on the host. Datarax has no workers: unless `workers` is
0, one thread of its `Prefetcher` reads `prefetch` batches of a streaming source ahead. JAX computes
with all cores, whatever `workers` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    SkippingLoader,
    adapter,
    all_but,
)
from skymark.suites.loading.adapters.datarax.operators import OPERATORS, forget
from skymark.suites.loading.devices import JAX
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.suites.loading.adapters.datarax.operators import Step
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.work import Batch


class DataraxLoader(Loader):
    """Order, random parameters and pipeline of a Datarax loader, whatever its source."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.operators = OPERATORS.get(job.scenario.id)

    def parameters(self, epoch: int) -> dict[str, Any]:
        """Return the tables of random parameters that JAX's part of the work needs."""
        if self.operators is None:
            return {}
        return self.operators.draw(self.job.scenario, self.job.dataset, epoch)

    def pipeline(self, source: Any) -> Any:
        """Return the pipeline, with one stage per step."""
        from datarax import Pipeline
        from flax import nnx

        from skymark.suites.loading.adapters.datarax.sources import StepModule

        steps: tuple[Step, ...] = ()
        if self.operators is not None:
            steps = (*self.operators.steps(self.job.scenario), forget(self.parameters(0)))
        return Pipeline(
            source=source,
            stages=[StepModule(step) for step in steps],
            batch_size=self.job.batch_size,
            rngs=nnx.Rngs(0),
        )

    def order(self, epoch: int) -> Any:
        """Return this rank's elements in this epoch's order, int32 on the device."""
        import jax.numpy as jnp

        from skymark.suites.loading.adapters.datarax.sources import permutation

        job, elements = self.job, len(self.job.dataset)
        if job.shuffle:
            order = permutation(job.shuffle_seed(epoch), elements)
        else:
            order = jnp.arange(elements, dtype=jnp.int32)
        return order[job.rank :: job.world]

    def ready(self, batch: Batch) -> None:
        """Wait until the arrays are computed."""
        import jax

        jax.block_until_ready(batch)


class ArrayLoader(DataraxLoader):
    """The compiled session over arrays in memory."""

    def __init__(self, job: LoadingJob) -> None:
        super().__init__(job)
        self.iterator: Any = None

    @cached_property
    def source(self) -> Any:
        """The columns on the device; put there when the first epoch starts."""
        from skymark.suites.loading.adapters.datarax.sources import ArraySource

        dataset = self.job.dataset
        return ArraySource({column.name: dataset.column(column.name) for column in dataset.columns})

    @cached_property
    def compiled(self) -> Any:
        """The pipeline, compiled once for all epochs."""
        return self.pipeline(self.source)

    def epoch(self, epoch: int, position: int = 0) -> Iterator[Batch]:
        """Set the order, start a session at a position, and yield batches of JAX arrays."""
        job = self.job
        self.source.begin(self.order(epoch), self.parameters(epoch), job.batch_size)
        self.iterator = iter(self.compiled)
        self.iterator.set_state({**self.iterator.get_state(), "position": position})
        left = len(self.source) - position
        for batch in self.iterator:
            if left < job.batch_size:
                if not job.drop_last:
                    yield {name: values[:left] for name, values in batch.items()}
                return
            left -= job.batch_size
            yield batch

    def state(self) -> bytes:
        """Return the session's position."""
        return json.dumps(int(self.iterator.get_state()["position"])).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Start the session at the saved position."""
        return self.epoch(epoch, json.loads(state))


class HostLoader(SkippingLoader, DataraxLoader):
    """The streaming pipeline over batches that the host makes."""

    def __init__(self, job: LoadingJob) -> None:
        from skymark.suites.loading.adapters.datarax.sources import Feed, HostSource

        super().__init__(job)
        self.reader = job.reader()
        on_host = None if self.operators is None else self.operators.host_stages
        self.stages = job.scenario.stages()[:on_host]
        self.feed = Feed()
        self.stream = self.pipeline(HostSource(self.feed))
        self.iterator: Any = None

    def elements(self, epoch: int, order: list[int]) -> Iterator[Element]:
        """Read elements and do the host's part of the work."""
        scenario, tables = self.job.scenario, self.parameters(epoch)
        for index in order:
            element, parameters = self.reader[index], scenario.parameters(epoch, index)
            for stage in self.stages:
                element = stage.apply(element, parameters)
            yield {**element, **{name: values[index] for name, values in tables.items()}}

    def after(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Return batches of JAX arrays."""
        from datarax.control import create_prefetch_stream

        job = self.job
        order = self.order(epoch).tolist()[batches * job.batch_size :]
        made = batches_of(self.elements(epoch, order), job)
        self.close()
        self.feed.batches = (dict(job.mix(batch, epoch)) for batch in made)
        self.iterator = iter(self.stream)
        if job.workers:
            ahead = max(1, job.prefetch)
            self.iterator = create_prefetch_stream(self.iterator, mode="thread", size=ahead)
        iterator: Iterator[Batch] = self.iterator
        return iterator

    def close(self) -> None:
        """Stop the thread of the latest epoch."""
        if self.iterator is not None:
            self.iterator.close()


@adapter
class Datarax(Adapter):
    """`datarax.Pipeline`, compiled by JAX."""

    slug: ClassVar = "datarax"
    name: ClassVar = "Datarax"
    distribution: ClassVar = "datarax"
    imports: ClassVar = "datarax"
    requirements: ClassVar = ("datarax", "pyarrow")
    homepage: ClassVar = "https://github.com/avitai/datarax"
    guide: ClassVar = "https://datarax.readthedocs.io"
    abilities: ClassVar = all_but(
        {
            "mix": "its mixed source draws with replacement: elements come again before others",
            "seek": "its sources take the order as a list of all indices on the device",
            "variable-length": "it compiles its pipeline for batches of one shape and has no "
            "padding",
            "pack": "a batch has a row per element; it packs no texts",
            "bucket": "it has no batching by length",
        }
    )
    formats: ClassVar = ("canonical", "memory", "files", "tar", "parquet", "http")
    framework: ClassVar = "jax"
    acceleration: ClassVar = JAX
    native: ClassVar = frozenset(OPERATORS)
    variables: ClassVar = {"JAX_ENABLE_X64": "1"}
    """Scenarios have 64-bit integers, which JAX else cuts to 32 bits."""

    def execution(self, job: LoadingJob) -> Execution:
        """Return the thread that reads ahead; what JAX computes, its own threads do."""
        return Execution("threads", 1 if job.workers and not on_arrays(job) else 0)

    def open(self, job: LoadingJob) -> Loader:
        """Return a pipeline over arrays where the work is JAX's and the rows are of one shape."""
        return ArrayLoader(job) if on_arrays(job) else HostLoader(job)


def on_arrays(job: LoadingJob) -> bool:
    """Return whether all work is JAX's, on columns of fixed shape."""
    operators = OPERATORS.get(job.scenario.id)
    by_jax = operators is not None and not operators.host_stages
    return by_jax and job.format in {"canonical", "memory"}
