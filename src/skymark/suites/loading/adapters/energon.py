"""Megatron Energon: tar shards with `.nv-meta`, a task encoder and a savable loader.

`get_loader` reads tar shards that ``energon prepare`` has indexed. `workers` are processes, each
with its own shards. The library shuffles sequences of 100 elements, then elements in a buffer.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    OF_STREAMS,
    InDataLoader,
    SharedWork,
    end_workers,
)
from skymark.suites.loading.element_streams import bucket_of

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.work import Batch

SHUFFLE_BUFFER = 1000
SEQUENCE = 100
"""Elements in the shuffle buffer, and read in one go from a shard, as in the library's guide."""


@cache
def encoder_class() -> Any:
    """Make the task encoder; the library is not imported before."""
    from megatron.energon import Cooker, DefaultTaskEncoder, basic_sample_keys, stateless

    from skymark.suites.loading.dataset.tar import Members

    @stateless  # type: ignore[untyped-decorator]
    def cook(sample: dict[str, Any]) -> dict[str, Any]:
        """Keep the members of a crude sample; `encode_sample` reads them."""
        return {**basic_sample_keys(sample), "members": sample}

    class Encoder(DefaultTaskEncoder):  # type: ignore[misc]
        """A task encoder for the scenario's work."""

        decoder = None
        cookers = (Cooker(cook),)

        def __init__(self, job: LoadingJob) -> None:
            super().__init__()
            self.work = SharedWork(job)
            self.members = Members(job.dataset.columns)

        @stateless  # type: ignore[untyped-decorator]
        def encode_sample(self, sample: dict[str, Any]) -> dict[str, Any]:
            members = sample["members"]
            element = self.members.read(members["__key__"].rpartition("/")[2], members)
            return self.work.transformed(element)

        @stateless  # type: ignore[untyped-decorator]
        def batch(self, samples: list[Element]) -> Any:
            return self.work.collated(samples)

    class BucketEncoder(Encoder):
        """A task encoder that also batches elements of similar length."""

        def batch_group_criterion(self, sample: Element) -> tuple[int, None]:
            return bucket_of(sample, self.work.job.scenario), None

    return Encoder, BucketEncoder


class EnergonLoader(Loader):
    """One loader whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        plain, bucketing = encoder_class()
        self.job = job
        self.encoder = (bucketing if job.scenario.bucket_boundaries else plain)(job)
        self.start(epoch=0)

    def start(self, epoch: int) -> None:
        """Make the loader that shuffles from an epoch on; its workers start with the first one."""
        from megatron.energon import (
            WorkerConfig,
            get_loader,
            get_savable_loader,
            get_train_dataset,
        )
        from megatron.energon.errors import reraise_exception

        job = self.job
        dataset = get_train_dataset(
            str(job.storage),
            worker_config=WorkerConfig(
                rank=job.rank,
                world_size=job.world,
                num_workers=job.workers,
                seed_offset=job.shuffle_seed(epoch),
                global_error_handler=reraise_exception,
            ),
            batch_size=job.batch_size,
            batch_drop_last=job.drop_last,
            shuffle_buffer_size=SHUFFLE_BUFFER if job.shuffle else None,
            max_samples_per_sequence=SEQUENCE if job.shuffle else None,
            shuffle_over_epochs_multiplier=1 if job.shuffle else None,
            task_encoder=self.encoder,
            repeat=False,
        )
        self.savable = "checkpoint" in job.scenario.requirements(job.scenario.axes)
        make_loader = get_savable_loader if self.savable else get_loader
        self.loader: Any = make_loader(dataset, prefetch_factor=job.prefetch)
        self.batches: Iterator[Batch] = iter(())
        self.finished = True

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of tensors; the library shuffles every pass anew.

        An epoch that was left in its middle would go on there. A loader that saves states reads it
        to its end, since a state of a new loader's first epoch restores another order.
        """
        if not self.finished and self.savable:
            deque(self.batches, maxlen=0)
        elif not self.finished:
            self.close()
            self.start(epoch)
        self.encoder.work.epoch = epoch
        self.finished, self.batches = False, iter(self.loader)
        # `yield from` would end the library's iterator with this one.
        for batch in self.batches:  # noqa: UP028
            yield batch
        self.finished = True

    def state(self) -> bytes:
        """Return the state of the SavableDataLoader."""
        return pickle.dumps(self.loader.save_state_rank())

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Restore the loader's state, and iterate over the rest of the epoch."""
        self.loader.restore_state_rank(pickle.loads(state))  # noqa: S301 - what `state` made
        return self.epoch(epoch)

    def close(self) -> None:
        """End the workers."""
        end_workers(self.loader)


@adapter
class Energon(InDataLoader):
    """`megatron.energon` over a dataset that `energon prepare` indexed."""

    slug: ClassVar = "energon"
    name: ClassVar = "Energon"
    distribution: ClassVar = "megatron-energon"
    imports: ClassVar = "megatron.energon"
    requirements: ClassVar = ("megatron-energon",)
    homepage: ClassVar = "https://nvidia.github.io/Megatron-Energon"
    guide: ClassVar = "https://nvidia.github.io/Megatron-Energon/basic/data_prep.html"
    loader: ClassVar = EnergonLoader
    abilities: ClassVar = all_but(
        {
            **OF_STREAMS,
            "mix": "its shuffle buffer follows its blending: elements come again before others",
            "source:http": "shards are read from disk or from cloud stores, not over plain HTTP",
        }
    )
    shuffles: ClassVar = f"shards, buffer {SHUFFLE_BUFFER}"
    formats: ClassVar = ("indexed-tar",)
    short_batch_per_worker: ClassVar = 1

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write tar shards and let the library's own tool index them."""
        del format
        from megatron.energon.cli.main import main

        from skymark.suites.loading.dataset.tar import write_tar

        write_tar(dataset, directory)
        settings = "--non-interactive --no-progress --num-workers 1 --split-ratio 1,0,0"
        main(
            ["prepare", str(directory), *settings.split(), "--sample-type", "CrudeWebdataset"],
            standalone_mode=False,
        )
