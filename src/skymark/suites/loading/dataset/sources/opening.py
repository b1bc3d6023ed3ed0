"""Open the source that the text after ``--data`` names, by the kind of files there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from skymark.image_formats import opened_image
from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import DataSource, reading
from skymark.suites.loading.dataset.sources.folder import MediaFolder, media_kind
from skymark.suites.loading.dataset.sources.parquet import ParquetFiles, open_hub
from skymark.suites.loading.dataset.sources.paths import (
    files_below,
    kind_of,
    local_paths,
    one_split,
    require_regular,
    split_asked_for,
    split_of_file,
    suffix_of,
)
from skymark.suites.loading.dataset.sources.tables import (
    JsonFiles,
    JsonLines,
    SeparatedValues,
    TextLines,
    is_click_log,
)
from skymark.suites.loading.dataset.sources.tar import TarShards

KINDS = (
    "a folder of images, sounds or clips (one folder per class), of .tar, .parquet, .jsonl, .json, "
    ".csv, .tsv or .txt files, one such table or shard, shards such as 'train-{000..012}.tar', or "
    "hf://owner/name[@revision][:split]"
)


def open_source(data: str) -> DataSource:
    """Open the source of real data that a text names; ``FOLDER:train`` is a split of a folder.

    Raises:
        DataError: it does not exist, or it holds no data that skymark can read.
    """
    if data.startswith("hf://"):
        return open_hub(data)
    place, split = split_asked_for(data)
    paths = local_paths(place)
    with reading(data):
        if len(paths) == 1 and paths[0].is_dir():
            return _open_folder(paths[0], split)
        openers = {OPENERS.get(kind_of(path)) for path in paths}
        opener = openers.pop()
        if opener is None or openers:
            raise DataError(f"{data} is no dataset that skymark can read; {_advice(paths)}")
        require_regular(paths)
        return opener(paths)


def _advice(paths: Iterable[Path]) -> str:
    """Return the next step for files of which none is data."""
    packed = any(suffix_of(path) in PACKED for path in paths)
    return f"{'unpack it, and ' if packed else ''}give {KINDS}"


def _open_folder(folder: Path, split: str | None) -> DataSource:
    """Open the most frequent kind of data in a folder, and list the remaining files."""
    listing = files_below(folder)
    if (media := media_kind(listing.files)) is not None:
        return MediaFolder(folder, listing, media, split)
    by_kind: dict[Callable[[list[Path]], DataSource], list[Path]] = {}
    for path in listing.files:
        if (opener := OPENERS.get(kind_of(path))) is not None:
            by_kind.setdefault(opener, []).append(path)
    for weak in WEAK:
        if len(by_kind) > 1:
            by_kind.pop(weak, None)
    if not by_kind:
        raise DataError(f"{folder} holds no file that skymark can read; {_advice(listing.files)}")
    if len(by_kind) > 1:
        examples = " and ".join(str(paths[0].relative_to(folder)) for paths in by_kind.values())
        raise DataError(f"{folder} holds several kinds of data ({examples}); give one kind")
    [(opener, paths)] = by_kind.items()
    chosen = one_split(paths, folder, split, split_of_file)
    require_regular(chosen.files)
    source = opener(chosen.files)
    source.ignored += Counter({f"{what} (files)": count for what, count in chosen.others.items()})
    source.ignored += Counter(
        f"{suffix_of(path) or path.name} (no data)" for path in set(listing.files) - set(paths)
    )
    if listing.hidden:
        source.ignored["hidden"] += listing.hidden
    if chosen.split:
        source.notes.append(f"split {chosen.split}")
    return source


def _open_text(paths: list[Path]) -> DataSource:
    return SeparatedValues(paths) if is_click_log(paths[0]) else TextLines(paths)


OPENERS: dict[str, Callable[[list[Path]], DataSource]] = {
    ".tar": TarShards,
    ".tgz": TarShards,
    ".parquet": ParquetFiles,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonFiles,
    ".csv": SeparatedValues,
    ".tsv": SeparatedValues,
    ".txt": _open_text,
}
"""How files are opened together, by the kind that their names tell."""
PACKED = {".7z", ".rar", ".zip"}
WEAK = (_open_text, JsonFiles)
"""Files that often lie beside data as its description; they are data where nothing else is."""


_TAIL = 4096
"""Some cameras and editors leave bytes after the end marker. Phones append whole clips there; an
image with more bytes is decoded to see that it is whole."""
ENDS = {b"\xff\xd8": (b"\xff\xd9", "JPEG"), b"\x89PNG\r\n\x1a\n": (b"IEND", "PNG")}
"""The marker near the end of a file that begins so (ITU-T T.81, EOI; RFC 2083, 4.1.4)."""
OTHERS = (b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")
"""First bytes of further formats of images."""


def check_image(data: bytes, place: str) -> None:
    """Check that an encoded image begins and ends as one.

    Raises:
        DataError: it does not; the message names the place.
    """
    for start, (end, name) in ENDS.items():
        if data.startswith(start):
            if end in data[-_TAIL:]:
                return
            try:
                with opened_image(data, place) as image:
                    image.load()
            except DataError as error:
                advice = "copy it again or remove it"
                raise DataError(f"{place} is a truncated {name} file; {advice}") from error
            return
    if not data.startswith(OTHERS):
        raise DataError(
            f"{place} is no image that skymark can read: it begins with {data[:16]!r}; convert it "
            "or remove it"
        )
