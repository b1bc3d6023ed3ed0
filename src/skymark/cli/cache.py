"""`skymark cache`: data sets, venvs and libraries' caches on this disk, for one job or many."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from skymark.cache.location import JOB_VARIABLE, Policy, root_of
from skymark.cli.cache_entries import clean, du, list_entries, verify
from skymark.cli.caller import end_when_told, note, print_json, print_plain, say
from skymark.cli.parameters import (
    COUNT,
    SECONDS,
    BuildLimit,
    DataOfRuns,
    Field,
    Jobs,
    PolicyOption,
    Prepare,
    Python,
    Root,
    Several,
    Sources,
    UseOption,
)
from skymark.cli.tables import Json, print_rows
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.cache.providing import PolicyChoice, Rates
    from skymark.cache.recipe import Recipe

cache = App(
    name="cache",
    help="""Build, list, check or remove caches of data and libraries.""",
)
cache.command(list_entries, name="list")
cache.command(verify)
cache.command(du)
cache.command(clean)

NOT_FOUND = 127


@cache.command
def plan(
    *sources: Sources,
    jobs: Jobs = None,
    uses: UseOption = "once",
    cache_root: Root = None,
    measure: Annotated[
        bool,
        Parameter(help="First measure this machine and the disk of --cache-root (some seconds)."),
    ] = False,
    python: Python = None,
    explain: Annotated[bool, Parameter(help="Also print the figures behind the choice.")] = False,
    json: Json = False,
) -> int:
    """Choose the cache policy for a data set, and compare all policies.

    The limits in the table come from this machine's rates once --measure has measured them, else
    from the rates of the documentation's machine.

    Examples:
      skymark cache plan hf://owner/name --jobs 16
      skymark cache plan ./rows --measure --explain
    """
    from skymark.cache.providing import known_rates, measure_rates

    root = root_of(cache_root)
    rates = measure_rates(root, python) if measure else known_rates(root)
    choice = _choice(root, sources, jobs, uses, rates)
    if json:
        print_json(choice.model_dump_json(indent=1))
        return 0
    _print_choice(choice)
    if explain:
        case = choice.case
        print_rows(
            ("figure", "value"),
            [
                *((name, f"{value:,}") for name, value in choice.rates.model_dump().items()),
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
        Parameter(help="Kind of cache; prebuilt is sealed."),
    ] = "prebuilt",
    cache_root: Root = None,
    python: Python = None,
    build_limit: BuildLimit = None,
    to: Annotated[
        Literal["parquet", "arrow"],
        Parameter(
            help="With parquet: sharded Parquet for streaming, or an Arrow directory for "
            "load_from_disk, which is larger and quick to read at random."
        ),
    ] = "parquet",
    shards: Annotated[
        int | None,
        COUNT,
        Parameter(help="Files of each split, at least one per worker. [default: by size]"),
    ] = None,
    json: Json = False,
) -> int:
    """Build a cache, or convert a data set, before the jobs start.

    The first process builds, and others wait for it. Prints the cache's directory and the call
    that reads it.

    Examples:
      skymark cache build hf://owner/name
      skymark cache build --data ./photos --cache-policy parquet+shared

    Exit status: 0 the cache is there; 1 it could not be built; 2 bad usage.
    """
    from skymark.cache.conversion import convert, converted_recipe
    from skymark.cache.providing import build_prepared

    root, policy = root_of(cache_root), Policy(cache_policy)
    if data is not None:
        beside = (sources, field, prepare, python, build_limit, to != "parquet", shards)
        return _build_for_runs(root, data, policy, beside, json=json)
    if (to == "arrow" or shards is not None) and not policy.converts:
        raise UsageError("--to and --shards need --cache-policy parquet or parquet+shared")
    if to == "arrow" and (policy is not Policy.PARQUET or shards is not None):
        raise UsageError("--to arrow needs --cache-policy parquet, and has no --shards")
    needs_library = policy is not Policy.PARQUET or to == "arrow"
    recipe = _recipe(sources, field, prepare, python, build_limit, needs_library=needs_library)
    if not policy.converts:
        entry = build_prepared(root, recipe, sealed=policy is Policy.PREBUILT, announce=note)
        _print_built(recipe.data_set, entry, recipe.snippet, json=json)
        return 0
    with ExitStack() as stack:
        content = convert(root, recipe, stack, form=to, shards=shards, announce=note)
        shared = None
        if policy is Policy.PARQUET_SHARED:
            again = converted_recipe(recipe, content)
            shared = build_prepared(root, again, announce=note)
        _print_before_and_after(recipe, content, to, shared, json=json)
    return 0


def _build_for_runs(
    root: Path, name: str, policy: Policy, beside: Sequence[object], *, json: bool
) -> int:
    """Build the cache of `skymark run --data`, and print the run's options.

    Args:
        root: directory of the caches.
        name: of the data.
        policy: of the runs.
        beside: values of options that only a library's cache has.
        json: print JSON.

    Raises:
        UsageError: it is not for such a policy, or other options say how a library reads the data.
        DataError: the data cannot be read.
    """
    from skymark.execute.run_caches import build_for_runs

    if not policy.needs_data_of_run or policy is Policy.PARQUET:
        raise UsageError(
            f"--data needs --cache-policy prebuilt or parquet+shared, which all runs read; under "
            f"{policy} each run makes its own"
        )
    if any(beside):
        raise UsageError(
            "--data builds the data of `skymark run --data`; leave out other sources, --field, "
            "--prepare, --python, --build-limit, --to and --shards"
        )
    address, entry = build_for_runs(root, name, note)
    command = f"skymark run --data {name} --cache-policy {policy} --cache-root {root}"
    _print_built(address, entry, command, json=json)
    return 0


def _print_built(data_set: str, entry: Path, read_with: str | None, *, json: bool) -> None:
    """Print the directory of a built cache, and the call or command that reads it."""
    if json:
        print_json({"data_set": data_set, "directory": str(entry), "read_with": read_with})
        return
    print_plain(f"{data_set}: {entry}")
    if read_with:
        print_plain(f"read it with: {read_with}")


@cache.command
def use(
    *command: Annotated[str, Parameter(help="The job's command, after --.")],
    data: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            metavar="SOURCE...",
            help="Files or http addresses of the data set, as in `cache build`.",
        ),
    ] = (),
    field: Field = None,
    prepare: Prepare = None,
    cache_policy: PolicyOption = "auto",
    cache_root: Root = None,
    python: Python = None,
    jobs: Jobs = None,
    uses: UseOption = "once",
    build_limit: BuildLimit = None,
    stagger: Annotated[
        float, SECONDS, Parameter(help="With staggered: seconds between two jobs' starts.")
    ] = 5.0,
) -> int:
    """Run a job's command with a cache that no other job can break.

    Sets the cache variables of the job's libraries. Builds the shared cache or waits for it, and
    protects it from removal. Removes the job's own cache at the end; after a crash, the next job
    removes it.

    Examples:
      skymark cache use -- python train.py
      skymark cache use --cache-policy shared --data rows.json -- python train.py

    Exit status: the command's own; 1 the cache could not be built; 2 bad usage.
    """
    from skymark.cache.providing import known_rates, provided
    from skymark.cache.sharing import refused_locks
    from skymark.execute.rank import turn_of

    if not command:
        raise UsageError("give the job's command after --, such as -- python train.py")
    root, policy = root_of(cache_root), Policy(cache_policy)
    if policy is Policy.AUTO:
        choice = _choice(root, data, jobs, uses, known_rates(root))
        note(f"cache policy auto: {choice.policy} ({choice.reason})")
        policy = choice.policy
        if policy is Policy.PREBUILT:  # nobody has built it
            policy = Policy.SHARED
            note("no prebuilt cache, so it is shared; `skymark cache build` prebuilds one")
        if policy is Policy.PER_JOB and data and (words := refused_locks(root)) is not None:
            policy = Policy.SHARED
            note(f"the file system of {root} refuses locks ({words}), so the cache is shared")
    recipe = None
    if policy.needs_data_set:
        needs_library = policy is not Policy.PARQUET
        recipe = _recipe(data, field, prepare, python, build_limit, needs_library=needs_library)
    end_when_told()
    with provided(
        policy,
        recipe,
        root,
        os.environ,
        note,
        addresses=data,
        turn=turn_of(os.environ),
        stagger_s=stagger,
    ) as variables:
        return _run(command, variables)


def _recipe(
    sources: Sequence[str],
    field: str | None,
    prepare: str | None,
    python: str | None,
    build_limit: str | None,
    *,
    needs_library: bool,
) -> Recipe:
    from skymark.cache.recipe import BUILD_LIMIT_S, recipe_of

    limit_s = BUILD_LIMIT_S if build_limit is None else seconds_of(build_limit, "--build-limit")
    return recipe_of(
        tuple(sources),
        field=field,
        prepare=tuple(shlex.split(prepare or "")),
        python=python or "python",
        limit_s=limit_s,
        needs_library=needs_library,
    )


def _choice(
    root: Path,
    sources: Sequence[str],
    jobs: int | None,
    uses: Literal["once", "often"],
    rates: Rates,
) -> PolicyChoice:
    from skymark.cache.providing import case_of, choose
    from skymark.cache.sources import look_at_all, total_bytes

    size = total_bytes([found for one in sources for found in look_at_all(one)])
    return choose(case_of(root, size, jobs, uses), rates)


def _print_choice(choice: PolicyChoice) -> None:
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
        note("the limits come from another machine's rates; --measure takes this machine's")


def _print_before_and_after(
    recipe: Recipe,
    content: Path,
    form: Literal["parquet", "arrow"],
    shared: Path | None,
    *,
    json: bool,
) -> None:
    """Print the files and calls of a data set before and after a conversion."""
    from skymark.cache.conversion import snippet_after

    files = sorted(path for path in content.rglob("*") if path.is_file())
    held = sum(path.stat().st_size for path in files)
    after = snippet_after(content.parent, form, tuple(recipe.data_files))
    if json:
        rows = {
            "before": {
                "files": len(recipe.sources),
                "kind": recipe.kind,
                "size_bytes": recipe.source_bytes,
                "read_with": recipe.snippet,
            },
            "after": {
                "files": len(files),
                "size_bytes": held,
                "directory": str(content),
                "read_with": after,
            },
            "shared": None if shared is None else str(shared),
        }
        print_json(rows)
        return
    before = "of unknown size" if recipe.source_bytes is None else f"{recipe.source_bytes:,} bytes"
    print_plain(f"before: {len(recipe.sources)} {recipe.kind} files, {before}")
    print_plain(f"        {recipe.snippet}")
    print_plain(f"after:  {len(files)} files, {held:,} bytes, in {content}")
    print_plain(f"        {after}")
    if shared is not None:
        print_plain(f"shared: {shared}")


def _run(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a job's command to its end, also if a signal stops this process."""
    from skymark.cache.sharing import note_command
    from skymark.held_interrupts import undivided

    process = None
    try:
        with undivided():
            process = subprocess.Popen(command, env={**os.environ, **variables})
        note_command(Path(variables[JOB_VARIABLE]), process.pid)
        status = process.wait()
    except BaseException as error:
        if process is not None:
            process.terminate()
            process.wait()
        elif isinstance(error, OSError):
            say(f"{command[0]}: {error.strerror}")
            return NOT_FOUND
        raise
    return 128 - status if status < 0 else status
