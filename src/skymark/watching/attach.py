"""Hooks on the libraries of a program: they are set when a module is imported, or is there already.

Without a watch and with one a program runs alike, so a hook that fails at a library's version is
dropped.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, FunctionType, GeneratorType, ModuleType, SimpleNamespace
from typing import Any, Callable

from skymark.watching.recorder import FUNCTION, LOOP, Epoch, Recorder, recorder
from skymark.watching.sampler import LIBRARIES
from skymark.watching.stages import FETCH, SAMPLE, StageClock

Hook = Callable[[Any], None]
"""Changes a module after its import."""
FIRST_IN_DETAIL = 2
EVERY_IN_DETAIL = 16
DETAIL_NS = 50_000
"""Mean duration of samples from which the watch times each; else it times every 16th batch."""


class _AfterImport(Loader):
    """A module's loader that sets a hook after it."""

    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the module's own loader makes."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, give it its own loader again, and set the hook."""
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        _try(self._hook, module)


class _Finder(MetaPathFinder):
    """Finds the modules that have a hook, by the finders after this one."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._hooks = dict(hooks)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module's spec with the hook, once."""
        hook = self._hooks.pop(name, None)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _AfterImport(spec.loader, hook)
                return spec
        return None


def _try(hook: Hook, module: ModuleType) -> None:
    with suppress(Exception):  # an unknown version of the library is not watched
        hook(module)


def attach() -> None:
    """Set the hooks of all known libraries, now or at their import. A second call does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    later = {}
    for name, hook in HOOKS.items():
        if name in sys.modules:
            _try(hook, sys.modules[name])
        else:
            later[name] = hook
    sys.meta_path.insert(0, _Finder(later))


@contextmanager
def made_for(epoch: Epoch) -> Iterator[None]:
    """Tell processes that are started meanwhile for which loop they work."""
    before = os.environ.get(LOOP)
    os.environ[LOOP] = str(epoch.loop.number)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(LOOP, None)
        else:
            os.environ[LOOP] = before


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Wrap a function of a class or module, if there is such a function."""
    original = owner.__dict__.get(name)
    if original is None:
        return
    if isinstance(original, (staticmethod, classmethod)):
        setattr(owner, name, type(original)(make(original.__func__)))
    elif isinstance(original, BuiltinFunctionType):  # which no instance is passed to
        setattr(owner, name, staticmethod(make(original)))
    else:
        setattr(owner, name, make(original))


def _staged(
    owner: Any, stage: str, *names: str, does: Callable[[Any], Any] = lambda _: True
) -> None:
    """Let functions of a class or module count as a stage, in watched processes.

    Args:
        owner: class or module.
        stage: that they are.
        names: of the functions.
        does: tells of a call's first value whether the call has anything to do.
    """

    def make(original: Any) -> Any:
        @wraps(original)
        def counted(*values: Any, **named: Any) -> Any:
            watch = recorder()
            if watch is None or watch.is_over or (values and not does(values[0])):
                return original(*values, **named)
            entry = watch.clock.enter()
            try:
                return original(*values, **named)
            finally:
                watch.clock.leave(stage, entry)

        return counted

    for name in names:
        _replace(owner, name, make)


# PyTorch


def _hook_torch_loader(module: ModuleType) -> None:
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter  # noqa: SLF001

    def make_iter(original: Any) -> Any:
        @wraps(original)
        def __iter__(self: Any) -> Any:  # noqa: N807  # the name that tracebacks show
            watch = recorder()
            if watch is None or watch.is_over or watch.is_inside:
                return original(self)
            epoch = watch.begin("torch", self.dataset, torch_settings(self), self)
            with made_for(epoch):
                made = original(self)
            made._skymark_epoch = epoch  # noqa: SLF001
            return made

        return __iter__

    _replace(loader, "__iter__", make_iter)
    _replace(iterator, "__next__", _counting)


def settings_of(loader: Any) -> tuple[str, dict[str, Any]]:
    """Return the library of a loader and its settings."""
    for base in type(loader).__mro__:
        for prefix, library in LIBRARY_BY_MODULE.items():
            if base.__module__ == prefix or base.__module__.startswith(f"{prefix}."):
                return library, torch_settings(loader) if library == "torch" else {}
    return "plain", {}


def torch_settings(loader: Any) -> dict[str, Any]:
    """Return the settings of a `DataLoader` that decide its speed."""
    names = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "in_order")
    settings = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    settings["batch_size"] = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    return {name: value for name, value in settings.items() if isinstance(value, (int, bool))}


class _Samples:
    """A map-style data set whose samples are timed; the fetcher alone sees it."""

    def __init__(self, dataset: Any, clock: StageClock) -> None:
        self._dataset = dataset
        self._clock = clock

    def __getitem__(self, index: Any) -> Any:
        entry = self._clock.enter()
        try:
            return self._dataset[index]
        finally:
            self._clock.remember(self._clock.leave(SAMPLE, entry), index)

    @property
    def __getitems__(self) -> Any:
        together = getattr(self._dataset, "__getitems__", None)
        return together and self._several

    def _several(self, indices: Any) -> Any:
        entry = self._clock.enter()
        try:
            return self._dataset.__getitems__(indices)
        finally:
            self._clock.leave(SAMPLE, entry, max(len(indices), 1))


