"""`skymark status`, `rsync`, `ssh` and `down`: commands for live machines."""

from __future__ import annotations

import json as json_module
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import print_json, print_plain, say
from skymark.cli.parameters import NODE, Cluster
from skymark.cli.tables import Json, print_rows
from skymark.model.errors import SkymarkError, UsageError


def status(
    *clusters: Annotated[str, Parameter(help="These machines alone. [default: all]")],
    json: Json = False,
) -> int:
    """List the machines that are running, and what they cost; asks their providers.

    Exit status: 0, or 1 where SkyPilot does not answer: then the list has the machines that were
    hired from here.
    """
    from skymark.cloud.live import live_machines, noted_machines
    from skymark.cloud.sky.client import server_fault

    if (fault := server_fault()) is None:
        found = live_machines()
    else:
        found = noted_machines()
        say(f"{fault}. Only machines that were hired from here are known; `skymark down` ends them")
    exit_code = 0 if fault is None else 1
    if unknown := set(clusters) - {one.name for one in found}:
        raise UsageError(f"there is no machine {min(unknown)}; `skymark status` shows all")
    found = [one for one in found if not clusters or one.name in clusters]
    if json:
        print_json(json_module.dumps([one.model_dump(mode="json") for one in found], indent=1))
        return exit_code
    if not found:
        print_plain("no machine is running" if fault is None else "no machine is known here")
        return exit_code
    print_rows(
        ("machine", "status", "what", "idle timer", "USD/h", "USD so far"),
        [
            (
                one.name,
                one.status,
                one.machine,
                "none" if one.idle_minutes is None else f"{one.idle_minutes} min",
                _amount(one.hourly_price_usd, 2),
                _amount(one.cost_usd, 4),
            )
            for one in found
        ],
    )
    return exit_code


def rsync(
    source: Annotated[str, Parameter(help="CLUSTER:PATH, or a path here.")],
    target: Annotated[str, Parameter(help="A path here, or CLUSTER:PATH.")],
    /,
) -> int:
    """Copy files from a machine or to one: skymark rsync CLUSTER:PATH DIRECTORY.

    A path without a leading slash is below the machine's home; runs lie in results.
    """
    from skymark.cloud.sky.ssh import rsync as copy

    there = [place.partition(":")[0] for place in (source, target) if ":" in place]
    if len(there) != 1:
        raise UsageError("one of the two places must be CLUSTER:PATH, and the other a path here")
    # A link of a machine must not lead out of the directory that it comes to.
    copy(there[0], *(("--safe-links",) if ":" in source else ()), source, target)
    return 0


def ssh(
    cluster: Cluster,
    /,
    *command: Annotated[str, Parameter(help="Behind --. [default: a shell]")],
    node: Annotated[int, NODE, Parameter(help="Of several machines; 0 is the head.")] = 0,
) -> int:
    """Open a shell on a machine, or run a command there: skymark ssh NAME -- nvidia-smi.

    Returns the command's exit status, 255 where the machine does not answer.
    """
    from skymark.cloud.sky.ssh import shell

    return shell(cluster, command, node)


def down(
    *clusters: Annotated[str, Parameter(help="Names that `skymark status` shows.")],
    all: Annotated[
        bool, Parameter(name=("--all", "-a"), help="Every machine that skymark hired.")
    ] = False,
) -> int:
    """End machines, and return when their provider's own list has none of them left.

    Only machines that skymark hired. Ctrl-C says what remains and how to end it; a second one
    leaves.

    Exit status: 0 none is left, 1 one is still there, or not proved gone; its id, its price and
    the command that ends it are printed. 2 there is none, or it is not skymark's.
    """
    from skymark.cloud.live import down as end
    from skymark.cloud.live import names_of_machines

    if all == bool(clusters):
        raise UsageError("name machines, or give --all; `skymark status` shows what there is")
    names = names_of_machines() if all else list(clusters)
    if not names:
        print_plain("no machine is running")
    faults = []
    for name in names:  # one that does not end must not keep the others running
        try:
            print_plain(end(name, say).of(name))
        except SkymarkError as error:
            faults.append(error)
            say(str(error))
    return max((fault.exit_code for fault in faults), default=0)


def _amount(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"
