"""Rehearsal of a whole `skymark launch` in a simulated cloud, with its bill and clean-up."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from skymark.cache.location import own_cache
from skymark.cloud.own_venv import has_skypilot, how_to_make_it
from skymark.execute.venv_specs import unpacked_bytes, venvs_of_plan
from skymark.model.errors import CloudError, UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import size_text

if TYPE_CHECKING:
    from sky_rehearsal import BillLine, Change

INFRA = "lambda"


@dataclass
class Rehearsal:
    """Outcome of a rehearsal."""

    exit_code: int = 1
    """Of `skymark launch`."""
    bill: list[BillLine] = field(default_factory=list)
    """The provider's price, by machine."""
    changes: list[Change] = field(default_factory=list)
    """The changes of this machine, and whether they were undone."""

    def lines(self) -> list[str]:
        """Return the provider's price and the changes, in lines."""
        total_usd = sum(line.cost_usd for line in self.bill)
        undone = sum(change.undone is True for change in self.changes)
        return [
            f"it cost nothing; Lambda would have asked for ${total_usd:.4f}",
            *(
                f"  {line.type} in {line.region}: {line.seconds:.0f} s at "
                f"${line.hourly_price_usd:.2f}/h, ${line.cost_usd:.4f}"
                for line in self.bill
            ),
            f"changed on this machine: {len(self.changes)}, undone: {undone}",
            *(
                f"  {change.what}: {'undone' if change.undone else change.problem or 'not undone'}"
                for change in self.changes
            ),
        ]


def require_fitness() -> None:
    """Check that this machine can hold a simulated cloud.

    Raises:
        UsageError: it is not Linux, the user is not root, or SkyPilot or a program is missing.
    """
    from sky_rehearsal import UnfitError, check_requirements

    if sys.platform == "linux" and os.geteuid() == 0 and not has_skypilot():
        raise UsageError(f"a rehearsal needs SkyPilot; {how_to_make_it()}")
    try:
        check_requirements()
    except UnfitError as error:
        advice = f": sudo {same_command()}" if os.geteuid() else ""
        raise UsageError(f"{error}{advice}") from error


def rehearse(
    profile: str,
    options: Sequence[str],
    *,
    machine: Path,
    catalogs: Path | None,
    say: Callable[[str], None],
    log: TextIO | None = None,
) -> Rehearsal:
    """Make a simulated cloud, launch a profile in it as a user would, and remove the cloud.

    Args:
        profile: as `skymark launch` takes it.
        options: of `skymark launch`, without --infra, --machine and --yes.
        machine: the SkyPilot YAML of the machine.
        catalogs: prices in place of the simulated cloud's own, in the layout of
            ``~/.sky/catalogs/v8``.
        say: told of the progress.
        log: gets the output of `skymark launch`; None for standard output.

    Raises:
        UsageError: this machine cannot hold a rehearsal.
        CloudError: something did not come up, or could not be taken away again.
    """
    from sky_rehearsal import RehearsalError, UnfitError, rehearsal_world

    outcome = Rehearsal()
    say("making a cloud on this machine")
    try:
        with rehearsal_world(catalogs=catalogs, cache=own_cache() / "rehearsal") as world:
            outcome.changes = world.changes.record
            say("the cloud is up; `skymark launch` follows")
            arguments = ["--infra", INFRA, "--yes", "--machine", os.fspath(machine)]
            launch = (sys.executable, "-P", "-m", "skymark", "launch", profile)
            # Notes about machines, for users who come back to them, go with the machines.
            cache = os.fspath(world.home / ".cache" / "skymark")
            outcome.exit_code = _run(
                world.command(*launch, *arguments, *options),
                {**world.variables(), "SKYMARK_CACHE": cache},
                log,
            )
            outcome.bill = world.cloud.bill()
            say("taking the cloud away")
    except UnfitError as error:
        raise UsageError(str(error)) from error
    except RehearsalError as error:
        raise CloudError(str(error)) from error
    return outcome


def lack_of_room(plan: Plan) -> str | None:
    """Return a warning if a plan's venvs may fill the disk of simulated machines, or None.

    A machine's venvs share no files with one another, because uv's cache lies on another disk.
    """
    directory = tempfile.gettempdir()
    needed = sum(unpacked_bytes([spec]) for spec in venvs_of_plan(plan, "cpu").values())
    free = shutil.disk_usage(directory).free
    if needed <= free:
        return None
    return (
        f"the machines install about {size_text(needed)} below {directory}, and "
        f"{size_text(free)} are free: name fewer libraries with --adapters, or a larger disk "
        "with TMPDIR"
    )


def same_command() -> str:
    """Return this program's command line as a shell takes it, by its whole path."""
    program = Path(sys.argv[0]).absolute()
    own = [sys.executable, "-m", "skymark"] if program.name == "__main__.py" else [str(program)]
    return shlex.join([*own, *sys.argv[1:]])


def _run(command: Sequence[str], variables: dict[str, str], log: TextIO | None) -> int:
    """Run a command to its end, also after Ctrl-C, which reaches it too; return its exit status."""
    # Without a terminal it asks nothing: a machine left running would go with the cloud.
    child = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=log)
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # it got the same signal, and brings the results home
                continue
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
