"""Rented machines: quote, launch, execute, submit, and manage existing machines.

Every function takes the requests of `skymark.model.requests`; nothing is imported before it is
used. SkyPilot has a venv of its own, which `skymark env cloud` makes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.cloud.checkup import Checkup, Provider, check_up
    from skymark.cloud.launching import (
        Estimate,
        execute,
        follow_commands,
        launch,
        queue_commands,
        quote,
    )
    from skymark.cloud.lifecycle.queued_jobs import Submitted
    from skymark.cloud.lifecycle.stages import (
        Callbacks,
        Ended,
        InterruptAnswer,
        Kept,
        Left,
        Quoted,
        Retrieved,
    )
    from skymark.cloud.machines import (
        cancel,
        collect,
        down,
        names_of_machines,
        profile_of_machine,
        run_of_machine,
        show_log,
        status,
    )
    from skymark.cloud.own_venv import cloud_venv, has_skypilot, make_cloud_venv, program_there
    from skymark.cloud.sky.client import advice_for_here, sky_program
    from skymark.cloud.sky.clusters import LiveMachine
    from skymark.cloud.sky.jobs import JobEnd, QueuedJob, queued_jobs
    from skymark.cloud.sky.ssh import copy, shell
    from skymark.cloud.submitting import (
        QuotedParts,
        QuotedSlots,
        SubmittedParts,
        submit,
        submit_managed,
    )

_MODULES = (
    *("own_venv", "sky.client", "sky.clusters", "sky.jobs", "sky.ssh", "lifecycle.stages"),
    *("lifecycle.queued_jobs", "machines", "checkup", "launching", "submitting"),
)
"""Modules of the API, each of which imports no later one."""

__all__ = [
    "Callbacks",
    "Checkup",
    "Ended",
    "Estimate",
    "InterruptAnswer",
    "JobEnd",
    "Kept",
    "Left",
    "LiveMachine",
    "Provider",
    "QueuedJob",
    "Quoted",
    "QuotedParts",
    "QuotedSlots",
    "Retrieved",
    "Submitted",
    "SubmittedParts",
    "advice_for_here",
    "cancel",
    "check_up",
    "cloud_venv",
    "collect",
    "copy",
    "down",
    "execute",
    "follow_commands",
    "has_skypilot",
    "launch",
    "make_cloud_venv",
    "names_of_machines",
    "profile_of_machine",
    "program_there",
    "queue_commands",
    "queued_jobs",
    "quote",
    "run_of_machine",
    "shell",
    "show_log",
    "sky_program",
    "status",
    "submit",
    "submit_managed",
]


def __getattr__(name: str) -> Any:
    """Import a name of the API when it is first used."""
    for place in _MODULES if name in __all__ else ():
        module = import_module(f"{__name__}.{place}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
