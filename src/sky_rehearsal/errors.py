"""Errors of the simulated cloud."""

from __future__ import annotations


class RehearsalError(Exception):
    """The simulated cloud, a machine in it or its SkyPilot did not come up or did not end."""


class UnfitError(RehearsalError):
    """This machine cannot hold a simulated cloud, or a request to the cloud is impossible."""


class PortTakenError(RehearsalError):
    """Another process took a port first."""
