"""jax-dataloader: a Dataset behind its PyTorch or its JAX backend.

The PyTorch backend has worker processes and stacks fields itself. The JAX backend works in the
calling thread and asks the Dataset for whole batches. The adapter uses it for scenarios that do
more than stack fields, with ``--deliver device``, because JAX then runs before workers could be
forked, and with ``--set backend=jax``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.adapters.pytorch import SharedWork
from skymark.suites.loading.devices import JAX, TORCH_FOR_CUDA12
from skymark.suites.loading.scenario import Scenario

if TYPE_CHECKING:
    from skymark.suites.loading.work import Batch


class ElementsByIndex:
    """The methods of a Dataset: length, and elements by index, one or many."""

    def __init__(self, job: LoadingJob) -> None:
        self.reader = job.reader()
        self.work = SharedWork(job)

    def __len__(self) -> int:
        return len(self.work.job.dataset)

    def __getitem__(self, index: Any) -> Any:
        work, reader = self.work, self.reader
        if isinstance(index, int):
            return work.transformed(reader[index])
        return work.job.collate([work.transformed(reader[one]) for one in index.tolist()])


def backend_of(job: LoadingJob) -> str:
    """Return the requested backend, else ``pytorch`` if its workers can be used."""
    collates = type(job.scenario).collate is not Scenario.collate
    in_thread = collates or job.deliver == "device"
    return job.choice("backend", *(("jax", "pytorch") if in_thread else ("pytorch", "jax")))


class JaxDataLoaderLoader(Loader):
    """One DataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        import jax_dataloader as jdl

        self.job = job
        self.dataset: Any = type("Dataset", (ElementsByIndex, jdl.Dataset), {})(job)
        self.backend = backend_of(job)
        if self.backend == "pytorch":
            import torch

            self.generator = torch.Generator()
            self.loader = self.data_loader(
                self.generator,
                num_workers=job.workers,
                persistent_workers=job.workers > 0,
                prefetch_factor=job.prefetch if job.workers else None,
            )

    def data_loader(self, generator: Any, **settings: Any) -> Any:
        """Return the library's DataLoader."""
        import jax_dataloader as jdl

        job = self.job
        return jdl.DataLoader(
            self.dataset,
            backend=self.backend,
            batch_size=job.batch_size,
            shuffle=job.shuffle,
            drop_last=job.drop_last,
            generator=generator,
            **settings,
        )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of NumPy arrays, in an order drawn from the epoch's seed."""
        job, seed = self.job, self.job.shuffle_seed(epoch)
        self.dataset.work.epoch = epoch
        if self.backend == "pytorch":
            self.generator.manual_seed(seed)
        else:
            import jax

            self.loader = self.data_loader(jax.random.PRNGKey(seed))
        if not job.scenario.mixes:
            return iter(self.loader)
        return (job.mix(batch, epoch) for batch in self.loader)

    def close(self) -> None:
        """Drop the loader, which ends its workers."""
        del self.loader


@adapter
class JaxDataLoader(Adapter):
    """`jax_dataloader.DataLoader` over a Dataset."""

    slug: ClassVar = "jax-dataloader"
    name: ClassVar = "jax-dataloader"
    distribution: ClassVar = "jax-dataloader"
    imports: ClassVar = "jax_dataloader"
    requirements: ClassVar = ("jax-dataloader", "torch", "pyarrow")
    homepage: ClassVar = "https://birkhoffg.github.io/jax-dataloader"
    guide: ClassVar = "https://birkhoffg.github.io/jax-dataloader/core.html"
    loader: ClassVar = JaxDataLoaderLoader
    abilities: ClassVar = all_but(
        {
            "mix": "it has no weighted mixing of sources",
            "seek": "its sampler draws a permutation of all indices, 8 bytes for each",
            "bucket": "its DataLoader chooses the elements of a batch itself, at random or in "
            "order",
            "shard": "its DataLoader knows no ranks and takes no sampler",
            "checkpoint": "its DataLoader has no state to save",
        }
    )
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
    framework: ClassVar = "jax"
    acceleration: ClassVar = replace(
        JAX,
        builds={**JAX.builds, "cuda12": ("jax[cuda12]", TORCH_FOR_CUDA12)},
        variables={**JAX.variables, "cpu": {"JAX_PLATFORMS": "cpu"}},
    )
    options: ClassVar = {"backend": "`pytorch` or `jax`; else what the scenario allows"}

    def execution(self, job: LoadingJob) -> Execution:
        """Return the processes of the PyTorch backend; the JAX backend has none."""
        return super().execution(job) if backend_of(job) == "pytorch" else Execution()
