"""Files of this machine that a job gets: those that its plan names, and those of --sync."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import say
from skymark.cli.parameters import JOB
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

if TYPE_CHECKING:
    from skymark.cloud.sent_files import Selection
    from skymark.cloud.source import Source

Sync = Annotated[
    tuple[Path, ...],
    Parameter(
        group=JOB,
        help="A file or a directory that the job needs besides skymark's source, by its path from "
        "here; of a directory in git, the tracked files. May be repeated. A file with a secret is "
        "refused.",
    ),
]

SHOWN = 5
"""Names that a line has."""


def source_for(
    plans: Iterable[Plan], sync: Sequence[Path], *, with_source: bool = True
) -> Path | None:
    """Return the directory that a job of some plans gets; None for skymark's own files alone.

    Says which files are sent besides those, how large they are, and which stay here.

    Args:
        plans: the plans of the job.
        sync: the values of --sync.
        with_source: False for a machine with a container image.

    Raises:
        UsageError: a plan names files that the machine would not get, or one that may not be sent.
    """
    from skymark.cloud.sent_files import own_files
    from skymark.cloud.source import source_with

    if sync and not with_source:
        raise UsageError(
            f"--sync {sync[0]}: a machine with --image gets no files of this one; leave one of the "
            "two out"
        )
    needed = dict.fromkeys(
        Path(file) for plan in plans for one in plan.cells for file in one.local_files
    )
    for path in needed:
        _require_sendable(path, sync, with_source=with_source)
    names = [*sync, *(path for path in needed if path.is_file())]
    if not names:
        if with_source:
            _say_what_stays(own_files())
        return None
    source = source_with(names)
    say_sent(source)
    return source.directory


def say_sent(source: Source) -> None:
    """Say which named files a directory has, and which files stay here."""
    from skymark.report.text import size

    if count := len(source.named.files):
        names = _some(list(source.named.files))
        say(f"sends {count} named file{'s' * (count > 1)}, {size(source.size_bytes)}: {names}")
    _say_what_stays(source.left)


def _require_sendable(path: Path, sync: Sequence[Path], *, with_source: bool) -> None:
    if not with_source:
        raise UsageError(
            f"{path} lies on this machine, and a container image gets nothing of it; give an "
            "address such as hf://owner/name"
        )
    if path.is_absolute():
        raise UsageError(
            f"{path} lies on this machine, and a rented machine gets only files below the current "
            "directory; give a relative path, or an address such as hf://owner/name"
        )
    named = (one.expanduser().absolute() for one in sync)
    if not path.is_file() and not any(path.absolute().is_relative_to(one) for one in named):
        raise UsageError(
            f"{path} lies on this machine; add --sync {path} to send it, or give an address such "
            "as hf://owner/name"
        )


def _say_what_stays(left: Selection) -> None:
    if left.untracked:
        say(
            f"not sent, because git does not track them: {_some(left.untracked)}; use `git add`, "
            "or --sync for files that the job needs"
        )
    if left.links:
        say(f"not sent, because they are links to other files, or no files: {_some(left.links)}")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
