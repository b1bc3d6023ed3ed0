"""`skymark fetch`, and messages about the contents of stores."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.tables import Json
from skymark.model.errors import UsageError
from skymark.model.sizes import count_of, some_of

if TYPE_CHECKING:
    from skymark.store.storing import Stored


def say_what_was_stored(stored: Iterable[Stored], path: Path) -> None:
    """Print each store's contents on standard error, with the command that completes it."""
    for one in stored:
        if one.ok:
            read = (
                f"stored in {one.url}: {count_of(one.files, 'file')}, read back"
                if one.files
                else ""
            )
            note(". ".join(part for part in (read, one.note) if part))
            continue
        lacking = f" ({some_of(one.missing)})" if one.missing else ""
        say(
            f"NOT stored in {one.url}{lacking}: {one.problem}\n"
            f"  everything is in {path}; finish with: "
            f"skymark export {shlex.quote(str(path))} --to {shlex.quote(one.address)}"
        )


def fetch(
    url: Annotated[
        str,
        Parameter(
            help="s3://BUCKET/PREFIX/RUN-ID, wandb://ENTITY/PROJECT/ARTIFACT:ALIAS, "
            "wandb://ENTITY/PROJECT/runs/RUN-ID, or file:///DIRECTORY/RUN-ID."
        ),
    ],
    directory: Annotated[Path, Parameter(help="A new or empty directory.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Copy a run from a store into a directory.

    Compares every file with the run's digests. Nothing from the store is executed, and no file
    lands outside the directory.

    Examples:
      skymark fetch s3://BUCKET/PREFIX/RUN-ID results/RUN-ID
      skymark fetch wandb://ENTITY/PROJECT/runs/RUN-ID results/RUN-ID

    Exit status: 0 all files are right; 1 some are not, or the store does not answer; 2 no such
    run.
    """
    from skymark.rundir.reader import open_run
    from skymark.store.fetching import fetch as fetch_run
    from skymark.store.fetching import require_empty
    from skymark.store.kinds import open_source, runs_at

    require_empty(directory)
    with closing(open_source(url)) as source:
        try:
            differing = fetch_run(source, directory, announce=note)
        except FileNotFoundError as error:
            runs = runs_at(url)
            there = f"; it has the runs {', '.join(runs)}" if runs else ""
            raise UsageError(f"{error}{there}") from error
    run = open_run(directory)
    if json:
        rows = {
            "directory": str(directory),
            "records": len(run.records),
            "cells_without_record": len(run.missing),
            "problems": list(run.problems),
            "differing": list(differing),
        }
        print_json(rows)
    else:
        left = f", {count_of(len(run.missing), 'planned cell')} without a record"
        records = count_of(len(run.records), "record")
        print_plain(f"{directory}: {records}{left if run.missing else ''}")
    for problem in run.problems:
        say(problem)
    for path in differing:
        came = (directory / path).exists()
        say(f"{path} {'differs from SHA256SUMS; fetch again' if came else 'is missing'}")
    return 1 if differing or run.problems else 0