class _SampleIterator:
    """An iterator whose samples are timed."""

    def __init__(self, iterator: Any, clock: StageClock) -> None:
        self._iterator = iterator
        self._clock = clock
        self._count = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        entry = self._clock.enter()
        try:
            return next(self._iterator)
        finally:
            self._clock.remember(self._clock.leave(SAMPLE, entry), f"sample {self._count}")
            self._count += 1


class _Fetching:
    """The stages of one fetcher of PyTorch: data set and collate function."""

    def __init__(self, fetcher: Any, watch: Recorder) -> None:
        self._field = "dataset_iter" if "dataset_iter" in fetcher.__dict__ else "dataset"
        self._plain = getattr(fetcher, self._field)
        timed = _SampleIterator if self._field == "dataset_iter" else _Samples
        self._timed = timed(self._plain, watch.clock)
        self._batches = 0
        fetcher.collate_fn = watch.clock.timed("collate", fetcher.collate_fn)

    def fetch(self, fetcher: Any, original: Any, index: Any, watch: Recorder) -> Any:
        """Return a batch. The samples are timed where that costs little beside them."""
        clock = watch.clock
        sample = clock.stages.get(SAMPLE)
        in_detail = (
            self._batches < FIRST_IN_DETAIL
            or self._batches % EVERY_IN_DETAIL == 0
            or sample is None
            or sample.whole_ns > DETAIL_NS * sample.calls
        )
        self._batches += 1
        setattr(fetcher, self._field, self._timed if in_detail else self._plain)
        entry = clock.enter()
        try:
            return original(fetcher, index)
        finally:
            clock.leave(FETCH, entry)
            watch.changed()


def _hook_torch_fetch(module: ModuleType) -> None:
    def make(original: Any) -> Any:
        @wraps(original)
        def fetch(self: Any, index: Any) -> Any:
            watch = recorder()
            if watch is None or watch.is_over:
                return original(self, index)
            watch.wake()
            fetching = self.__dict__.get("_skymark_fetching")
            if fetching is None:
                fetching = self._skymark_fetching = _Fetching(self, watch)
            return fetching.fetch(self, original, index, watch)

        return fetch

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        _replace(getattr(module, name), "fetch", make)


# Iterators of other libraries


def _iterated(library: str, name: str, *methods: str) -> Hook:
    """Return a hook that counts the iterators which a class's methods return.

    In a worker nothing is counted: its iterators serve the loop of another process.
    """

    def make(original: Any) -> Any:
        @wraps(original)
        def iterate(self: Any, *values: Any, **named: Any) -> Any:
            watch = recorder()
            if watch is None or watch.is_over or watch.is_inside or watch.made_for is not None:
                return original(self, *values, **named)
            settings = tf_settings(self) if library == "tf.data" else {}
            epoch = watch.begin(library, self, settings)
            with watch.within(), made_for(epoch):
                made = original(self, *values, **named)
            return _counted(watch, epoch, made)

        return iterate

    def hook(module: Any) -> None:
        for method in methods or ("__iter__",):
            _replace(getattr(module, name), method, make)

    return hook


def _hook_grain(module: ModuleType) -> None:
    """Count the iterators of Grain's data sets, whose classes each have their own `__iter__`."""
    for name in ("MapDataset", "IterDataset"):
        base = getattr(module, name)
        _iterated("grain", name)(module)
        base.__init_subclass__ = classmethod(_hooked_subclass(base))


def _hooked_subclass(base: Any) -> Any:
    own = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: Any, **named: Any) -> None:  # noqa: N807
        if own is not None:
            own.__func__(cls, **named)
        else:
            super(base, cls).__init_subclass__(**named)
        _iterated("grain", cls.__name__)(SimpleNamespace(**{cls.__name__: cls}))

    return __init_subclass__


def _counted(watch: Recorder, epoch: Epoch, made: Any) -> Any:
    """Return an iterator of the same type that counts."""
    if isinstance(made, GeneratorType):
        return _generated(watch, epoch, made)
    kind = type(made)
    if not hasattr(kind, "__next__"):
        return made
    if not hasattr(kind.__next__, "_skymark"):
        kind.__next__ = _counting(kind.__next__)
    made._skymark_epoch = epoch  # noqa: SLF001
    return made


def _counting(original: Any) -> Any:
    @wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        watch = recorder()
        epoch = self.__dict__.get("_skymark_epoch")
        if watch is None or epoch is None:
            return original(self)
        return watch.next(epoch, original, self)

    __next__._skymark = True  # type: ignore[attr-defined]  # noqa: SLF001
    return __next__


def _generated(watch: Recorder, epoch: Epoch, made: Any) -> Iterator[Any]:
    while True:
        try:
            element = watch.next(epoch, next, made)
        except StopIteration:
            return
        yield element


OPERATIONS = (
    ("Decode", "decode"),
    ("ReadFile", "read"),
    ("PyFunc", "transform"),
    ("Resize", "transform"),
)
"""Beginnings or parts of the names of TensorFlow's operations, with their stages."""


