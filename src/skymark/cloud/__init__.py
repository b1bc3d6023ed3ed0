"""Rented machines: quote, launch, execute, submit, and whatever is there.

Every function takes the requests of `skymark.model.requests`; nothing is imported before it is
used. SkyPilot has a venv of its own, which `skymark env cloud` makes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.cloud.executing import execute, follow_commands, queue_commands
    from skymark.cloud.launching import Estimate, launch, quote
    from skymark.cloud.lifecycle.stages import Callbacks, Choice, Ended, Kept, Left, Quoted
    from skymark.cloud.machines import (
        cancel,
        collect,
        down,
        names_of_machines,
        run_of_machine,
        show_log,
        status,
    )
    from skymark.cloud.sky.jobs import queued_jobs
    from skymark.cloud.sky.ssh import copy, shell
    from skymark.cloud.submitting import submit, submit_managed

_PLACES = {
    "executing": ("execute", "follow_commands", "queue_commands"),
    "launching": ("Estimate", "launch", "quote"),
    "lifecycle.stages": ("Callbacks", "Choice", "Ended", "Kept", "Left", "Quoted"),
    "machines": (
        "cancel",
        "collect",
        "down",
        "names_of_machines",
        "run_of_machine",
        "show_log",
        "status",
    ),
    "sky.jobs": ("queued_jobs",),
    "sky.ssh": ("copy", "shell"),
    "submitting": ("submit", "submit_managed"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Callbacks",
    "Choice",
    "Ended",
    "Estimate",
    "Kept",
    "Left",
    "Quoted",
    "cancel",
    "collect",
    "copy",
    "down",
    "execute",
    "follow_commands",
    "launch",
    "names_of_machines",
    "queue_commands",
    "queued_jobs",
    "quote",
    "run_of_machine",
    "shell",
    "show_log",
    "status",
    "submit",
    "submit_managed",
]


def __getattr__(name: str) -> Any:
    """Import a name of the API when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
