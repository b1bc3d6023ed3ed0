"""Open the source that the text after ``--data`` names, by the kind of files there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import DataSource
from skymark.suites.loading.dataset.sources.paths import (
    files_below,
    local_paths,
    require_regular,
    suffix_of,
)

KINDS = (
    "a folder of images (one folder per class), of .wav, .flac, .mp4, .tar, .parquet, .jsonl, "
    ".csv, .tsv or .txt files, one such table or shard, shards such as 'train-{000..012}.tar', or "
    "hf://owner/name[@revision][:split]"
)


def open_source(data: str) -> DataSource:
    """Open the source of real data that a text names.

    Raises:
        DataError: there is no such thing, or it holds no data that skymark can read.
    """
    if data.startswith("hf://"):
        from skymark.suites.loading.dataset.sources.hub import open_hub

        return open_hub(data)
    paths = local_paths(data)
    if len(paths) == 1 and paths[0].is_dir():
        return _open_folder(paths[0])
    openers = {OPENERS.get(suffix_of(path)) for path in paths}
    opener = openers.pop()
    if opener is None or openers:
        raise DataError(f"{data} is no dataset that skymark can read; give {KINDS}")
    require_regular(paths)
    return opener(paths)


def _open_folder(folder: Path) -> DataSource:
    from skymark.suites.loading.dataset.sources.folder import MEDIA_SUFFIXES, MediaFolder

    files = files_below(folder)
    by_kind: dict[Callable[[list[Path]], DataSource], list[Path]] = {}
    for path in files:
        if suffix_of(path) in MEDIA_SUFFIXES:
            return MediaFolder(files)
        if (opener := OPENERS.get(suffix_of(path))) is not None:
            by_kind.setdefault(opener, []).append(path)
    if not by_kind:
        raise DataError(f"{folder} holds no file that skymark can read; give {KINDS}")
    if len(by_kind) > 1:
        examples = " and ".join(str(paths[0].relative_to(folder)) for paths in by_kind.values())
        raise DataError(f"{folder} holds several kinds of data ({examples}); give one kind")
    [(opener, paths)] = by_kind.items()
    require_regular(paths)
    return opener(paths)


def _open_tar(paths: list[Path]) -> DataSource:
    from skymark.suites.loading.dataset.sources.tar import TarShards

    return TarShards(paths)


def _open_parquet(paths: list[Path]) -> DataSource:
    from skymark.suites.loading.dataset.sources.parquet import ParquetFiles

    return ParquetFiles(paths)


def _open_json_lines(paths: list[Path]) -> DataSource:
    from skymark.suites.loading.dataset.sources.tables import JsonLines

    return JsonLines(paths)


def _open_separated(paths: list[Path]) -> DataSource:
    from skymark.suites.loading.dataset.sources.tables import SeparatedValues

    return SeparatedValues(paths)


def _open_text(paths: list[Path]) -> DataSource:
    from skymark.suites.loading.dataset.sources.tables import (
        SeparatedValues,
        TextLines,
        is_click_log,
    )

    return SeparatedValues(paths) if is_click_log(paths[0]) else TextLines(paths)


OPENERS: dict[str, Callable[[list[Path]], DataSource]] = {
    ".tar": _open_tar,
    ".tar.gz": _open_tar,
    ".tgz": _open_tar,
    ".parquet": _open_parquet,
    ".jsonl": _open_json_lines,
    ".ndjson": _open_json_lines,
    ".csv": _open_separated,
    ".tsv": _open_separated,
    ".txt": _open_text,
}
"""How files are opened together, by the ending of their names."""
