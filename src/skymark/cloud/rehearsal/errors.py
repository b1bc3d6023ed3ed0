"""Errors of rehearsals."""

from __future__ import annotations

from skymark.model.errors import SkymarkError, UsageError


class RehearsalUnfitError(UsageError):
    """This machine cannot hold a rehearsal: not Linux, not root, or a program is missing."""


class RehearsalError(SkymarkError):
    """The simulated cloud, a machine in it or its SkyPilot did not come up."""

    exit_code = 1


class PortTakenError(RehearsalError):
    """Somebody else was quicker to take a port."""
