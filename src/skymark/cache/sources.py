"""Sources of data sets, here, on the web or on the Hub, and their changes.

A data set that is kept in another format is read from the Parquet copy that the Hub makes of it
(branch ``refs/convert/parquet``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from skymark.model.base import Count, Frozen
from skymark.model.errors import CacheError, DataError, UnknownNameError, UsageError
from skymark.resources import needs

HUB = "hf://"
COPY = "refs/convert/parquet"
MAIN = "main"
USUAL = "default"
"""Configuration of a data set that has only one."""
_REFERENCE = re.compile(
    r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<split>[\w./-]+))?"
)
_SHARD = re.compile(r"(?P<split>.+?)-\d+-of-\d+(?:-[0-9a-f]+)?")


class HubReference(NamedTuple):
    """A user's name for a data set: repository, revision and split."""

    name: str
    revision: str | None
    split: str | None


class ParquetTable(NamedTuple):
    """One Parquet file of a data set, with the configuration and split in its path."""

    path: str
    configuration: str
    split: str
    size_bytes: int | None = None


class HubTables(NamedTuple):
    """The Parquet files of a data set at one commit."""

    revision: str
    """Requested branch, tag or commit."""
    commit: str
    tables: list[ParquetTable]


def parse(data: str) -> HubReference:
    """Take ``hf://owner/name[@revision][:split]`` apart; a split may be ``configuration/split``.

    Raises:
        DataError: it is not of that form.
    """
    match = _REFERENCE.fullmatch(data)
    if match is None:
        raise DataError(
            f"{data!r} names no dataset of the Hub; write hf://owner/name[@revision][:split], "
            "such as hf://uoft-cs/cifar10:test"
        )
    return HubReference(*match.group("name", "revision", "split"))


def table_of(path: str, size_bytes: int | None = None) -> ParquetTable:
    """Return a Parquet file's table, with the configuration and split from its path.

    The known forms are ``CONFIGURATION/SPLIT-00000-of-00003.parquet``, ``data/SPLIT-…``,
    ``SPLIT-…``, ``CONFIGURATION/SPLIT/0000.parquet`` and
    ``CONFIGURATION/partial-SPLIT/0000.parquet``. Other files get the split ``train``.
    """
    folders = list(PurePosixPath(path).parent.parts)
    stem = PurePosixPath(path).stem
    if match := _SHARD.fullmatch(stem):
        split = match["split"]
    elif stem.isdigit() and folders:
        split = folders.pop().removeprefix("partial-")
    else:
        split = "train"
    named = [folder for folder in folders if folder != "data"]
    return ParquetTable(path, named[0] if named else USUAL, split, size_bytes)


def chosen_tables(
    reference: HubReference,
    tables: Sequence[ParquetTable],
    usual_configuration: str = USUAL,
    usual_split: str | None = None,
) -> list[ParquetTable]:
    """Return the files of the requested configuration and split, in order.

    Args:
        reference: the user's name for the data set.
        tables: all files of the data set.
        usual_configuration: default configuration.
        usual_split: default split; None for all splits.

    Raises:
        UnknownNameError: there is no such configuration or split.
        DataError: there are several configurations, and the reference names none.
    """
    configuration, _, split = (reference.split or "").rpartition("/")
    configurations = sorted({table.configuration for table in tables})
    wanted = split or usual_split
    if not configuration:
        if usual_configuration in configurations:
            configuration = usual_configuration
        elif len(configurations) == 1:
            configuration = configurations[0]
        else:
            example = wanted or min(table.split for table in tables)
            raise DataError(
                f"{reference.name} has the configurations {', '.join(configurations)}; choose one "
                f"with hf://{reference.name}:{configurations[0]}/{example}"
            )
    if configuration not in configurations:
        kind = f"configuration of {reference.name}"
        raise UnknownNameError(kind, configuration, configurations)
    own = [table for table in tables if table.configuration == configuration]
    splits = {table.split for table in own}
    if wanted is not None and wanted not in splits:
        raise UnknownNameError(f"split of {reference.name}", wanted, splits)
    return sorted(table for table in own if wanted in {None, table.split})


def parquet_tables(reference: HubReference) -> HubTables:
    """List the Parquet files of a data set, or the files of the Hub's own conversion.

    Raises:
        DataError: the Hub cannot be reached, has no such data set, or no Parquet file of it.
    """
    name, asked = reference.name, reference.revision
    with reached(f"{HUB}{name}" if asked is None else f"{HUB}{name}@{asked}") as api:
        for revision in (MAIN, COPY) if asked is None else (asked,):
            try:
                info = api.dataset_info(
                    name, revision=None if revision == MAIN else revision, files_metadata=True
                )
            except _hub_errors().RevisionNotFoundError:
                if revision != COPY or asked is not None:
                    raise
                continue
            files = [(file.rfilename, file.size) for file in info.siblings or ()]
            tables = [table_of(path, size) for path, size in files if path.endswith(".parquet")]
            if tables:
                return HubTables(revision, str(info.sha), tables)
    raise DataError(
        f"{HUB}{name} holds no Parquet file, and the Hub has not converted it; "
        "download it and give the folder"
    )


