"""`skymark cache`: data sets, venvs and libraries' caches on this disk, for one job or many."""

from __future__ import annotations

import json as json_module
import os
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from skymark.cache.location import cache_directory
from skymark.cache.policy import Policy
from skymark.cli.cache_options import (
    DataOfRuns,
    Field,
    Jobs,
    PolicyOption,
    Prepare,
    Python,
    Root,
    Sources,
    UseOption,
)
from skymark.cli.caller import end_when_told, note, print_json, print_plain, say
from skymark.cli.parameters import COUNT, SECONDS, Several
from skymark.cli.tables import Json, print_rows
from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.cache.choosing import Choice
    from skymark.cache.recipe import Recipe

cache = App(
    name="cache",
    help="""Keep the caches of many jobs apart, or build one for all; list, verify and clean.""",
)

FOUND = 1
NOT_FOUND = 127


@cache.command
def plan(
    *sources: Sources,
    jobs: Jobs = None,
    uses: UseOption = "once",
    cache_root: Root = None,
    measure: Annotated[
        bool,
        Parameter(help="Measure this machine and the disk of --cache-root first (some seconds)."),
    ] = False,
    python: Python = None,
    explain: Annotated[
        bool, Parameter(help="Print the figures that the choice rests on, too.")
    ] = False,
    json: Json = False,
) -> int:
    """Say which cache policy fits a data set, why, and what else there is.

    The limits in the table come from rates of this machine, where --measure has measured them; else
    from those of the machine that the documentation was made on.
    """
    from skymark.cache.thresholds import known_rates, measure_rates

    root = _root(cache_root)
    rates = measure_rates(root, python) if measure else known_rates(root)
    choice = _choice(root, sources, jobs, uses)
    if json:
        print_json(choice.model_dump_json(indent=1))
        return 0
    _print_choice(choice)
    if explain:
        case = choice.case
        print_rows(
            ("figure", "value"),
            [
                *((name, f"{value:,}") for name, value in rates.model_dump().items()),
                *((name, f"{value}") for name, value in case.model_dump().items()),
            ],
        )
    return 0


@cache.command
def build(
    *sources: Sources,
    data: DataOfRuns = None,
    field: Field = None,
    prepare: Prepare = None,
    cache_policy: Annotated[
        Literal["shared", "prebuilt", "parquet", "parquet+shared"],
        Parameter(help="What to build: shared, prebuilt (sealed), parquet, or parquet+shared."),
    ] = "prebuilt",
    cache_root: Root = None,
    python: Python = None,
    to: Annotated[
        Literal["parquet", "arrow"],
        Parameter(
            help="With parquet: sharded Parquet for streaming, or an Arrow directory for "
            "load_from_disk, which takes more room and is read at random at once."
        ),
    ] = "parquet",
    shards: Annotated[
        int | None,
        COUNT,
        Parameter(
            help="Files of each split; at least as many as workers that stream it. [default: by "
            "size]"
        ),
    ] = None,
) -> int:
    """Build a cache, or convert a data set, before the jobs start.

    Who comes first builds; others that come meanwhile wait. Prints where it is, and the call that
    reads it.

    Exit status: 0 it is there, 1 it could not be built, 2 bad usage.
    """
    from skymark.cache.conversion import convert, converted_recipe
    from skymark.cache.prepared import build_prepared

    root, policy = _root(cache_root), Policy(cache_policy)
    if data is not None:
        from skymark.cli.cache_for_runs import build_for_runs

        beside = (sources, field, prepare, python, to != "parquet", shards)
        return build_for_runs(root, data, policy, beside)
    if (to == "arrow" or shards is not None) and not policy.converts:
        raise UsageError("--to and --shards go with --cache-policy parquet or parquet+shared")
    if to == "arrow" and (policy is not Policy.PARQUET or shards is not None):
        raise UsageError("--to arrow goes with --cache-policy parquet alone, and has no --shards")
    needs_library = policy is not Policy.PARQUET or to == "arrow"
    recipe = _recipe(sources, field, prepare, python, needs_library=needs_library)
    if not policy.converts:
        entry = build_prepared(
            root, recipe, policy=policy, sealed=policy is Policy.PREBUILT, announce=note
        )
        print_plain(f"{recipe.data_set}: {entry}")
        if recipe.snippet:
            print_plain(f"read it with: {recipe.snippet}")
        return 0
    with ExitStack() as stack:
        content = convert(root, recipe, stack, form=to, shards=shards, announce=note)
        _print_before_and_after(recipe, content, to)
        if policy is Policy.PARQUET_SHARED:
            again = converted_recipe(recipe, content)
            print_plain(f"shared: {build_prepared(root, again, policy=policy, announce=note)}")
    return 0


@cache.command
def use(
    *command: Annotated[str, Parameter(help="The job's command, behind --.")],
    data: Annotated[
        tuple[str, ...],
        Several,
        Parameter(help="Files or http addresses of the data set, as `cache build` has them."),
    ] = (),
    field: Field = None,
    prepare: Prepare = None,
    cache_policy: PolicyOption = "auto",
    cache_root: Root = None,
    python: Python = None,
    jobs: Jobs = None,
    uses: UseOption = "once",
    stagger: Annotated[
        float, SECONDS, Parameter(help="With staggered: seconds between the starts of two jobs.")
    ] = 5.0,
) -> int:
    """Run a job's command with a cache that no other job can break.

    Sets the variables that its libraries take their caches from, builds or waits for what the
    policy shares, keeps that from being removed, and clears away what was this job's own, also
    after a crash: the next job does it then.

    Exit status: the command's own; 1 the cache could not be built, 2 bad usage.
    """
    from skymark.cache.providing import provided

    if not command:
        raise UsageError("give the job's command behind --, such as -- python train.py")
    root, policy = _root(cache_root), Policy(cache_policy)
    if policy is Policy.AUTO:
        choice = _choice(root, data, jobs, uses)
        note(f"cache policy auto: {choice.policy}, for {choice.reason}")
        policy = choice.policy
        if policy is Policy.PREBUILT:  # which only somebody who plans can have built
            policy = Policy.SHARED
            note("nothing was prebuilt, so it is shared; `skymark cache build` prebuilds it")
    recipe = None
    if policy.needs_data_set:
        needs_library = policy is not Policy.PARQUET
        recipe = _recipe(data, field, prepare, python, needs_library=needs_library)
    end_when_told()
    with provided(
        policy, recipe, root, os.environ, note, addresses=data, stagger_s=stagger
    ) as variables:
        return _run(command, variables)


