"""A cloud on this machine: the real SkyPilot, with simulated machines that cost nothing.

    from sky_rehearsal import rehearsal_world

    with rehearsal_world() as world:
        subprocess.run(world.command("sky", "launch", "task.yaml"), env=world.variables())
        print(world.cloud.bill())
    print(world.changes.record)

It needs Linux and root, because a simulated machine is a set of kernel namespaces with an SSH
server in it. README.md beside this file has the rest.
"""

from __future__ import annotations

from sky_rehearsal.changes import Change
from sky_rehearsal.lambda_cloud import BillLine, Instance
from sky_rehearsal.machine import Machine
from sky_rehearsal.requirements import RehearsalError, UnfitError, check_requirements
from sky_rehearsal.world import World, rehearsal_world

__all__ = [
    "BillLine",
    "Change",
    "Instance",
    "Machine",
    "RehearsalError",
    "UnfitError",
    "World",
    "check_requirements",
    "rehearsal_world",
]