def tf_settings(dataset: Any) -> dict[str, Any]:
    """Return the stages of a tf.data pipeline by its operations, and its serial maps."""
    stages: list[str] = []
    settings: dict[str, Any] = {"serial_maps": 0, "prefetch": False}
    with suppress(Exception):  # private fields of another version
        current = dataset
        while current is not None:
            kind = type(current).__name__
            settings["prefetch"] = settings["prefetch"] or "Prefetch" in kind
            settings["serial_maps"] += kind == "_MapDataset"
            function = getattr(current, "_map_func", None)
            if function is not None:
                names = [operation.type for operation in function.function.graph.get_operations()]
                stages += [s for part, s in OPERATIONS if any(part in name for name in names)]
            current = getattr(current, "_input_dataset", None)
    return {**settings, "stages": sorted(set(stages))}


# Functions of the program that make batches


MAKES_BATCH = re.compile(r"^_?(get|next|load|fetch|sample|draw|read)_(\w+_)?batch$")
"""Names of functions that make a batch at each call, in programs without a loader."""
NO_FUNCTION = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of generators and coroutines."""


def _hook_training(_: ModuleType) -> None:
    """Look for functions that make batches in a program that may train, until a loader is seen."""
    watch = recorder()
    if watch is not None and watch.made_for is None and not watch.is_awake:
        watch.seek = _count_functions
        watch.wake()


def _count_functions() -> None:
    """Count the calls of the functions that make batches, in the program's own file."""
    module = sys.modules.get("__main__")
    for name, value in list(vars(module).items()):
        if _makes_batches(name, value):
            setattr(module, name, _counted_function(value))
        elif isinstance(value, type):
            for own, method in list(vars(value).items()):
                if _makes_batches(own, method):
                    setattr(value, own, _counted_function(method))


def _makes_batches(name: str, value: Any) -> bool:
    """Tell whether a value is a function of the user's that makes a batch at each call."""
    return (
        MAKES_BATCH.match(name) is not None
        and isinstance(value, FunctionType)
        and not hasattr(value, "_skymark")
        and not value.__code__.co_flags & NO_FUNCTION
        and not LIBRARIES.search(value.__code__.co_filename)
    )


def _counted_function(original: Any) -> Any:
    epochs: list[Epoch] = []

    @wraps(original)
    def counted(*values: Any, **named: Any) -> Any:
        watch = recorder()
        if watch is None or watch.is_over or watch.has_loaders:
            return original(*values, **named)
        if not epochs:
            epochs.append(watch.begin(FUNCTION, original, {}))
        return watch.next(epochs[0], partial(original, **named), *values)

    counted._skymark = True  # type: ignore[attr-defined]  # noqa: SLF001
    return counted


# Stages in other libraries


def _on(stage: str, *names: str, owner: str = "") -> Hook:
    """Return a hook that lets functions of a module, or of a class in it, count as a stage."""

    def hook(module: Any) -> None:
        _staged(getattr(module, owner) if owner else module, stage, *names)

    return hook


def _hook_pillow(module: Any) -> None:
    """Count the decoding of images, which `load` does at its first call alone."""
    _staged(module.ImageFile, "decode", "load", does=lambda image: image.tile)


LIBRARY_BY_MODULE = {
    "torch.utils.data": "torch",
    "tensorflow": "tf.data",
    "grain": "grain",
    "datasets": "datasets",
    "webdataset": "webdataset",
    "litdata": "litdata",
    "ray": "ray",
}
HOOKS: dict[str, Hook] = {
    "torch.utils.data.dataloader": _hook_torch_loader,
    "torch.utils.data._utils.fetch": _hook_torch_fetch,
    "tensorflow.python.data.ops.dataset_ops": _iterated("tf.data", "DatasetV2"),
    "grain._src.python.data_loader": _iterated("grain", "DataLoader"),
    "grain._src.python.dataset.dataset": _hook_grain,
    "datasets.arrow_dataset": _iterated("datasets", "Dataset", "__iter__", "iter"),
    "datasets.iterable_dataset": _iterated("datasets", "IterableDataset", "__iter__", "iter"),
    "webdataset.pipeline": _iterated("webdataset", "DataPipeline"),
    "litdata.streaming.dataset": _iterated("litdata", "StreamingDataset"),
    "ray.data.iterator": _iterated("ray", "_IterableFromIterator"),
    "torch.optim.optimizer": _hook_training,
    "jax": _hook_training,
    "multiprocessing.reduction": _on("hand-over", "dumps", "loads", owner="ForkingPickler"),
    "PIL.ImageFile": _hook_pillow,
    "torchvision.io.image": _on(
        "decode", "decode_image", "decode_jpeg", "decode_png", "read_image"
    ),
    "torchvision.transforms.transforms": _on("transform", "__call__", owner="Compose"),
    "torchvision.transforms.v2._container": _on("transform", "forward", owner="Compose"),
    "albumentations.core.composition": _on("transform", "__call__", owner="Compose"),
    "cv2": _on("decode", "imread", "imdecode"),
}
"""Hooks by the module that they are for."""
