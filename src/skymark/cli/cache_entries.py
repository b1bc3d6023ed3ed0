"""Commands of `skymark cache` on what is there: list, verify, du and clean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cache.location import root_of
from skymark.cli.caller import note, print_json, print_plain
from skymark.cli.parameters import DAYS, Root, Several
from skymark.cli.tables import Json, print_rows
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.sizes import count_of
from skymark.report.text import size

FOUND = 1


def list_entries(*, cache_root: Root = None, json: Json = False) -> int:
    """List data sets, pixel maps, venvs and libraries' caches, with their users.

    Examples:
      skymark cache list
      skymark cache list --json
    """
    from skymark.cache.entries import entries

    found = list(entries(root_of(cache_root)))
    if json:
        print_json(found)
        return 0
    print_rows(
        ("name", "kind", "data set", "fingerprint", "size", "last use (UTC)", "owner", "lease"),
        (
            (
                *(one.name, f"{one.kind}, sealed" if one.sealed else one.kind, one.data_set),
                *((one.fingerprint or "")[:12], size(one.size_bytes)),
                *(f"{one.last_used:%Y-%m-%d %H:%M}", one.owner, one.lease or "–"),
            )
            for one in found
        ),
    )
    return 0


def verify(
    *names: Annotated[
        str,
        Parameter(
            help="Names from `skymark cache list`, or any directory, such as a library's own "
            "cache. [default: all built caches]"
        ),
    ],
    cache_root: Root = None,
    json: Json = False,
) -> int:
    """Read caches back, compare every file with its digest, and explain faults.

    Also checks the source files of a built cache, and says what to do if one is gone, cut off or
    changed. In a directory that skymark did not build, such as ~/.cache/huggingface/datasets, it
    finds files that are cut off, half-built or unreadable, and a full disk.

    Examples:
      skymark cache verify
      skymark cache verify ~/.cache/huggingface/datasets

    Exit status: 0 all is well; 1 something is wrong; 2 no such cache.
    """
    from skymark.cache.entries import entries, troubles
    from skymark.execute.run_caches import open_data

    root = root_of(cache_root)
    places = [_place(root, name) for name in names]
    if not names:
        places = [one.path for one in entries(root) if one.kind in {"prepared", "converted"}]
    found = [one for place in places for one in troubles(place, open_data)]
    if json:
        print_json(found)
    else:
        for one in found:
            print_plain(f"{one.message}\n  {one.path}\n  cause: {one.cause}\n  do: {one.action}")
        note(f"{count_of(len(places), 'cache')} checked, {count_of(len(found), 'fault')} found")
    return FOUND if found else 0


def du(*, cache_root: Root = None, json: Json = False) -> int:
    """Show the disk use of each kind of entry, and the free space.

    Each venv's size includes the files that it shares with others, which are on disk once.

    Examples:
      skymark cache du
      skymark cache du --cache-root /shared/caches
    """
    import shutil

    from skymark.cache.entries import entries

    root = root_of(cache_root)
    totals: dict[str, list[int]] = {}
    for one in entries(root):
        totals.setdefault(one.kind, []).append(one.size_bytes)
    free = shutil.disk_usage(next(one for one in (root, *root.parents) if one.exists())).free
    if json:
        rows = [{"kind": k, "entries": len(v), "size_bytes": sum(v)} for k, v in totals.items()]
        print_json({"kinds": rows, "free_bytes": free})
        return 0
    print_rows(
        ("kind", "entries", "size"),
        [
            *((kind, str(len(sizes)), size(sum(sizes))) for kind, sizes in totals.items()),
            ("all", str(sum(map(len, totals.values()))), size(sum(map(sum, totals.values())))),
            ("free", "", size(free)),
        ],
    )
    return 0


def clean(
    *names: Annotated[str, Parameter(help="Names from `skymark cache list`. [default: all]")],
    kind: Annotated[
        tuple[str, ...],
        Several,
        Parameter(metavar="KIND...", help="Only these kinds, as in `skymark cache list`."),
    ] = (),
    unused_days: Annotated[
        float, DAYS, Parameter(help="Keep entries that were used in the last DAYS days.")
    ] = 0,
    dry_run: Annotated[bool, Parameter(help="List the entries, and remove nothing.")] = False,
    cache_root: Root = None,
    json: Json = False,
) -> int:
    """Remove entries that no live job or run uses; skymark makes them again when it needs them.

    Keeps entries that are in use or belong to another user, and names them.

    Examples:
      skymark cache clean --unused-days 30 --dry-run
      skymark cache clean --kind venv
    """
    from skymark.cache.entries import FOLDERS
    from skymark.cache.entries import clean as clean_entries

    for name in kind:
        if name not in FOLDERS.values():
            raise UnknownNameError("kind", name, set(FOLDERS.values()))
    done = list(clean_entries(root_of(cache_root), names, kind, unused_days, dry=dry_run))
    if json:
        print_json(done)
        return 0
    for one in done:
        if one.kept is not None:
            print_plain(f"kept {one.name}: {one.kept}")
        else:
            word = "would remove" if dry_run else "removed"
            print_plain(f"{word} {one.name}: {size(one.size_bytes)}")
    return 0


def _place(root: Path, name: str) -> Path:
    for place in (root / name, Path(name)):
        if place.is_dir():
            return place
    raise UsageError(
        f"no cache {name} below {root}, and no such directory; `skymark cache list` shows names"
    )
