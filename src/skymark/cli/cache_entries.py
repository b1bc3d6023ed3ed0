"""Commands of `skymark cache` on what is there: list, verify, du and clean."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cache.location import root_of
from skymark.cli.cache_options import Root
from skymark.cli.caller import note, print_json, print_plain
from skymark.cli.parameters import SECONDS, Several
from skymark.cli.tables import Json, print_rows
from skymark.model.errors import UsageError

FOUND = 1


def list_entries(*, cache_root: Root = None, json: Json = False) -> int:
    """List data sets, pixel maps, venvs and libraries' caches, with who uses them."""
    from skymark.cache.entries import entries
    from skymark.report.text import size

    found = list(entries(root_of(cache_root)))
    if json:
        print_json(json_module.dumps([one.model_dump(mode="json") for one in found], indent=1))
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
            help="As `skymark cache list` shows them, or any directory, such as a library's own "
            "cache; all built caches, if none is given."
        ),
    ],
    cache_root: Root = None,
    json: Json = False,
) -> int:
    """Read caches back, compare every file with its digest, and explain what is wrong.

    The files that a built cache was made of are looked at, too: one that is gone, cut off or
    changed since is named, with what to do. Of a directory that skymark has not built, such as
    ~/.cache/huggingface/datasets, it finds what was cut off, what is half-built, what may not be
    read, and a disk that is full.

    Exit status: 0 all is well, 1 something is wrong, 2 there is no such cache.
    """
    from skymark.cache.entries import entries
    from skymark.cache.troubles import troubles
    from skymark.execute.run_caches import open_data

    root = root_of(cache_root)
    places = [_place(root, name) for name in names]
    if not names:
        places = [one.path for one in entries(root) if one.kind in {"prepared", "converted"}]
    found = [one for place in places for one in troubles(place, open_data)]
    if json:
        print_json(json_module.dumps([one.model_dump() for one in found], indent=1))
    else:
        for one in found:
            print_plain(f"{one.message}\n  {one.path}\n  cause: {one.cause}\n  do: {one.action}")
        note(f"{len(places)} looked at, {len(found)} troubles found")
    return FOUND if found else 0


def du(*, cache_root: Root = None, json: Json = False) -> int:
    """Say how much disk each kind of entry takes, and what is free.

    Files that several venvs share are on disk once; they are counted in each.
    """
    import shutil

    from skymark.cache.entries import entries
    from skymark.report.text import size

    root = root_of(cache_root)
    totals: dict[str, list[int]] = {}
    for one in entries(root):
        totals.setdefault(one.kind, []).append(one.size_bytes)
    free = shutil.disk_usage(next(one for one in (root, *root.parents) if one.exists())).free
    if json:
        rows = [{"kind": k, "entries": len(v), "size_bytes": sum(v)} for k, v in totals.items()]
        print_json(json_module.dumps({"kinds": rows, "free_bytes": free}, indent=1))
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
    *names: Annotated[
        str, Parameter(help="As `skymark cache list` shows them; all, if none is given.")
    ],
    kind: Annotated[
        tuple[str, ...],
        Several,
        Parameter(help="Of these kinds alone, as `skymark cache list` shows them."),
    ] = (),
    unused_days: Annotated[
        float, SECONDS, Parameter(help="Leave what was used within so many days.")
    ] = 0,
    dry_run: Annotated[bool, Parameter(help="Say what would go, and remove nothing.")] = False,
    cache_root: Root = None,
    json: Json = False,
) -> int:
    """Remove what no live job or run uses, and what dead ones left; it is made again when needed.

    What is in use, or another user's, stays and is named.
    """
    from skymark.cache.entries import FOLDERS
    from skymark.cache.entries import clean as clean_entries
    from skymark.model.errors import UnknownNameError
    from skymark.report.text import size

    for name in kind:
        if name not in FOLDERS.values():
            raise UnknownNameError("kind", name, set(FOLDERS.values()))
    done = list(clean_entries(root_of(cache_root), names, kind, unused_days, dry=dry_run))
    if json:
        print_json(json_module.dumps([one.model_dump() for one in done], indent=1))
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
    raise UsageError(f"{name} is neither below {root} nor a directory; `skymark cache list`")
