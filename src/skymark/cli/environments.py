"""`skymark env`: the adapters' environments."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

from cyclopts import App, Parameter

from skymark.cli.tables import Json, print_rows
from skymark.execute.environments import Environments
from skymark.execute.locations import cache_directory
from skymark.loading.registry import adapter_slug, adapters
from skymark.loading.suite import LoadingSuite
from skymark.model.errors import EnvironmentBuildError

env = App(name="env")


@env.command(name="list")
def list_environments(
    *,
    json: Json = False,
) -> int:
    """List the environments on disk.

    Files that several environments share are on disk once; the sizes here count them in each.
    """
    built = list(Environments(cache_directory()).built())
    rows = [
        {"name": one.name, "size_bytes": one.size_bytes, "directory": str(one.directory)}
        for one in built
    ]
    if json:
        print(json_module.dumps(rows, indent=1))
    else:
        print_rows(
            ("name", "size", "directory"),
            (
                (one.name, f"{(one.size_bytes or 0) / 1e6:.0f} MB", str(one.directory))
                for one in built
            ),
        )
    return 0


@env.command
def build(
    *names: Annotated[
        str, Parameter(help="Such as grain, or grain@0.2.17; all, if none is given.")
    ],
) -> int:
    """Build environments now instead of on first use."""
    environments = Environments(
        cache_directory(), announce=lambda text: print(text, file=sys.stderr)
    )
    chosen = [adapter_slug(name) for name in names] or [
        slug for slug, cls in adapters().items() if not cls.install_hint
    ]
    failed = False
    for slug in chosen:
        try:
            built = environments.ensure(LoadingSuite().environment(slug))
            print(f"{slug}: {built.directory}")
        except EnvironmentBuildError as error:
            failed = True
            print(f"{error}\n{error.log_tail}", file=sys.stderr)
    return 1 if failed else 0


@env.command
def clean(
    *names: Annotated[
        str, Parameter(help="As `skymark env list` shows them; all, if none is given.")
    ],
) -> int:
    """Remove environments; they are made again when they are needed."""
    environments = Environments(cache_directory())
    known = {one.name for one in environments.built()}
    for name in names or (None,):
        # A name that is no adapter's is an error, not a silent nothing.
        chosen = name if name is None or name in known else adapter_slug(name)
        for removed in environments.clean(chosen):
            print(f"removed {removed.name}: {removed.directory}")
    return 0
