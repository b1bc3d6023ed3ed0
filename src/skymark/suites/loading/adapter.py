"""Adapters: the base classes of data-loading libraries, and of the loaders that they open.

An adapter is one class in one file. Its body states what the library can do (`abilities`), which
storage it reads (`formats`, the recommended one first) and where it has operators of its own
(`native`). `convert` writes a dataset in the library's own format; `open` returns a `Loader`.
The library itself is imported inside the methods, never at the top of the file.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

from skymark.model.errors import UsageError
from skymark.model.machine import Platform
from skymark.model.record import Setting
from skymark.suites.loading.devices import HOST_ONLY, Acceleration
from skymark.suites.loading.storage_formats import HTTP, format_of_source, sources_of
from skymark.suites.loading.work import Caches, Mixing

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.dataset.files import Reader
    from skymark.suites.loading.delivery.framework import FrameworkName
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch

ABILITIES: Mapping[str, str] = {
    "map": "apply a Python function to every element, or do the scenario's work natively",
    "shuffle": "shuffle globally or in a buffer, from a seed",
    "seeded": "give the same stream for the same seed",
    "worker-invariant": "give the same stream whatever the number of workers",
    "batch-map": "apply a function to whole batches",
    "variable-length": "collate elements of different lengths",
    "pack": "make batches of another number of rows than elements",
    "bucket": "batch elements of similar length together",
    "mix": "mix sources by weight into one stream, each gone through again and again",
    "shard": "share a dataset between ranks, every element once over all ranks",
    "checkpoint": "save the position in the middle of an epoch and continue in another process",
    "seek": "start a shuffled epoch at any batch, without a list of its elements",
    "stream": "deliver the first batch without reading all data first",
    "eager": "load everything before the first batch",
    "jax": "place batches on a JAX device mesh",
    "source:memory": "read elements from memory",
    "source:files": "read elements from one local file each",
    "source:tar": "read elements from tar shards",
    "source:columnar": "read elements from columnar files",
    "source:http": "read elements from object storage over HTTP",
}


class Abilities(frozenset[str]):
    """Names of abilities that a library has, with the reasons for some that it lacks."""

    reasons: Mapping[str, str]

    def __new__(cls, names: Iterable[str], reasons: Mapping[str, str]) -> Self:
        """Return names of abilities."""
        able = super().__new__(cls, names)
        able.reasons = reasons
        return able


def all_but(reasons: Mapping[str, str]) -> Abilities:
    """Return all abilities except these, which come with the reason for their absence.

    Sources (``source:…``) are not included, because they follow from an adapter's `formats`.
    """
    able = (name for name in ABILITIES if name not in reasons and ":" not in name)
    return Abilities(able, reasons)


OTHER_IMAGES = "measure other loaders, or convert these images"
"""Next step if a loader does not decode some of the images."""

SHUFFLE = re.compile(r"global|shards|(shards, )?buffer [1-9]\d*")
"""Kinds of shuffle; see `Adapter.shuffles`."""


Model = Literal["processes", "threads"]
"""Kind of workers: processes, each with an interpreter of its own, or threads of one."""


class Execution(NamedTuple):
    """Workers of a job, in the record's words: ``8 processes``, or ``the calling thread``."""

    model: Model = "threads"
    workers: int = 0
    note: str = ""
    """More about them, such as ``in a process of their own``."""

    def __str__(self) -> str:
        if not self.workers:
            return "the calling thread"
        model = {"processes": "process", "threads": "thread"}[self.model]
        named = f"1 {model}" if self.workers == 1 else f"{self.workers} {self.model}"
        return f"{named} {self.note}".rstrip()


