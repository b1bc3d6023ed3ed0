"""Errors of rented machines."""

from __future__ import annotations

from skymark.model.errors import SkymarkError, UsageError


class CloudError(SkymarkError):
    """The provider, the machine or SkyPilot did not do as asked."""

    exit_code = 1


class MachineLostError(CloudError):
    """The machine is gone: preempted, or ended by its timer or by somebody else."""


class NameTakenError(UsageError):
    """Another launch uses this machine name, or takes it at this moment."""


class UnknownMachineError(UsageError):
    """No machine of this name was rented from here."""


class UnreachableError(CloudError):
    """The machine does not answer, or the connection to it breaks."""


class StillBillingError(CloudError):
    """A machine did not end on request; it costs money until somebody ends it."""


class NoMachineError(UsageError):
    """A machine that does not exist, as far as SkyPilot knows."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no machine {name}; `skymark status` shows the names")