def downloaded(name: str, path: str, commit: str) -> Path:
    """Return a file of a data set, downloaded into the Hub's cache if absent.

    The cache is the present value of ``HF_HUB_CACHE``: the client reads the variable only once, on
    import.
    """
    with reached(f"{HUB}{name}/{path}"):
        from huggingface_hub import hf_hub_download

        cache = os.environ.get("HF_HUB_CACHE")
        return Path(
            hf_hub_download(name, path, repo_type="dataset", revision=commit, cache_dir=cache)
        )


def _hub_errors() -> Any:
    with needs("huggingface_hub"):
        # Imported by name: the transport's HTTPError is there, but not declared as exported.
        return import_module("huggingface_hub.errors")


@contextmanager
def reached(data: str) -> Iterator[Any]:
    """Yield the Hub's API; add the next action to its errors.

    Raises:
        DataError: the Hub cannot be reached, or has no such dataset for this user.
    """
    errors = _hub_errors()
    from huggingface_hub import HfApi

    try:
        yield HfApi()
    except errors.GatedRepoError as error:
        raise DataError(f"{data} is gated; ask for access on its page and set HF_TOKEN") from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"{data} has no such revision; check what follows the @") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            f"{data}: the Hub has no such dataset, or it is private; check the name or set HF_TOKEN"
        ) from error
    except (errors.HTTPError, OSError) as error:
        raise DataError(
            f"{data} could not be fetched ({error}); check the network and run again"
        ) from error


TIMEOUT_S = 60.0
WEB = ("http", "https")
KINDS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".tsv": "csv",
    ".parquet": "parquet", ".tar": "tar",
}  # fmt: skip
"""Kind of data by the ending of its file's name."""
HUB_FILE = re.compile(r"hf://datasets/(?P<name>[^/@]+/[^/@]+)@(?P<revision>[^/]+)/(?P<path>.+)")
"""Address of a file of the Hub, as `datasets` and the Hub's client take it."""


class SourceFile(Frozen):
    """State of a data set's file when skymark looked at it."""

    address: str
    split: str = "train"
    size_bytes: Count | None = None
    version: str
    """Size and time of change of a file; length, tag and date of an address; commit of the Hub."""

    @property
    def name(self) -> str:
        """The file's name."""
        return urlsplit(self.address).path.rpartition("/")[2]


def is_web(address: str) -> bool:
    """Whether an address is on the web."""
    return urlsplit(address).scheme in WEB


def hub_file(address: str) -> tuple[str, str, str] | None:
    """Return data set, revision and path of a file of the Hub; None for other addresses."""
    match = HUB_FILE.fullmatch(address)
    return None if match is None else (match["name"], unquote(match["revision"]), match["path"])


def look_at_all(text: str) -> tuple[SourceFile, ...]:
    """Look at a source, ``ADDRESS`` or ``SPLIT=ADDRESS``, or at all files of a data set of the Hub.

    ``hf://owner/name[@revision][:configuration/split]`` has the splits that the Hub knows of.

    Raises:
        UsageError: it is none that can be looked at.
        CacheError: it is not there.
        DataError: the Hub has no such data set, or cannot be reached.
    """
    chosen, address = _split_of(text)
    if not address.startswith(HUB) or hub_file(address) is not None:
        return (look_at(text),)
    reference = parse(address)
    listed = parquet_tables(reference)
    place = f"{HUB}datasets/{reference.name}@{quote(listed.revision, safe='')}"
    return tuple(
        SourceFile(
            address=f"{place}/{table.path}",
            split=chosen or table.split,
            size_bytes=table.size_bytes,
            version=listed.commit,
        )
        for table in chosen_tables(reference, listed.tables)
    )


def look_at(text: str, ask: Callable[[HubReference], HubTables] = parquet_tables) -> SourceFile:
    """Look at a source, ``ADDRESS`` or ``SPLIT=ADDRESS``.

    Args:
        text: the source.
        ask: asks the Hub for the files of a data set.

    Raises:
        UsageError: it is none that can be looked at.
        CacheError: it is not there.
    """
    chosen, address = _split_of(text)
    split = chosen or "train"
    if (file := hub_file(address)) is not None:
        return _of_hub(address, split, file, ask)
    if is_web(address):
        size, version = _of_web(address)
        return SourceFile(address=address, split=split, size_bytes=size, version=version)
    if urlsplit(address).scheme not in {"", "file"}:
        raise UsageError(
            f"{address}: give a file, an http address or hf://owner/name; what lies elsewhere is "
            "built by a command of your own with --prepare"
        )
    path = Path(urlsplit(address).path if address.startswith("file:") else address).resolve()
    try:
        status = path.stat()
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}; check the name of the source") from error
    if not (S_ISREG(status.st_mode) or S_ISDIR(status.st_mode)):
        raise UsageError(f"{path} is no regular file; name the file that has the data")
    return SourceFile(
        address=str(path),
        split=split,
        size_bytes=status.st_size,
        version=f"{status.st_size} {status.st_mtime_ns}",
    )


