"""Rehearse a whole `skymark launch` in a simulated cloud, with its bill and its changes undone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skymark.cloud.rehearsal.changes import Change
from skymark.cloud.rehearsal.lambda_cloud import BillLine
from skymark.cloud.rehearsal.world import rehearsal_world
from skymark.machine.rehearsal import REHEARSAL_VARIABLE

INFRA = "lambda"


@dataclass
class Rehearsal:
    """Outcome of a rehearsal."""

    exit_code: int = 1
    """Of `skymark launch`."""
    bill: list[BillLine] = field(default_factory=list)
    """What the provider would have asked for, by machine."""
    changes: list[Change] = field(default_factory=list)
    """What was changed on this machine, and that it was undone."""


def rehearse(
    profile: str,
    options: Sequence[str],
    *,
    machine: Path,
    catalogs: Path | None,
    say: Callable[[str], None],
) -> Rehearsal:
    """Make a cloud here, launch a profile in it as a user would, and take the cloud away.

    Args:
        profile: as `skymark launch` takes it.
        options: of `skymark launch`, without --infra, --machine and --yes.
        machine: the SkyPilot YAML of the machine.
        catalogs: prices in place of those that come with skymark, laid out as below
            ``~/.sky/catalogs/v8``.
        say: told what happens.

    Raises:
        RehearsalUnfitError: this machine cannot hold a rehearsal.
        RehearsalError: something did not come up, or could not be taken away again.
    """
    went = Rehearsal()
    with tempfile.TemporaryDirectory(prefix="skymark-rehearse-") as place:
        simulated = Path(place) / machine.name
        simulated.write_text(for_rehearsal(machine.read_text()))
        say("making a cloud on this machine")
        with rehearsal_world(catalogs=catalogs) as world:
            went.changes = world.changes.record
            say("the cloud is up; what follows is `skymark launch`")
            arguments = ["--infra", INFRA, "--yes", "--machine", os.fspath(simulated)]
            launch = (sys.executable, "-P", "-m", "skymark", "launch", profile)
            command = world.command(*launch, *arguments, *options)
            went.exit_code = _run(command, world.variables())
            went.bill = world.cloud.bill()
            say("taking the cloud away")
    return went


def for_rehearsal(yaml: str) -> str:
    """Return a machine's YAML with the variable that tells it of the rehearsal."""
    line = f'  {REHEARSAL_VARIABLE}: "1"'
    found = re.search(r"^envs:[ \t]*(#.*)?$", yaml, re.MULTILINE)
    if found is None:
        return f"{yaml.rstrip()}\n\nenvs:\n{line}\n"
    return f"{yaml[: found.end()]}\n{line}{yaml[found.end() :]}"


def _run(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a command to its end, which Ctrl-C asks it for too; returns its exit status."""
    # Without a terminal it asks nothing: what is left running would go with the cloud.
    child = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL)
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
