"""PyTorch DataLoader: a map-style dataset, a seeded sampler, persistent worker processes.

`workers` are processes that live from epoch to epoch and make whole batches. `prefetch` is
`prefetch_factor`. PR-1 uses torchdata's `StatefulDataLoader`. Other adapters whose library works in
a DataLoader build on the classes here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.element_streams import Batches

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.work import Batch

NO_JAX: Mapping[str, str] = {"jax": "a DataLoader delivers PyTorch tensors, not JAX arrays"}
BY_SAMPLER: Mapping[str, str] = {
    **NO_JAX,
    "seek": "a DataLoader's sampler draws a permutation of all indices, 8 bytes for each",
}
NO_TORCHDATA: Mapping[str, str] = {
    "checkpoint": "torchdata, whose DataLoader saves positions, is not in its venv"
}
OF_STREAMS: Mapping[str, str] = {
    **NO_JAX,
    "seek": "a stream comes to its middle by reading all that is before",
    "worker-invariant": "each worker reads shards of its own, so the order depends on how many "
    "workers there are",
    "eager": "elements always stream from their shards",
}
"""Abilities that a DataLoader lacks: in any case, with a sampler, without
torchdata, and over streams of shards."""


class SharedWork:
    """The scenario's work in worker processes, which live on and share the number of the epoch."""

    def __init__(self, job: LoadingJob) -> None:
        from multiprocessing import Value

        self.job = job
        self.current = Value("q", 0, lock=False)

    @property
    def epoch(self) -> int:
        """The epoch that is loaded."""
        epoch: int = self.current.value
        return epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.current.value = epoch

    def transformed(self, element: Element) -> Element:
        """Transform one element."""
        return self.job.transform(element, self.epoch)

    def collated(self, elements: list[Element]) -> dict[str, Any]:
        """Make a batch, and do its batch-level work in the worker, as torchvision recommends."""
        return tensors(self.job.mix(self.job.collate(elements), self.epoch))


def tensors(batch: Batch) -> dict[str, Any]:
    """Turn arrays into tensors, which travel between processes in shared memory."""
    import torch

    return {name: torch.as_tensor(value) for name, value in batch.items()}


def worker_settings(job: LoadingJob, workers: int | None = None) -> dict[str, Any]:
    """Return a DataLoader's settings for workers that live on from epoch to epoch."""
    count = job.workers if workers is None else workers
    return {
        "num_workers": count,
        "persistent_workers": count > 0,
        "prefetch_factor": job.prefetch if count else None,
        "pin_memory": job.page_locks,
    }


def bucket_loader(
    loader: Any, elements: Iterable[Element], job: LoadingJob, **settings: Any
) -> Any:
    """Return a DataLoader of batches by length, which its workers make of transformed elements."""
    from torch.utils.data import IterableDataset

    IterableDataset.register(Batches)  # a subclass, without importing torch up there
    return loader(Batches(elements, job), batch_size=None, collate_fn=tensors, **settings)


def end_workers(loader: Any) -> None:
    """End a DataLoader's workers now, which its iterator has until it is dropped itself."""
    iterator = loader._iterator  # noqa: SLF001 - PyTorch has no public way
    if iterator is not None:
        iterator._shutdown_workers()  # noqa: SLF001


def worker_share() -> tuple[int, int]:
    """Return the number of this worker, and of how many; the only one where there is none."""
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    return (worker.id, worker.num_workers) if worker else (0, 1)


class MapStyleElements:
    """Map-style dataset of transformed elements."""

    start_method: ClassVar[str | None] = None
    """Of worker processes that read them; None for Python's own."""
    preloaded: ClassVar[tuple[str, ...]] = ()
    """Modules that workers of a fork server have from the start."""

    def __init__(self, work: SharedWork) -> None:
        self.job = work.job
        self.work = work
        self.open()

    def open(self) -> None:
        """Open the data; libraries with a reader of their own do so here."""
        self.reader = self.job.reader()

    def read(self, indices: list[int]) -> Iterable[Element]:
        """Return raw elements; libraries that read many at once do so here."""
        return (self.reader[index] for index in indices)

    def __getitems__(self, indices: list[int]) -> list[Element]:
        """Return the transformed elements of a batch, as DataLoader asks for them."""
        return [self.work.transformed(element) for element in self.read(indices)]

    def collated(self, elements: list[Any]) -> dict[str, Any]:
        """Make a batch of elements, in a worker."""
        return self.work.collated(elements)


