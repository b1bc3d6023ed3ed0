"""Hooks of PyTorch's loader, whose batches count, and of its fetcher, whose stages do."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from skymark.watching.after_import import replace
from skymark.watching.iterators import counting
from skymark.watching.libraries import torch_settings
from skymark.watching.recorder import Recorder, made_for, recorder
from skymark.watching.stages import FETCH, SAMPLE, StageClock

FIRST_IN_DETAIL = 2
EVERY_IN_DETAIL = 16
DETAIL_NS = 50_000
"""Mean duration of samples from which the watch times each; else it times every 16th batch."""


def hook_loader(module: ModuleType) -> None:
    """Count the batches of each `DataLoader`."""
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

    replace(loader, "__iter__", make_iter)
    replace(iterator, "__next__", counting)


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


def hook_fetch(module: ModuleType) -> None:
    """Time the data set and the collate function, where batches are made."""

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
        replace(getattr(module, name), "fetch", make)
