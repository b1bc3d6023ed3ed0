"""Changes of a cache's sources since it was built: gone, cut off or written again, and the cure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from skymark.cache.hub import parquet_tables
from skymark.cache.sources import Source, hub_file, is_web, look_at
from skymark.model.base import Frozen
from skymark.model.errors import CacheError

WRONG = "wrong rows"
GONE = "No such file or directory: {}"


class Change(Frozen):
    """A source that is not what it was."""

    message: str
    """What a library says of it, as people meet it."""
    text: str
    """The source, and what became of it."""
    action: str


def changes(sources: Iterable[Source]) -> Iterator[Change]:
    """Yield the sources that are not what they were when they were looked at."""
    ask = cache(parquet_tables)  # a data set of the Hub has many files
    for source in sources:
        try:
            now = look_at(f"{source.split}={source.address}", ask)
        except CacheError as error:
            yield _away(source, error)
            continue
        if now.version != source.version:
            yield _changed(source, now)


def is_local(source: Source) -> bool:
    """Whether a source is a file of this disk."""
    return not is_web(source.address) and hub_file(source.address) is None


def _away(source: Source, error: CacheError) -> Change:
    if not is_local(source):
        return Change(
            message=WRONG,
            text=f"{source.address} is away ({error})",
            action="look again when it is there; what was built of it can be read meanwhile",
        )
    return Change(
        message=GONE.format(Path(source.address).name),
        text=f"{source.address} is gone or cannot be looked at; it had {_state(source)}",
        action="put it back, with its time (cp -p, rsync -t), or build again from where it is now; "
        "until then jobs that name it end with an error",
    )


def _changed(source: Source, now: Source) -> Change:
    again = "build it again; jobs with the new source do not take this one"
    cut_off = "if it was cut off, copy it again, with its time (cp -p, rsync -t)"
    if source.size_bytes and now.size_bytes is not None and now.size_bytes < source.size_bytes:
        return Change(
            message=WRONG,
            text=f"{source.address} is shorter: it has {_state(now)}, and had {_state(source)}",
            action=f"{cut_off}; else {again}",
        )
    return Change(
        message=WRONG,
        text=f"{source.address} has changed: it has {_state(now)}, and had {_state(source)}",
        action=again,
    )


def _state(source: Source) -> str:
    """Return size and time of a file, or the version of what lies elsewhere."""
    if not is_local(source):
        return f"version {source.version}"
    size, _, changed_ns = source.version.partition(" ")
    changed = datetime.fromtimestamp(int(changed_ns) / 1e9, UTC)
    return f"{int(size):,} bytes of {changed:%Y-%m-%d %H:%M:%S.%f} UTC"
