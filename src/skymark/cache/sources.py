"""Sources of data sets: files here, or addresses on the web, and what tells that one changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from skymark.model.base import Count, Frozen
from skymark.model.errors import CacheError, UsageError

TIMEOUT_S = 60.0
WEB = ("http", "https")
KINDS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".tsv": "csv",
    ".parquet": "parquet", ".tar": "tar",
}  # fmt: skip
"""Kind of data by the ending of its file's name."""


class Source(Frozen):
    """A file of a data set as it was when it was looked at."""

    address: str
    split: str = "train"
    size_bytes: Count | None = None
    version: str
    """Size and time of change of a file; length, tag and date of an address."""

    @property
    def name(self) -> str:
        """The file's name."""
        return urlsplit(self.address).path.rpartition("/")[2]


def is_web(address: str) -> bool:
    """Whether an address is on the web."""
    return urlsplit(address).scheme in WEB


def look_at(text: str) -> Source:
    """Look at a source, ``ADDRESS`` or ``SPLIT=ADDRESS``.

    Raises:
        UsageError: it is none that can be looked at.
        CacheError: it is not there.
    """
    split, equals, address = text.partition("=")
    if not equals or not split.isidentifier():
        split, address = "train", text
    if is_web(address):
        size, version = _of_web(address)
        return Source(address=address, split=split, size_bytes=size, version=version)
    if urlsplit(address).scheme not in {"", "file"}:
        raise UsageError(
            f"{address}: give a file or an http address; what lies elsewhere is built by a command "
            "of your own with --prepare"
        )
    path = Path(urlsplit(address).path if address.startswith("file:") else address).resolve()
    try:
        found = path.stat()
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}; check the name of the source") from error
    return Source(
        address=str(path),
        split=split,
        size_bytes=found.st_size,
        version=f"{found.st_size} {found.st_mtime_ns}",
    )


def kind_of(sources: tuple[Source, ...]) -> str | None:
    """Return the kind of all sources; None where they have none that is known.

    Raises:
        UsageError: they are of several.
    """
    kinds = {KINDS.get(Path(one.name).suffix.casefold()) for one in sources}
    if len(kinds) > 1:
        named = ", ".join(sorted(str(kind or "unknown") for kind in kinds))
        raise UsageError(f"the sources are of several kinds ({named}); give those of one data set")
    return next(iter(kinds), None)


def total_bytes(sources: Sequence[Source]) -> int | None:
    """Return the size of all sources; None where one does not tell it, or there are none."""
    sizes = [one.size_bytes for one in sources if one.size_bytes is not None]
    return sum(sizes) if sources and len(sizes) == len(sources) else None


def changes(sources: tuple[Source, ...]) -> list[str]:
    """Return the sources that are not what they were, in words."""
    found = []
    for source in sources:
        try:
            now = look_at(f"{source.split}={source.address}")
        except CacheError as error:
            found.append(f"{source.address} is away ({error})")
            continue
        if now.version != source.version:
            found.append(f"{source.address} has changed ({source.version} is now {now.version})")
    return found


def _of_web(address: str) -> tuple[int | None, str]:
    request = Request(address, method="HEAD", headers={"User-Agent": "skymark"})  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 -- http(s) was checked
            headers = answer.headers
    except (URLError, OSError) as error:
        raise CacheError(f"{address}: {error}; check the address, and the network") from error
    length = headers.get("Content-Length")
    told = [length, headers.get("ETag"), headers.get("Last-Modified")]
    return None if length is None else int(length), " ".join(one or "-" for one in told)