@dataclass(frozen=True)
class LoadingJob:
    """The work, data and settings of one loader. Picklable, for worker processes.

    `job.transform(element, epoch)` is the per-element work, `job.collate(elements)` makes a batch
    of transformed elements, `job.read` gives raw elements by index from the chosen storage.
    """

    scenario: Scenario
    dataset: Dataset
    """The canonical dataset (memory-mapped). `len(job.dataset)` is the number of elements."""
    storage: Path
    """Directory of the data in `format`."""
    format: str
    batch_size: int
    seed: int = 0
    workers: int = 2
    """Worker processes or threads, as the library has them; 0 means in the calling thread."""
    prefetch: int = 2
    """Batches to hold ready, per worker where the library counts so."""
    shuffle: bool = True
    drop_last: bool = False
    rank: int = 0
    world: int = 1
    deliver: Literal["host", "device"] = "host"
    """Destination of a batch: host memory or the device; its wait ends there."""
    copies_ahead: bool = True
    """Whether to copy the next batch to the device while one is in use."""
    platform: Platform = "cpu"
    """Platform of the machine; on a GPU, libraries use the GPU if they can."""
    options: Mapping[str, Setting] = field(default_factory=dict)
    """Settings that only this adapter knows, given as ``--set NAME=VALUE``."""

    def with_seed(self, seed: int) -> LoadingJob:
        """Return the job with another seed, of its scenario, too."""
        return replace(self, seed=seed, scenario=replace(self.scenario, seed=seed))

    @property
    def root(self) -> str:
        """The folder of `storage`, or its address on the object server."""
        if self.format not in HTTP:
            return str(self.storage)
        from skymark.suites.loading.dataset.objects import object_url

        return object_url()

    @property
    def page_locks(self) -> bool:
        """Whether batches go to a GPU, so that PyTorch's loaders should page-lock them."""
        return self.deliver == "device" and self.platform == "gpu"

    def transform(self, element: Element, epoch: int) -> Element:
        """Apply the scenario's reference work to one raw element ``{index, columns…}``."""
        return self.scenario.transform(element, epoch)

    def collate(self, elements: list[Element]) -> Batch:
        """Make a batch of transformed elements: NumPy arrays ``[B, ...]`` by field."""
        return self.scenario.collate(elements)

    def mix(self, batch: Batch, epoch: int) -> Batch:
        """Apply the scenario's batch-level work; identity for most scenarios."""
        return self.scenario.mix(batch, epoch)

    def choice(self, option: str, *values: str) -> str:
        """Return an option with few values; the default is the first value.

        Raises:
            UsageError: it is set to something else.
        """
        value = str(self.options.get(option, values[0]))
        if value not in values:
            raise UsageError(f"{option}={value!r} does not exist; choose from {', '.join(values)}")
        return value

    def shuffle_seed(self, epoch: int) -> int:
        """Return the 31-bit seed for the library's own shuffle in this epoch."""
        from skymark.suites.loading.random import derived_seed

        return derived_seed(self.seed, epoch)

    def order(self, epoch: int) -> Array:
        """Return this rank's elements in an epoch's order, int64 ``[n]``, as NumPy shuffles them.

        It depends on seed and epoch alone. Several sources are mixed by their weights.
        """
        import numpy as np

        random = np.random.default_rng(self.shuffle_seed(epoch))
        if (mixture := self.scenario.mixture) is not None:
            mixed: Array = mixture.draw(random)
            return mixed
        order = np.arange(len(self.dataset))
        if self.shuffle:
            random.shuffle(order)
        return order[self.rank :: self.world]

    def index_batches(self, epoch: int) -> list[list[int]]:
        """Return the elements of each batch of `order`; `drop_last` drops a short one."""
        order, size = self.order(epoch).tolist(), self.batch_size
        end = len(order) - len(order) % size if self.drop_last else len(order)
        return [order[start : min(start + size, end)] for start in range(0, end, size)]

    def reader(self) -> Reader:
        """Open random access to the raw elements in a shared storage format."""
        from skymark.suites.loading.dataset.formats import open_reader

        return open_reader(self.format, self.storage, self.dataset)


class Loader(ABC):
    """An open loader. Made once per cell and process; `epoch` is called for each pass."""

    worked_on: str | None = None
    """The device that batches are made on, such as ``gpu:0``, where they come from it to another
    place; None where they are made where they are delivered."""

    @abstractmethod
    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Start one pass over the data and return its batches.

        Worker pools should live on from one epoch to the next where the library can do that.
        """

    def ready(self, batch: Batch) -> None:
        """Block until the batch can be used; override for libraries that compute lazily."""

    def state(self) -> bytes:
        """Return the position after the latest batch delivered (ability ``checkpoint``)."""
        raise NotImplementedError

    def will_be_saved(self, batches: int) -> None:
        """Prepare for a call of `state` after this number of batches of the next pass.

        Override in a loader that takes batches from another loader ahead.
        """

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Continue an epoch from a position, in a new process (ability ``checkpoint``)."""
        raise NotImplementedError

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Start an epoch after its first `batches`, without delivering these (ability ``seek``)."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop every worker and close every file. Called once."""


