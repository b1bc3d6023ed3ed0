"""WebDataset: tar shards streamed by a pipeline in each worker of a WebLoader.

`workers` are processes, each with its own shards, and make whole batches. The library shuffles
shards, then elements in a buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    OF_STREAMS,
    InDataLoader,
    SharedWork,
    worker_settings,
    worker_share,
)
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch, Mixture

SHARD_BUFFER = 100
ELEMENT_BUFFER = 1000
"""Sizes of the shuffle buffers, as in the library's examples."""


class Stages(SharedWork):
    """The pipeline's stages."""

    def __init__(self, job: LoadingJob) -> None:
        from skymark.suites.loading.dataset.tar import Members

        super().__init__(job)
        self.members = Members(job.dataset.columns)

    def of_rank(self, shards: Iterable[Any]) -> Iterator[Any]:
        """Keep every world-th shard, as `webdataset.split_by_node` does under torchrun."""
        return islice(shards, self.job.rank, None, self.job.world)

    def shuffled(self, source: Iterable[Any], size: int, salt: int = 0) -> Iterable[Any]:
        """Shuffle in a buffer, by the seed of this epoch."""
        import webdataset

        seed = self.job.shuffle_seed(self.epoch) + salt
        shuffled: Iterable[Any] = webdataset.shuffle(size, seed=seed)(iter(source))
        return shuffled if self.job.shuffle else source

    def of_sample(self, sample: dict[str, Any]) -> Element:
        """Turn the members of one key into an element, and apply the scenario's work."""
        return self.transformed(self.members.read(sample["__key__"], sample))

    def mixed(self, batch: Batch) -> Batch:
        """Apply the scenario's batch-level work."""
        return self.job.mix(batch, self.epoch)


class MixedSources:
    """A worker's share of an epoch's stream of undecoded elements, mixed by `RandomMix`.

    Every worker has the same number of shards of each source (`WebDataset.cannot_share`).
    """

    def __init__(self, stages: Stages, mixture: Mixture, shards: list[str]) -> None:
        from skymark.suites.loading.dataset.tar import SHARD_ELEMENTS

        self.stages = stages
        self.mixture = mixture
        edges = [[place // SHARD_ELEMENTS for place in bounds] for bounds in mixture.bounds]
        self.sources = [shards[begin:end] for begin, end in edges]

    def __call__(self) -> Iterator[Any]:
        """Start the share of the current epoch, as a pipeline's first stage."""
        import random

        import webdataset as wds

        number, workers = worker_share()
        job, mixture = self.stages.job, self.mixture
        # `RandomMix` draws from Python's own generator.
        random.seed(f"{job.shuffle_seed(self.stages.epoch)} {number}")
        share = mixture.share(number, workers, job.batch_size)
        stream = wds.RandomMix([self.repeated(one) for one in self.sources], mixture.weights)
        return islice(iter(stream), share)

    def repeated(self, shards: list[str]) -> Iterator[Any]:
        """Go through this worker's shards of a source without end, in another order each time."""
        import webdataset as wds

        for number in count():
            yield from wds.DataPipeline(
                wds.SimpleShardList(shards),
                partial(self.stages.shuffled, size=SHARD_BUFFER, salt=number),
                wds.split_by_worker,
                wds.tarfile_to_samples(),
                partial(self.stages.shuffled, size=ELEMENT_BUFFER, salt=number),
            )


class WebDatasetLoader(Loader):
    """One WebLoader over one DataPipeline; batches are made where the shards are read."""

    def __init__(self, job: LoadingJob) -> None:
        import webdataset as wds

        names = [path.name for path in sorted(job.storage.glob("*.tar"))]
        shards = [f"{job.root}/{name}" for name in names]
        self.stages = stages = Stages(job)
        batched = wds.batched(job.batch_size, collation_fn=job.collate, partial=not job.drop_last)
        undecoded = [
            wds.SimpleShardList(shards),
            # Alike on every worker and rank, before they are shared out.
            partial(stages.shuffled, size=SHARD_BUFFER),
            stages.of_rank,
            wds.split_by_worker,
            wds.tarfile_to_samples(),
            partial(stages.shuffled, size=ELEMENT_BUFFER),
        ]
        if (mixture := job.scenario.mixture) is not None:
            undecoded = [MixedSources(stages, mixture, shards)]
        pipeline = wds.DataPipeline(
            *undecoded,
            wds.map(stages.of_sample),
            partial(batches_of, job=job) if job.scenario.bucket_boundaries else batched,
            wds.map(stages.mixed) if job.scenario.mixes else None,
        )
        self.loader = wds.WebLoader(pipeline, batch_size=None, **worker_settings(job))

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors."""
        self.stages.epoch = epoch
        return iter(self.loader)

    def close(self) -> None:
        """Drop the loader, which ends its workers."""
        self.loader.close()


@adapter
class WebDataset(InDataLoader):
    """`webdataset.DataPipeline` over tar shards, local or over HTTP."""

    slug: ClassVar = "webdataset"
    name: ClassVar = "WebDataset"
    distribution: ClassVar = "webdataset"
    imports: ClassVar = "webdataset"
    requirements: ClassVar = ("webdataset", "torch")
    homepage: ClassVar = "https://webdataset.github.io/webdataset"
    guide: ClassVar = "https://webdataset.github.io/webdataset/sharding/"
    loader: ClassVar = WebDatasetLoader
    abilities: ClassVar = all_but(
        {
            **OF_STREAMS,
            "checkpoint": "a pipeline has no state to save",
        }
    )
    shuffles: ClassVar = f"shards, buffer {ELEMENT_BUFFER}"
    mixing: ClassVar = "worker draws"
    formats: ClassVar = ("tar", "http-tar")
    short_batch_per_worker: ClassVar = 1

    @classmethod
    def cannot_share(cls, scenario: Scenario, workers: int) -> str | None:
        """Return which source of a mixture workers would go through in uneven shares."""
        if workers < 2 or (mixture := scenario.mixture) is None:
            return None
        from skymark.suites.loading.dataset.tar import SHARD_ELEMENTS

        for number, elements in enumerate(mixture.sizes):
            shards = elements // SHARD_ELEMENTS
            if shards % workers:
                return (
                    f"{shards} shards of source {number} cannot be shared evenly between {workers} "
                    "workers: some would go through it more often"
                )
        return None
