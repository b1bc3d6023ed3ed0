"""`skymark env`: the adapters' venvs."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated

from cyclopts import App, Parameter

from skymark.cache.location import cache_directory
from skymark.cli.tables import Json, print_rows
from skymark.execute.venvs import Venvs
from skymark.model.errors import VenvBuildError
from skymark.suites.loading.registry import adapter_slug, adapters
from skymark.suites.loading.suite import LoadingSuite

env = App(name="env")


@env.command(name="list")
def list_venvs(
    *,
    json: Json = False,
) -> int:
    """List the venvs on disk.

    Files that several venvs share are on disk once; the sizes here count them in each.
    """
    built = list(Venvs(cache_directory()).built())
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
    """Build venvs now instead of on first use."""
    venvs = Venvs(cache_directory(), announce=lambda text: print(text, file=sys.stderr))
    chosen = [adapter_slug(name) for name in names] or [
        slug for slug, cls in adapters().items() if not cls.install_hint
    ]
    failed = False
    for slug in chosen:
        try:
            built = venvs.ensure(LoadingSuite().venv(slug))
            print(f"{slug}: {built.directory}")
        except VenvBuildError as error:
            failed = True
            print(f"{error}\n{error.log_tail}", file=sys.stderr)
    return 1 if failed else 0


@env.command
def clean(
    *names: Annotated[
        str, Parameter(help="As `skymark env list` shows them; all, if none is given.")
    ],
) -> int:
    """Remove venvs; they are made again when they are needed."""
    venvs = Venvs(cache_directory())
    known = {one.name for one in venvs.built()}
    for name in names or (None,):
        # A name that is no adapter's is an error, not a silent nothing.
        chosen = name if name is None or name in known else adapter_slug(name)
        for removed in venvs.clean(chosen):
            print(f"removed {removed.name}: {removed.directory}")
    return 0
