"""Local paths of data: brace patterns, listings, fingerprints, and splits by name."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from skymark.model.base import digest_of
from skymark.model.errors import DataError

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
HIDDEN = (".", "__MACOSX")
"""Beginnings of the names of folders that no data is in."""
COMPRESSIONS = frozenset({".gz", ".bz2", ".xz", ".zst"})


def suffix_of(path: Path) -> str:
    """Return a path's suffix, lower case: ``.jpg``, but ``.tar.gz`` in whole."""
    last = path.suffix.lower()
    return "".join(path.suffixes[-2:]).lower() if last in COMPRESSIONS else last


def kind_of(path: Path) -> str:
    """Return the suffix of a file's contents: ``.jsonl`` for ``.jsonl.gz``, too."""
    return "".join(f".{part}" for part in suffix_of(path).split(".")[1:2])


def braces_expanded(text: str) -> list[str]:
    """Expand ``{000..012}`` as shells do, keeping leading zeros."""
    found = _RANGE.search(text)
    if found is None:
        return [text]
    first, last = found.groups()
    return [
        expanded
        for number in range(int(first), int(last) + 1)
        for expanded in braces_expanded(
            f"{text[: found.start()]}{number:0{len(first)}d}{text[found.end() :]}"
        )
    ]


def local_paths(data: str) -> list[Path]:
    """Return the files or the folder that a path or pattern names.

    Raises:
        DataError: a file or the folder does not exist.
    """
    paths = [Path(text).expanduser() for text in braces_expanded(data)]
    if not paths:
        raise DataError(f"{data} is an empty range; write the lower number first")
    for path in paths:
        if not path.exists():
            raise DataError(f"no file or folder {path}; check the path given with --data")
    return paths


def require_regular(paths: Iterable[Path]) -> None:
    """Require regular files or links to them: reading other files may never end.

    Raises:
        DataError: a path is no regular file.
    """
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path} is no regular file; remove it, or name others")


class FolderListing(NamedTuple):
    """The files below a folder."""

    files: list[Path]
    """Sorted, hidden ones apart."""
    hidden: int
    """Files whose name begins with a dot, such as the files that macOS adds."""
    empty: list[Path]
    """Folders without any file below them."""


def files_below(folder: Path) -> FolderListing:
    """List every file below a folder.

    Links to folders are followed, into each folder once: they may lead in circles. Hidden folders
    are not entered.
    """
    found: list[Path] = []
    empty: list[Path] = []
    hidden = 0
    seen: set[tuple[int, int]] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        status = Path(root).stat()
        place = status.st_dev, status.st_ino
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith(HIDDEN))
        shown = [Path(root, name) for name in names if not name.startswith(".")]
        hidden += len(names) - len(shown)
        found += shown
        if not names and not folders:
            empty.append(Path(root))
    return FolderListing(sorted(found), hidden, empty)


def files_bytes(paths: Iterable[Path]) -> int:
    """Return the size of files together, in bytes."""
    return sum(_status(path).st_size for path in paths)


def _status(path: Path) -> os.stat_result:
    """Return the status of a file, or of a broken link."""
    try:
        return path.stat()
    except OSError:
        return path.lstat()


def files_fingerprint(paths: Iterable[Path]) -> str:
    """Return a digest of the files' names, sizes and times of change."""
    listing: list[list[str | int]] = []
    for path in paths:
        status = _status(path)
        listing.append([os.fspath(path.absolute()), status.st_size, status.st_mtime_ns])
    return digest_of(listing)


SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""The split that a word in a path stands for, as data sets of the Hub are laid out."""
ORDER = ("train", "validation", "test")
"""Default splits: the first that exists is taken."""


class Chosen(NamedTuple):
    """The files of one split, and the files left out."""

    files: list[Path]
    split: str | None
    """None where the files are of no splits."""
    others: Counter[str]
    """Files of other splits, by the reason."""


def split_of_folder(relative: Path) -> str | None:
    """Return a file's split, by its folders."""
    words = (part.casefold() for part in relative.parent.parts)
    return next((SPLITS[word] for word in words if word in SPLITS), None)


def split_of_file(relative: Path) -> str | None:
    """Return a file's split, by its folders or by a word in its name."""
    words = re.split(r"[^a-z]+", relative.name.casefold())
    by_name = next((SPLITS[word] for word in words if word in SPLITS), None)
    return split_of_folder(relative) or by_name


def one_split(
    files: Sequence[Path],
    folder: Path,
    asked: str | None,
    split_of: Callable[[Path], str | None],
) -> Chosen:
    """Choose the files of one split, if there are several or the user asks for one.

    Args:
        files: all files.
        folder: parent of the files.
        asked: the user's split; None for the first of `ORDER`.
        split_of: returns a file's split by its path in the folder.

    Raises:
        DataError: there is no such split.
    """
    by_split: dict[str | None, list[Path]] = {}
    for path in files:
        by_split.setdefault(split_of(path.relative_to(folder)), []).append(path)
    there = [split for split in ORDER if split in by_split]
    if asked is None and len(there) < 2:
        return Chosen(list(files), None, Counter())
    wanted = there[0] if asked is None else SPLITS.get(asked.casefold(), asked)
    if wanted not in by_split:
        has = f"has the splits {', '.join(there)}" if there else "has no splits"
        raise DataError(f"{folder} {has}, and no {asked!r}; leave out :{asked}, or name another")
    chosen = by_split.pop(wanted)
    others = Counter(
        {f"of split {split}" if split else "of no split": len(of) for split, of in by_split.items()}
    )
    return Chosen(chosen, wanted, others)


def split_asked_for(data: str) -> tuple[str, str | None]:
    """Take a local path and the split behind its last colon apart."""
    place, colon, split = data.rpartition(":")
    if colon and split.casefold() in SPLITS and not Path(data).expanduser().exists():
        return place, split
    return data, None
