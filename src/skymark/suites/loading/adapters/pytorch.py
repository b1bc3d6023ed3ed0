"""PyTorch DataLoader: a map-style dataset, a seeded sampler, persistent worker processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.element_streams import Batches

if TYPE_CHECKING:
    import torch

    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.element_streams import Mixture
    from skymark.suites.loading.scenario import Batch

Key = tuple[int, int]
"""(epoch, index). Persistent workers are not told of a new epoch, so it comes with each index."""


class Elements:
    """Map-style dataset of transformed elements, each with its epoch."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.reader = job.reader()

    def read(self, indices: list[int]) -> Iterable[Element]:
        """Return raw elements; libraries that read many at once do so here."""
        return (self.reader[index] for index in indices)

    def fetch(self, keys: list[Key]) -> Iterator[tuple[int, Element]]:
        """Read and transform elements one after another."""
        raw = self.read([index for _, index in keys])
        for (epoch, _), element in zip(keys, raw, strict=True):
            yield epoch, self.job.transform(element, epoch)

    def __getitems__(self, keys: list[Key]) -> list[tuple[int, Element]]:
        """Return the elements of a batch, as DataLoader asks for them."""
        return list(self.fetch(keys))


class EpochSampler:
    """This rank's keys in an order that depends on seed and epoch alone."""

    def __init__(self, job: LoadingJob, epoch: Any) -> None:
        self.job = job
        self.epoch = epoch

    def __len__(self) -> int:
        return len(range(self.job.rank, self.job.scenario.epoch_elements, self.job.world))

    def __iter__(self) -> Iterator[Key]:
        import torch

        job, total, epoch = self.job, len(self.job.dataset), self.epoch.value
        generator = torch.Generator().manual_seed(job.shuffle_seed(epoch))
        if (mixture := job.scenario.mixture) is not None:
            return ((epoch, index) for index in mixed(mixture, generator).tolist())
        order = torch.randperm(total, generator=generator) if job.shuffle else torch.arange(total)
        return ((epoch, index) for index in order[job.rank :: job.world].tolist())


def mixed(mixture: Mixture, generator: torch.Generator) -> torch.Tensor:
    """Return a mixture's elements in an epoch's order.

    As `torch.utils.data.WeightedRandomSampler` draws, but of sources: drawn with replacement, an
    element would come again before its source was gone through.
    """
    import torch

    weights = torch.tensor(mixture.weights)
    source = torch.multinomial(weights, mixture.elements, replacement=True, generator=generator)
    order = torch.empty_like(source)
    for number, (begin, end) in enumerate(mixture.bounds):
        places = (source == number).nonzero().flatten()
        passes = -(-len(places) // (end - begin))
        drawn = [begin + torch.randperm(end - begin, generator=generator) for _ in range(passes)]
        order[places] = torch.cat([*drawn, places[:0]])[: len(places)]
    return order


class Share:
    """A worker's share of the elements, for an iterable-style dataset."""

    def __init__(self, elements: Elements, sampler: EpochSampler) -> None:
        self.elements = elements
        self.sampler = sampler

    def __iter__(self) -> Iterator[Element]:
        from itertools import islice

        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        start, step = (worker.id, worker.num_workers) if worker else (0, 1)
        keys = islice(self.sampler, start, None, step)
        while some := list(islice(keys, self.elements.job.batch_size)):
            yield from (element for _, element in self.elements.fetch(some))


def tensors(batch: Batch) -> dict[str, Any]:
    """Turn arrays into tensors, which travel between processes in shared memory."""
    import torch

    return {name: torch.as_tensor(value) for name, value in batch.items()}


def collate(job: LoadingJob, elements: list[tuple[int, Element]]) -> dict[str, Any]:
    """Make a batch, and do its batch-level work in the worker, as torchvision recommends."""
    epoch = elements[0][0]
    batch = job.collate([element for _, element in elements])
    return tensors(job.mix(batch, epoch) if job.scenario.mixes else batch)


class PyTorchLoader(Loader):
    """One DataLoader whose workers live on from epoch to epoch."""

    elements: ClassVar[type[Elements]] = Elements
    keys: ClassVar[type[EpochSampler]] = EpochSampler
    start_method: ClassVar[str | None] = None
    """Of worker processes; None for Python's own."""

    def __init__(self, job: LoadingJob) -> None:
        from multiprocessing import Value

        from torch.utils.data import IterableDataset

        self.current = Value("q", 0, lock=False)
        self.sampler = self.keys(job, self.current)
        workers = {
            "num_workers": job.workers,
            "multiprocessing_context": self.start_method if job.workers else None,
            "persistent_workers": job.workers > 0,
            "prefetch_factor": job.prefetch if job.workers else None,
            "pin_memory": job.page_locks,
        }
        if job.scenario.bucket_boundaries:
            IterableDataset.register(Batches)  # a subclass, without importing torch up there
            stream = Batches(Share(self.dataset(job), self.sampler), job)
            self.loader = self.loader_class(job)(
                stream, batch_size=None, collate_fn=tensors, **workers
            )
        else:
            self.loader = self.loader_class(job)(
                self.dataset(job),
                batch_size=job.batch_size,
                sampler=self.sampler,
                collate_fn=self.collate_fn(job),
                drop_last=job.drop_last,
                **workers,
            )

    def dataset(self, job: LoadingJob) -> Elements:
        """Return the map-style dataset of a job."""
        return self.elements(job)

    def loader_class(self, job: LoadingJob) -> Any:
        """Return DataLoader, or torchdata's replacement where positions are to be saved."""
        if "checkpoint" in job.scenario.requirements(job.scenario.axes):
            from torchdata.stateful_dataloader import StatefulDataLoader

            return StatefulDataLoader
        from torch.utils.data import DataLoader

        return DataLoader

    def collate_fn(self, job: LoadingJob) -> Callable[[list[Any]], dict[str, Any]]:
        """Return what makes a batch of elements with their epochs, to be sent to workers."""
        return partial(collate, job)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors."""
        self.current.value = epoch
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


@adapter
class PyTorch(Adapter):
    """`torch.utils.data.DataLoader`, or torchdata's StatefulDataLoader to save positions."""

    slug: ClassVar = "pytorch"
    name: ClassVar = "PyTorch DataLoader"
    distribution: ClassVar = "torch"
    imports: ClassVar = "torch.utils.data"
    homepage: ClassVar = "https://pytorch.org/docs/stable/data.html"
    guide: ClassVar = "https://docs.pytorch.org/docs/stable/data.html"
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "worker-invariant",
            "batch-map",
            "variable-length",
            "pack",
            "bucket",
            "mix",
            "shard",
            "checkpoint",
            "stream",
            "eager",
            "source:memory",
            "source:files",
            "source:tar",
            "source:columnar",
            "source:http",
        }
    )
    limits: ClassVar = {
        "seek": "a DataLoader's sampler draws a permutation of all indices, 8 bytes for each",
        "jax": "a DataLoader delivers PyTorch tensors, not JAX arrays",
    }
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return PyTorchLoader(job)