class SkippingLoader(Loader):
    """A loader whose position is the number of batches delivered, which a resumed epoch skips."""

    delivered = 0

    @abstractmethod
    def after(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Return the batches of an epoch after its first `batches`."""

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, or those after its first ones."""
        self.delivered = skip_batches
        for batch in self.after(epoch, skip_batches):
            self.delivered += 1
            yield batch

    def state(self) -> bytes:
        """Return the number of the epoch's delivered batches."""
        return b"%d" % self.delivered

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Skip the batches delivered."""
        return self.epoch(epoch, int(state))


class Adapter:
    """A data-loading library, as its documentation recommends to use it."""

    slug: ClassVar[str]
    name: ClassVar[str]
    """The library's name as it writes it."""
    distribution: ClassVar[str]
    """The package whose version counts, as the registry calls it."""
    imports: ClassVar[str]
    """The module to import; timed as `import_s`."""
    homepage: ClassVar[str] = ""
    guide: ClassVar[str] = ""
    """The page of the library's own documentation that the adapter's settings follow."""
    loader: ClassVar[type[Loader]]
    """The class that `open` makes a loader of, given the job."""
    abilities: ClassVar[frozenset[str]] = frozenset()
    """Names of `ABILITIES`; `all_but` says why it lacks some, for the `unsupported` record. Kinds
    of sources follow from `formats`."""
    formats: ClassVar[tuple[str, ...]] = ("canonical",)
    """Storage formats it reads, the recommended one first."""
    media_formats: ClassVar[frozenset[str]] = frozenset({"files"})
    """Formats that are recommended for encoded media (images, sounds), not for rows of numbers."""
    options: ClassVar[Mapping[str, str]] = {}
    """Settings that only this adapter reads from `LoadingJob.options`: name to description."""
    native: ClassVar[frozenset[str]] = frozenset()
    """Scenario ids whose work is done by the library's own operators."""
    decodes: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Scenario ids whose images its own decoder decodes, each with the kinds of images
    (`skymark.image_formats.image_kind`) of which it gives the reference's pixels."""
    native_only: ClassVar[str] = ""
    """Reason why only `native` scenarios are measured, for the `unsupported` record; empty if the
    adapter also does the reference's work."""
    short_batch_per_worker: ClassVar[int] = 0
    """Short batches that each worker may deliver at the end of its own share of the data."""
    shuffles: ClassVar[str] = "global"
    """The kind of its shuffle: ``global``, ``shards``, ``buffer K`` (elements in it), or ``shards,
    buffer K``. The oracle measures it."""
    mixing: ClassVar[Mixing] = "draws"
    """How it picks the source of the next element where it mixes several (ability ``mix``): at
    random (``draws``), so in each worker by itself (``worker draws``), or by an exact
    ``schedule``."""
    caches: ClassVar[Caches] = "nothing"
    """The work of one epoch that it keeps for the next, by its own design. The oracle rejects
    loaders that keep more. Such records are only compared with one another."""
    works_ahead: ClassVar[Literal["queues", "epoch"]] = "queues"
    """Limit of the batches made before an epoch's first batch arrives: ``workers`` × ``prefetch``
    (``queues``), or as much of the ``epoch`` as memory holds. Then an epoch has no stream of its
    own, and rates and waits are of whole epochs."""
    media_only: ClassVar[str] = ""
    """Reason why only scenarios of encoded media are measured, for the `unsupported` record; empty
    if rows of numbers are, too."""
    runs_in: ClassVar[tuple[Model, ...]] = ()
    """Possible kinds of its workers; see `execution`. Empty without workers: the calling thread
    does the work."""
    shared_venv: ClassVar[str] = ""
    """Slug of the adapter whose venv it runs in; empty if it has its own."""
    requirements: ClassVar[tuple[str, ...]] = ()
    """Packages to install in addition to every worker's packages, such as ``("torch>=2.5",)``."""
    version: ClassVar[int] = 1
    """Raise when the adapter's code changes what is measured, so old records are not reused."""
    variables: ClassVar[Mapping[str, str]] = {}
    """Environment variables of the worker, set before the library is imported."""
    forks: ClassVar[bool] = True
    """Whether to fork each round from a process that has imported the library. A process that has
    started threads or processes, or has opened a device, is never forked."""
    framework: ClassVar[FrameworkName | None] = None
    """The framework of its venv that puts its batches on an accelerator, such as ``torch``."""
    framework_platforms: ClassVar[frozenset[Platform]] = frozenset({"cpu", "gpu", "tpu"})
    """The platforms for which its venv has that framework."""
    acceleration: ClassVar[Acceleration] = HOST_ONLY
    """How it sees accelerators, and its builds for them."""
    python: ClassVar[str | None] = None
    """A Python version the library needs, such as ``3.12``, if it does not support the running
    one."""
    install_hint: ClassVar[str] = ""
    """The command that installs it, if no registry package does."""

    @classmethod
    def import_library(cls) -> None:
        """Import the library; override if it needs more than its package.

        Raises:
            ModuleNotFoundError: its package is not installed.
            LibraryAbsentError: another requirement is missing.
        """
        importlib.import_module(cls.imports)

    @classmethod
    def format_for(cls, scenario: type[Scenario], axes: Mapping[str, Setting]) -> str:
        """Return the storage format for a cell.

        A scenario may ask for a kind of source; else it is the recommended one.
        """
        if (source := scenario.source(axes)) is not None:
            return format_of_source(source, cls.formats)
        not_for_rows = frozenset() if scenario.encoded_media else cls.media_formats
        return next(format for format in cls.formats if format not in not_for_rows)

    @classmethod
    def lacks(cls, needs: Iterable[str]) -> list[str]:
        """Return the reason for each of the abilities needed that the library lacks."""
        reasons = getattr(cls.abilities, "reasons", {})
        read = f"it reads {', '.join(cls.formats)}"
        lacking = sorted({*needs} - cls.abilities - sources_of(cls.formats))
        return [
            reasons.get(name)
            or f"{cls.name} does not {ABILITIES[name]}{f'; {read}' if ':' in name else ''}"
            for name in lacking
        ]

    @classmethod
    def variables_on(cls, platform: Platform) -> dict[str, str]:
        """Return the environment variables of a worker on a platform."""
        return {**cls.variables, **cls.acceleration.variables.get(platform, {})}

    @classmethod
    def framework_on(cls, platform: Platform) -> FrameworkName | None:
        """Return the framework that its venv has for a platform; None for none."""
        return cls.framework if platform in cls.framework_platforms else None

    @classmethod
    def cannot_share(cls, scenario: Scenario, workers: int) -> str | None:
        """Return the reason why this number of workers cannot share a scenario's data, if any.

        Planning calls it, and marks the cell as `unsupported` before anything is measured.
        """
        del scenario, workers
        return None

    @classmethod
    def undecoded(cls, scenario: str, kinds: Collection[str]) -> str | None:
        """Return the reason to refuse data with images of these kinds; None without one."""
        wrong = sorted(set(kinds) - cls.decodes.get(scenario, frozenset(kinds)))
        if not wrong:
            return None
        return (
            f"the data has images of the kind {', '.join(wrong)}, which {cls.name} does not decode "
            "as the reference does"
        )

    @classmethod
    def model(cls, scenario: Scenario) -> Model | None:
        """Return the kind of its workers for a scenario; None without workers.

        If `runs_in` has both kinds, the library uses processes when Python's work holds the
        interpreter's lock (`Scenario.holds_lock`), and threads when the work is small or its own
        operators do it.
        """
        if len(cls.runs_in) < 2:
            return next(iter(cls.runs_in), None)
        in_python = scenario.holds_lock and scenario.id not in cls.native
        return "processes" if in_python else "threads"

    def execution(self, job: LoadingJob) -> Execution:
        """Return the workers that make a job's batches, for the record.

        See `model`. Override if options or formats decide.
        """
        model = self.model(job.scenario)
        return Execution() if model is None or not job.workers else Execution(model, job.workers)

    @classmethod
    def code(cls, workers: int, prefetch: int, *, in_threads: bool) -> str:
        """Return the lines of a user's program that set workers and prefetched batches.

        Args:
            workers: processes or threads; 0 for none.
            prefetch: batches to prepare in advance, per worker where the library counts so.
            in_threads: whether the workers are threads.

        Returns:
            Source code, to be shown by ``skymark tune``; empty where none is known.
        """
        del workers, prefetch, in_threads
        return ""

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return the kind of shuffle of a job; override if format or options change it."""
        del job
        return self.shuffles

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write a dataset in one of the library's own `formats`.

        skymark itself writes shared formats (`skymark.suites.loading.dataset.formats`).
        """
        raise NotImplementedError(f"{self.slug} has no format {format!r}")

    def open(self, job: LoadingJob) -> Loader:
        """Return a loader for the job. Reading must not start before `Loader.epoch`."""
        make: Callable[[LoadingJob], Loader] = self.loader
        return make(job)

    def delivering(self, loader: Loader, job: LoadingJob) -> Loader | None:
        """Return a loader that puts `loader`'s batches on the accelerator in the library's own way.

        Only called for adapters with a `framework`. None, the default, for the framework's own way:
        it copies the fields of every batch and waits for them; ``index`` and text stay on the host.
        """
        del loader, job
        return None

    def close(self) -> None:
        """Free resources that outlive a loader, such as a cluster. Called once, at the end."""


ADAPTERS: dict[str, type[Adapter]] = {}


def adapter(cls: type[Adapter]) -> type[Adapter]:
    """Register an adapter class under its slug.

    Raises:
        UsageError: another class has the slug, or an ability does not exist.
    """
    if ADAPTERS.get(cls.slug, cls) is not cls:
        raise UsageError(
            f"adapter slug {cls.slug!r} is taken by {ADAPTERS[cls.slug].__module__}; "
            "choose another slug"
        )
    if unknown := {*cls.abilities, *getattr(cls.abilities, "reasons", ())} - set(ABILITIES):
        raise UsageError(f"adapter {cls.slug!r} names unknown abilities {sorted(unknown)}")
    if not SHUFFLE.fullmatch(cls.shuffles):
        raise UsageError(
            f"adapter {cls.slug!r} shuffles {cls.shuffles!r}; write global, shards, buffer K or "
            "shards, buffer K"
        )
    ADAPTERS[cls.slug] = cls
    return cls
