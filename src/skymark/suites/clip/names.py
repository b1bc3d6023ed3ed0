"""Names on the command line: globs, files of names, and hints for unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from skymark.model.errors import UsageError

SUITE = "clip"
ALL = "all"
WILDCARDS = frozenset("*?[")
NEAREST = 4
LISTS = frozenset((".txt", ".list"))
"""Suffixes of files of names."""
LONGEST_LIST_BYTES = 1 << 20
"""Limit for a file of names."""
LISTING = {
    "model": "skymark list adapters --suite clip",
    "data set": "skymark list scenarios --suite clip",
}
"""The command that shows all names of a kind."""
COMMENT = re.compile(r"(^|\s)#.*")


def expanded(names: Iterable[str], kind: str) -> list[str]:
    """Replace each file of names by its lines, without empty lines and comments.

    A comment starts with ``#``, at the start of a line or after a space.

    Args:
        names: from the command line.
        kind: model or data set.

    Raises:
        UsageError: a file of names cannot be read, or is empty.
    """
    found: list[str] = []
    for name in names:
        path = Path(name)
        if path.suffix in LISTS and path.is_file():
            found += _lines(path, kind)
        elif path.suffix in LISTS:
            raise UsageError(f"there is no file {name}; give a file with one {kind} per line")
        else:
            found.append(name)
    return found


def _lines(path: Path, kind: str) -> list[str]:
    if path.stat().st_size > LONGEST_LIST_BYTES:
        raise UsageError(f"{path} is too long for a file of names; write one {kind} per line")
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the names in {path}: {error}") from error
    names = [name for line in lines if (name := COMMENT.sub("", line).strip())]
    if not names:
        raise UsageError(f"{path} names nothing; write one {kind} per line")
    return names


def is_glob(name: str) -> bool:
    """Whether a name is a pattern."""
    return not WILDCARDS.isdisjoint(name)


def matching(pattern: str, known: Sequence[str], kind: str) -> list[str]:
    """Return the known names that a pattern matches, in order.

    Raises:
        UsageError: it matches no name.
    """
    found = [name for name in known if fnmatchcase(name, pattern)]
    if not found:
        hint = nearest(pattern, known) or f"`{LISTING[kind]}` shows all"
        raise UsageError(f"no {kind} matches {pattern!r}; {hint.rstrip()}")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names nearest to an unknown one, and a space; else nothing."""
    by_folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_folded, n=NEAREST, cutoff=0.5)
    if not near:
        return ""
    return f"did you mean {' or '.join(by_folded[one] for one in near)}? "
