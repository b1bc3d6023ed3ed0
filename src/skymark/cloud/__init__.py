"""Rented machines: quote, launch, execute, submit, and manage existing machines.

Every function takes the requests of `skymark.model.requests`; nothing is imported before it is
used. SkyPilot has a venv of its own, which `skymark env cloud` makes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.cloud.checkup import Checkup as Checkup
    from skymark.cloud.checkup import Provider as Provider
    from skymark.cloud.checkup import check_up as check_up
    from skymark.cloud.launching import Estimate as Estimate
    from skymark.cloud.launching import execute as execute
    from skymark.cloud.launching import follow_commands as follow_commands
    from skymark.cloud.launching import launch as launch
    from skymark.cloud.launching import queue_commands as queue_commands
    from skymark.cloud.launching import quote as quote
    from skymark.cloud.lifecycle.queued_jobs import Submitted as Submitted
    from skymark.cloud.lifecycle.stages import Callbacks as Callbacks
    from skymark.cloud.lifecycle.stages import Ended as Ended
    from skymark.cloud.lifecycle.stages import InterruptAnswer as InterruptAnswer
    from skymark.cloud.lifecycle.stages import Kept as Kept
    from skymark.cloud.lifecycle.stages import Left as Left
    from skymark.cloud.lifecycle.stages import Quoted as Quoted
    from skymark.cloud.lifecycle.stages import Retrieved as Retrieved
    from skymark.cloud.machines import cancel as cancel
    from skymark.cloud.machines import collect as collect
    from skymark.cloud.machines import down as down
    from skymark.cloud.machines import names_of_machines as names_of_machines
    from skymark.cloud.machines import profile_of_machine as profile_of_machine
    from skymark.cloud.machines import run_of_machine as run_of_machine
    from skymark.cloud.machines import show_log as show_log
    from skymark.cloud.machines import status as status
    from skymark.cloud.own_venv import cloud_venv as cloud_venv
    from skymark.cloud.own_venv import has_skypilot as has_skypilot
    from skymark.cloud.own_venv import make_cloud_venv as make_cloud_venv
    from skymark.cloud.own_venv import program_there as program_there
    from skymark.cloud.sky.client import advice_for_here as advice_for_here
    from skymark.cloud.sky.client import sky_program as sky_program
    from skymark.cloud.sky.clusters import LiveMachine as LiveMachine
    from skymark.cloud.sky.jobs import JobEnd as JobEnd
    from skymark.cloud.sky.jobs import QueuedJob as QueuedJob
    from skymark.cloud.sky.jobs import queued_jobs as queued_jobs
    from skymark.cloud.sky.ssh import copy as copy
    from skymark.cloud.sky.ssh import shell as shell
    from skymark.cloud.submitting import QuotedParts as QuotedParts
    from skymark.cloud.submitting import QuotedSlots as QuotedSlots
    from skymark.cloud.submitting import SubmittedParts as SubmittedParts
    from skymark.cloud.submitting import submit as submit
    from skymark.cloud.submitting import submit_managed as submit_managed

_NAMES = {
    "checkup": ("Checkup", "Provider", "check_up"),
    "launching": ("Estimate", "execute", "follow_commands", "launch", "queue_commands", "quote"),
    "lifecycle.queued_jobs": ("Submitted",),
    "lifecycle.stages": (
        "Callbacks",
        "Ended",
        "InterruptAnswer",
        "Kept",
        "Left",
        "Quoted",
        "Retrieved",
    ),
    "machines": (
        "cancel",
        "collect",
        "down",
        "names_of_machines",
        "profile_of_machine",
        "run_of_machine",
        "show_log",
        "status",
    ),
    "own_venv": ("cloud_venv", "has_skypilot", "make_cloud_venv", "program_there"),
    "sky.client": ("advice_for_here", "sky_program"),
    "sky.clusters": ("LiveMachine",),
    "sky.jobs": ("JobEnd", "QueuedJob", "queued_jobs"),
    "sky.ssh": ("copy", "shell"),
    "submitting": ("QuotedParts", "QuotedSlots", "SubmittedParts", "submit", "submit_managed"),
}
"""The names of the API by their modules."""
_PLACES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name of the API when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
