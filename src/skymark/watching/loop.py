"""`skymark.watch(loader)`: the same batches, and a verdict at the end of the loop."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from skymark.watching.attach import attach
from skymark.watching.libraries import settings_of
from skymark.watching.recorder import FOLDER, Recorder, made_for, recorder, start
from skymark.watching.start import end_with_process
from skymark.watching.verdict import LoopVerdict, verdict_of, write_trace


class Watched:
    """A loader under watch. All other attributes are the loader's own."""

    verdict: LoopVerdict | None = None
    """The outcome, once the loop has ended or was left."""

    def __init__(self, loader: Any, batches: int | None = None, trace: str | None = None) -> None:
        self._loader = loader
        self._trace = trace
        self._folder = os.environ.get(FOLDER) or tempfile.mkdtemp(prefix="skymark-watch-")
        self._is_own = FOLDER not in os.environ
        watch = recorder()
        if watch is None:
            watch = start(self._folder, batches)
            end_with_process(watch)
        self._folder = watch.folder
        self._watch: Recorder = watch
        attach()
        if self._is_own:
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)

    def __iter__(self) -> Iterator[Any]:
        """Iterate the loader; the end of the loop prints the verdict on stderr."""
        watch = self._watch
        library, settings = settings_of(self._loader)
        source = getattr(self._loader, "dataset", self._loader)
        epoch = watch.begin(library, source, settings, self._loader)
        with watch.within(), made_for(epoch):
            iterator = iter(self._loader)
        try:
            while True:
                try:
                    batch = watch.next(epoch, next, iterator)
                except StopIteration:
                    return
                yield batch
        finally:
            self._tell(epoch.loop.number)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # in a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def _tell(self, loop: int) -> None:
        if not self._is_own:
            return  # `skymark watch` prints it
        self._watch.rest()
        self.verdict = verdict_of(self._folder, loop=loop)
        if self._trace is not None:
            write_trace(self._folder, self._trace)
        if self.verdict is not None:
            text = "\n".join(self.verdict.lines())
            sys.stderr.write(f"skymark: {text}\n")


def watch(loader: Any, *, batches: int | None = None, trace: str | None = None) -> Watched:
    """Watch a loader: what a loop over it waits for.

    Args:
        loader: any iterable of batches. Its batches, their order and its random numbers stay.
        batches: after which the watch ends; the loop goes on.
        trace: file for a trace in Chrome's format, which its tracing page and Perfetto open.

    Returns:
        A loader like the one given. The end of each loop over it prints a verdict on stderr and
        keeps it as `.verdict`.
    """
    return Watched(loader, batches, trace)
