"""The NumPy reference: a plain loop over the canonical data. The baseline of every table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.devices import Acceleration
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    import numpy as np

    from skymark.suites.loading.element_streams import Mixture
    from skymark.suites.loading.scenario import Batch


class NumpyLoader(Loader):
    """Read, transform, collate, one element after another, in the calling thread."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.reader = job.reader()
        self.delivered = 0

    def order(self, epoch: int) -> list[int]:
        """Return this rank's elements in this epoch's order."""
        import numpy as np

        job = self.job
        if (mixture := job.scenario.mixture) is not None:
            return self.mixed(mixture, np.random.default_rng(job.shuffle_seed(epoch)))
        indices = np.arange(len(job.dataset))
        if job.shuffle:
            np.random.default_rng(job.shuffle_seed(epoch)).shuffle(indices)
        order: list[int] = indices[job.rank :: job.world].tolist()
        return order

    def mixed(self, mixture: Mixture, random: np.random.Generator) -> list[int]:
        """Draw a source for each place, and fill its places with permutations of it."""
        import numpy as np

        source = random.choice(len(mixture.sizes), mixture.elements, p=mixture.weights)
        indices = np.empty(mixture.elements, np.int64)
        for number, (begin, end) in enumerate(mixture.bounds):
            places = np.flatnonzero(source == number)
            passes = -(-len(places) // (end - begin))
            drawn = [begin + random.permutation(end - begin) for _ in range(passes)]
            indices[places] = np.concatenate([*drawn, places[:0]])[: len(places)]
        mixed: list[int] = indices.tolist()
        return mixed

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        """Yield batches of NumPy arrays."""
        job, reader = self.job, self.reader
        order = self.order(epoch)[skip_batches * job.batch_size :]
        elements = (job.transform(reader[index], epoch) for index in order)
        self.delivered = skip_batches
        for batch in batches_of(elements, job):
            self.delivered += 1
            yield job.mix(batch, epoch)

    def state(self) -> bytes:
        """Return the number of batches delivered in this epoch."""
        return str(self.delivered).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Skip the batches delivered."""
        return self.epoch(epoch, skip_batches=int(state))


@adapter
class NumpyReference(Adapter):
    """The oracle's reference work as a loop in one thread."""

    slug: ClassVar = "numpy"
    name: ClassVar = "NumPy reference"
    distribution: ClassVar = "numpy"
    imports: ClassVar = "numpy"
    homepage: ClassVar = "https://numpy.org"
    guide: ClassVar = "https://numpy.org/doc/stable/user/absolute_beginners.html"
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
        "seek": "it draws a permutation of all indices, 8 bytes for each",
        "jax": "NumPy has no device arrays",
    }
    formats: ClassVar = ("canonical", "memory", "files", "tar", "parquet", "http")
    framework: ClassVar = "torch"
    framework_platforms: ClassVar = frozenset({"gpu"})
    acceleration: ClassVar = Acceleration(pins={"cuda12": "gpu", "cuda13": "gpu-cuda13"})

    def open(self, job: LoadingJob) -> Loader:
        """Return the loop."""
        return NumpyLoader(job)