class EpochSampler:
    """This rank's elements in an order that depends on seed and epoch alone.

    Sources are mixed by NumPy: as `torch.utils.data.WeightedRandomSampler` draws, with replacement,
    an element would come again before its source was gone through.
    """

    def __init__(self, work: SharedWork) -> None:
        self.job = work.job
        self.work = work

    def __len__(self) -> int:
        return len(range(self.job.rank, self.job.scenario.epoch_elements, self.job.world))

    def __iter__(self) -> Iterator[int]:
        import torch

        job, total = self.job, len(self.job.dataset)
        if job.scenario.mixture is not None:
            return iter(job.order(self.work.epoch).tolist())
        generator = torch.Generator().manual_seed(job.shuffle_seed(self.work.epoch))
        order = torch.randperm(total, generator=generator) if job.shuffle else torch.arange(total)
        return iter(order[job.rank :: job.world].tolist())


class Share:
    """A worker's share of the elements, for an iterable-style dataset."""

    def __init__(self, elements: MapStyleElements, sampler: EpochSampler) -> None:
        self.elements = elements
        self.sampler = sampler

    def __iter__(self) -> Iterator[Element]:
        start, step = worker_share()
        indices = islice(self.sampler, start, None, step)
        while some := list(islice(indices, self.elements.job.batch_size)):
            yield from self.elements.__getitems__(some)


class PyTorchLoader(Loader):
    """One DataLoader whose workers live on from epoch to epoch."""

    keys: ClassVar[type[EpochSampler]] = EpochSampler

    def __init__(
        self, job: LoadingJob, make_elements: Callable[[SharedWork], MapStyleElements]
    ) -> None:
        from multiprocessing import set_forkserver_preload

        self.work = SharedWork(job)
        self.sampler = self.keys(self.work)
        elements = make_elements(self.work)
        if elements.preloaded:
            set_forkserver_preload([*elements.preloaded])
        make = partial(
            self.loader_class(),
            multiprocessing_context=elements.start_method if job.workers else None,
            **worker_settings(job),
        )
        if job.scenario.bucket_boundaries:
            self.loader = bucket_loader(make, Share(elements, self.sampler), job)
        else:
            self.loader = make(
                elements,
                batch_size=job.batch_size,
                sampler=self.sampler,
                collate_fn=elements.collated,
                drop_last=job.drop_last,
            )

    def loader_class(self) -> Any:
        """Return DataLoader, or torchdata's replacement where positions are to be saved."""
        scenario = self.work.job.scenario
        if "checkpoint" in scenario.requirements(scenario.axes):
            from torchdata.stateful_dataloader import StatefulDataLoader

            return StatefulDataLoader
        from torch.utils.data import DataLoader

        return DataLoader

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors."""
        self.work.epoch = epoch
        return iter(self.loader)

    def state(self) -> bytes:
        """Return the state of torchdata's StatefulDataLoader."""
        return pickle.dumps(self.loader.state_dict())

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Load the state, and iterate over the rest of the epoch."""
        self.loader.load_state_dict(pickle.loads(state))  # noqa: S301 - what `state` made
        return self.epoch(epoch)

    def close(self) -> None:
        """Drop the loader, which ends its workers."""
        del self.loader


class InDataLoader(Adapter):
    """An adapter of a library that works in the processes of a DataLoader."""

    runs_in: ClassVar = ("processes",)
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    @classmethod
    def code(cls, workers: int, prefetch: int, *, in_threads: bool) -> str:
        """Return the DataLoader with workers that live on from epoch to epoch."""
        del in_threads
        more = f", prefetch_factor={prefetch}, persistent_workers=True" if workers else ""
        return f"torch.utils.data.DataLoader(..., num_workers={workers}{more})"


class ByIndex(InDataLoader):
    """An adapter of a library whose elements a DataLoader takes by their indices."""

    elements: ClassVar[type[MapStyleElements]] = MapStyleElements

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader of the elements."""
        return PyTorchLoader(job, self.elements)


@adapter
class PyTorch(ByIndex):
    """`torch.utils.data.DataLoader`, or torchdata's StatefulDataLoader to save positions."""

    slug: ClassVar = "pytorch"
    name: ClassVar = "PyTorch DataLoader"
    distribution: ClassVar = "torch"
    imports: ClassVar = "torch.utils.data"
    requirements: ClassVar = ("torch", "torchdata", "pyarrow")
    homepage: ClassVar = "https://pytorch.org/docs/stable/data.html"
    guide: ClassVar = "https://docs.pytorch.org/docs/stable/data.html"
    abilities: ClassVar = all_but(BY_SAMPLER)
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