def kind_of(sources: tuple[SourceFile, ...]) -> str | None:
    """Return the kind of all sources; None for an unknown kind.

    Raises:
        UsageError: they are of several.
    """
    kinds = {KINDS.get(Path(source.name).suffix.casefold()) for source in sources}
    if len(kinds) > 1:
        named = ", ".join(sorted(str(kind or "unknown") for kind in kinds))
        raise UsageError(f"the sources are of several kinds ({named}); give one data set's files")
    return next(iter(kinds), None)


def total_bytes(sources: Sequence[SourceFile]) -> int | None:
    """Return the size of all sources; None if any is unknown, or without sources."""
    sizes = [source.size_bytes for source in sources if source.size_bytes is not None]
    return sum(sizes) if sources and len(sizes) == len(sources) else None


def _split_of(text: str) -> tuple[str | None, str]:
    """Return the split in a text, if any, and the address."""
    split, equals, address = text.partition("=")
    return (split, address) if equals and split.isidentifier() else (None, text)


def _of_hub(
    address: str,
    split: str,
    file: tuple[str, str, str],
    ask: Callable[[HubReference], HubTables],
) -> SourceFile:
    name, revision, path = file
    try:
        listed = ask(HubReference(name, revision, None))
    except DataError as error:
        raise CacheError(str(error)) from error
    sizes = {table.path: table.size_bytes for table in listed.tables}
    if path not in sizes:
        raise CacheError(f"{address}: the Hub has no such file; check the name of the source")
    return SourceFile(address=address, split=split, size_bytes=sizes[path], version=listed.commit)


def _of_web(address: str) -> tuple[int | None, str]:
    request = Request(address, method="HEAD", headers={"User-Agent": "skymark"})  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 -- http(s) was checked
            headers = answer.headers
    except (URLError, OSError) as error:
        raise CacheError(f"{address}: {error}; check the address, and the network") from error
    length = headers.get("Content-Length")
    told = [length, headers.get("ETag"), headers.get("Last-Modified")]
    return None if length is None else int(length), " ".join(text or "-" for text in told)


WRONG = "wrong rows"
GONE = "No such file or directory: {}"


class SourceChange(Frozen):
    """Change of a source."""

    message: str
    """A library's message for this change."""
    text: str
    """The source, and what became of it."""
    action: str


def changes(sources: Iterable[SourceFile]) -> Iterator[SourceChange]:
    """Yield the changes of sources since skymark looked at them."""
    ask = cache(parquet_tables)  # a data set of the Hub has many files
    for source in sources:
        try:
            now = look_at(f"{source.split}={source.address}", ask)
        except CacheError as error:
            yield _away(source, error)
            continue
        if now.version != source.version:
            yield _changed(source, now)


def require_unchanged(sources: Iterable[SourceFile]) -> None:
    """Refuse sources that have changed since skymark looked at them.

    Raises:
        CacheError: one has; the message names it.
    """
    if changed := next(changes(sources), None):
        raise CacheError(f"{changed.text}, while the cache was built; build it again")


def is_local(source: SourceFile) -> bool:
    """Whether a source is a file of this disk."""
    return not is_web(source.address) and hub_file(source.address) is None


def _away(source: SourceFile, error: CacheError) -> SourceChange:
    if not is_local(source):
        return SourceChange(
            message=WRONG,
            text=f"{source.address} is away ({error})",
            action="look again when it is there; what was built of it can be read meanwhile",
        )
    return SourceChange(
        message=GONE.format(Path(source.address).name),
        text=f"{source.address} is gone or cannot be looked at; it had {_state(source)}",
        action="put it back, with its time (cp -p, rsync -t), or build again from where it is now; "
        "until then jobs that name it end with an error",
    )


def _changed(source: SourceFile, now: SourceFile) -> SourceChange:
    again = "build it again; jobs with the new source do not take this one"
    cut_off = "if it was cut off, copy it again, with its time (cp -p, rsync -t)"
    if source.size_bytes and now.size_bytes is not None and now.size_bytes < source.size_bytes:
        return SourceChange(
            message=WRONG,
            text=f"{source.address} is shorter: it has {_state(now)}, and had {_state(source)}",
            action=f"{cut_off}; else {again}",
        )
    return SourceChange(
        message=WRONG,
        text=f"{source.address} has changed: it has {_state(now)}, and had {_state(source)}",
        action=again,
    )


def _state(source: SourceFile) -> str:
    """Return size and time of a file, or the version of a remote source."""
    if not is_local(source):
        return f"version {source.version}"
    size, _, changed_ns = source.version.partition(" ")
    changed = datetime.fromtimestamp(int(changed_ns) / 1e9, UTC)
    return f"{int(size):,} bytes of {changed:%Y-%m-%d %H:%M:%S.%f} UTC"
