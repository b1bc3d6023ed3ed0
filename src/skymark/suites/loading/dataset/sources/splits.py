"""Splits of a dataset that is laid out by names: train, validation and test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from skymark.model.errors import DataError

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""The split that a word in a path stands for, as data sets of the Hub are laid out."""
ORDER = ("train", "validation", "test")
"""The split that is taken where none is asked for: the first of these that is there."""


class Chosen(NamedTuple):
    """The files of one split, and what that leaves out."""

    files: list[Path]
    split: str | None
    """None where the files are of no splits."""
    others: Counter[str]
    """Files of other splits, by the reason."""


def split_of_folder(relative: Path) -> str | None:
    """Return the split that a file is of by the folders on the way to it."""
    words = (part.casefold() for part in relative.parent.parts)
    return next((SPLITS[word] for word in words if word in SPLITS), None)


def split_of_file(relative: Path) -> str | None:
    """Return the split that a file is of by its folders, or by a word in its name."""
    words = re.split(r"[^a-z]+", relative.name.casefold())
    by_name = next((SPLITS[word] for word in words if word in SPLITS), None)
    return split_of_folder(relative) or by_name


def one_split(
    files: Sequence[Path],
    folder: Path,
    asked: str | None,
    split_of: Callable[[Path], str | None],
) -> Chosen:
    """Choose the files of one split, where there are several or one is asked for.

    Args:
        files: all of them.
        folder: that they are below.
        asked: the split that the user named; None for the first of `ORDER`.
        split_of: tells a file's split by its path in the folder.

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
