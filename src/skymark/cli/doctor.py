"""`skymark doctor`: is this machine fit for measuring?"""

from __future__ import annotations

import json as json_module
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.tables import print_rows, stdout_console
from skymark.execute.locations import cache_directory
from skymark.measure.environment import capture
from skymark.measure.fitness import fitness_warnings
from skymark.measure.self_test import null_utilisation, own_cost_ns

THINK_MS = 1.0
UNIT = 1 << 30


def doctor(
    *, json: Annotated[bool, Parameter(help="Print JSON of the machine's state instead.")] = False
) -> int:
    """Tell what this machine is, what would disturb a measurement, and what to do about it."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    environment = capture(cache)
    warnings = fitness_warnings(environment)
    cost_ns, utilisation = own_cost_ns(), null_utilisation(THINK_MS)
    if json:
        found = {
            "environment": environment.model_dump(mode="json"),
            "warnings": [warning.model_dump() for warning in warnings],
            "own_cost_ns_per_batch": cost_ns,
            "null_loader_utilisation": utilisation,
        }
        print(json_module.dumps(found, indent=1))
        return 0
    hardware = environment.hardware
    print_rows(
        ("", ""),
        [
            ("processor", f"{hardware.cpu_model or 'unknown'}, {hardware.logical_cores} cores"),
            ("memory", f"{(hardware.memory_bytes or 0) / UNIT:.0f} GiB"),
            ("disk of the cache", f"{cache} ({hardware.disk_kind or 'unknown kind'})"),
            (
                "accelerators",
                ", ".join(one.name for one in hardware.accelerators or ()) or "none found",
            ),
            ("own cost per batch", f"{cost_ns:.0f} ns (limit 250)"),
            (
                "null loader",
                f"{utilisation:.2%} utilisation at {THINK_MS:g} ms (at least 99 %)",
            ),
        ],
    )
    console = stdout_console()
    for warning in warnings:
        console.print(f"! {warning.message}: {warning.action}", markup=False, soft_wrap=True)
    if not warnings:
        console.print("nothing was found that would disturb a measurement")
    return 0