@cache.command(name="list")
def list_entries(*, cache_root: Root = None, json: Json = False) -> int:
    """List data sets, pixel maps, venvs and libraries' caches, with who uses them."""
    from skymark.cache.entries import entries
    from skymark.report.text import size

    found = list(entries(_root(cache_root)))
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


@cache.command
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

    Of a directory that skymark has not built, such as ~/.cache/huggingface/datasets, it finds what
    was cut off, what is half-built, what may not be read, and a disk that is full.

    Exit status: 0 all is well, 1 something is wrong, 2 there is no such cache.
    """
    from skymark.cache.entries import entries
    from skymark.cache.troubles import troubles

    root = _root(cache_root)
    places = [_place(root, name) for name in names]
    if not names:
        places = [one.path for one in entries(root) if one.kind in {"prepared", "converted"}]
    found = [one for place in places for one in troubles(place)]
    if json:
        print_json(json_module.dumps([one.model_dump() for one in found], indent=1))
    else:
        for one in found:
            print_plain(f"{one.message}\n  {one.path}\n  cause: {one.cause}\n  do: {one.action}")
        note(f"{len(places)} looked at, {len(found)} troubles found")
    return FOUND if found else 0


@cache.command
def du(*, cache_root: Root = None, json: Json = False) -> int:
    """Say how much disk each kind of entry takes, and what is free.

    Files that several venvs share are on disk once; they are counted in each.
    """
    import shutil

    from skymark.cache.entries import entries
    from skymark.report.text import size

    root = _root(cache_root)
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


@cache.command
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
    from skymark.cache.cleaning import clean as clean_entries
    from skymark.cache.entries import FOLDERS
    from skymark.model.errors import UnknownNameError
    from skymark.report.text import size

    for name in kind:
        if name not in FOLDERS.values():
            raise UnknownNameError("kind", name, set(FOLDERS.values()))
    done = list(clean_entries(_root(cache_root), names, kind, unused_days, dry=dry_run))
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


def _root(chosen: Path | None) -> Path:
    return cache_directory() if chosen is None else chosen.expanduser().resolve()


def _recipe(
    sources: Sequence[str],
    field: str | None,
    prepare: str | None,
    python: str | None,
    *,
    needs_library: bool,
) -> Recipe:
    from skymark.cache.recipe import recipe_of

    return recipe_of(
        tuple(sources),
        field=field,
        prepare=tuple(shlex.split(prepare or "")),
        python=python or "python",
        needs_library=needs_library,
    )


def _choice(
    root: Path, sources: Sequence[str], jobs: int | None, uses: Literal["once", "often"]
) -> Choice:
    from skymark.cache.choosing import case_of, choose
    from skymark.cache.sources import look_at_all
    from skymark.cache.thresholds import known_rates

    sizes = [found.size_bytes for one in sources for found in look_at_all(one)]
    size = None if not sizes or None in sizes else sum(one or 0 for one in sizes)
    return choose(case_of(root, size, jobs, uses), known_rates(root))


def _print_choice(choice: Choice) -> None:
    print_plain(f"{choice.policy}: {choice.reason}")
    print_rows(
        ("policy", "use", "size", "jobs", "why", ""),
        (
            (
                *(one.policy, one.use, one.size, one.jobs, one.why),
                "←" * (one.policy is choice.policy),
            )
            for one in choice.rows
        ),
    )
    if not choice.rates.measured:
        note("the limits are another machine's; --measure makes them this one's")


def _print_before_and_after(
    recipe: Recipe, content: Path, form: Literal["parquet", "arrow"]
) -> None:
    from skymark.cache.conversion import snippet_after

    files = sorted(path for path in content.rglob("*") if path.is_file())
    held = sum(path.stat().st_size for path in files)
    before = "of unknown size" if recipe.source_bytes is None else f"{recipe.source_bytes:,} bytes"
    print_plain(f"before: {len(recipe.sources)} {recipe.kind} files, {before}")
    print_plain(f"        {recipe.snippet}")
    print_plain(f"after:  {len(files)} files, {held:,} bytes, in {content}")
    print_plain(f"        {snippet_after(content.parent, form, tuple(recipe.data_files))}")


def _place(root: Path, name: str) -> Path:
    for place in (root / name, Path(name)):
        if place.is_dir():
            return place
    raise UsageError(f"{name} is neither below {root} nor a directory; `skymark cache list`")


def _run(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a job's command to its end, also where this process is told to stop."""
    from skymark.cache.jobs import note_command
    from skymark.cache.library_variables import JOB_VARIABLE

    try:
        process = subprocess.Popen(command, env={**os.environ, **variables})
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return NOT_FOUND
    try:
        note_command(Path(variables[JOB_VARIABLE]), process.pid)
        status = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return 128 - status if status < 0 else status
