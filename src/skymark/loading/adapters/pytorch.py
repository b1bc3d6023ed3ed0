"""PyTorch DataLoader: a map-style dataset, a seeded sampler, persistent worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.loading.adapter import Adapter, Job, Loader, adapter

if TYPE_CHECKING:
    from skymark.loading.scenario import Batch


class Elements:
    """Map-style dataset. A key is (epoch, index): persistent workers never see `set_epoch`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.reader = job.reader()

    def __getitem__(self, key: tuple[int, int]) -> dict[str, Any]:
        epoch, index = key
        return self.job.transform(self.reader[index], epoch)


class EpochSampler:
    """This rank's (epoch, index) keys in an order that depends on seed and epoch alone."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.epoch = 0

    def __len__(self) -> int:
        return len(range(self.job.rank, len(self.job.dataset), self.job.world))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        import torch

        job, total = self.job, len(self.job.dataset)
        generator = torch.Generator().manual_seed(job.shuffle_seed(self.epoch))
        order = torch.randperm(total, generator=generator) if job.shuffle else torch.arange(total)
        return ((self.epoch, index) for index in order[job.rank :: job.world].tolist())


class PyTorchLoader(Loader):
    """One DataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: Job) -> None:
        import torch
        from torch.utils.data import DataLoader

        def collate(elements: list[dict[str, Any]]) -> dict[str, Any]:
            return {name: torch.as_tensor(v) for name, v in job.collate(elements).items()}

        self.job = job
        self.sampler = EpochSampler(job)
        self.loader = DataLoader(
            Elements(job),  # type: ignore[arg-type]
            batch_size=job.batch_size,
            sampler=self.sampler,  # type: ignore[arg-type]
            num_workers=job.workers,
            collate_fn=collate,
            drop_last=job.drop_last,
            persistent_workers=job.workers > 0,
            prefetch_factor=job.prefetch if job.workers else None,
        )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors; batch-level work is done here, as users do."""
        self.sampler.epoch = epoch
        if not self.job.scenario.mixes:
            return iter(self.loader)
        return (self.job.mix(batch, epoch) for batch in self.loader)

    def close(self) -> None:
        """Drop the loader, which ends its workers."""
        del self.loader


@adapter
class PyTorch(Adapter):
    """`torch.utils.data.DataLoader` over a map-style dataset."""

    slug: ClassVar = "pytorch"
    name: ClassVar = "PyTorch DataLoader"
    distribution: ClassVar = "torch"
    imports: ClassVar = "torch.utils.data"
    homepage: ClassVar = "https://pytorch.org/docs/stable/data.html"
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "worker-invariant",
            "batch-map",
            "variable-length",
            "shard",
            "stream",
            "eager",
            "source:memory",
            "source:files",
            "source:tar",
            "source:columnar",
            "source:http",
        }
    )
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")

    def open(self, job: Job) -> Loader:
        """Return the DataLoader."""
        return PyTorchLoader(job)
