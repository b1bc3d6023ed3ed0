"""The machine, its platform and the software that a run was made with."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Count, Frozen, Moment, NonNegative, digest_of

DiskKind = Literal["nvme", "ssd", "hdd", "virtual", "network", "memory"]


class Accelerator(Frozen):
    """One accelerator as its driver names it."""

    name: str
    memory_bytes: Count | None = None
    driver: str | None = None


class Hardware(Frozen):
    """Hardware of a machine. Null is unknown."""

    architecture: str
    cpu_model: str | None
    physical_cores: Count | None
    logical_cores: Count | None
    memory_bytes: Count | None
    disk_kind: DiskKind | None
    """Of the disk that holds the data under test."""
    accelerators: tuple[Accelerator, ...] | None
    """Null where there is a driver that could not be asked; empty where there is none."""


SIMULATED = "sky-rehearsal"
"""Kind of container of a machine that `sky_rehearsal` simulates."""


class ProcessLimits(Frozen):
    """Limits of this process. Null is no limit that could be found."""

    usable_cores: Count | None
    """Logical cores that the affinity mask allows."""
    cpu_quota_cores: NonNegative | None
    """CPU time per time that the control group allows."""
    cpu_throttled_share: NonNegative | None
    """Share of the control group's periods so far in which it ran into that quota."""
    memory_limit_bytes: Count | None
    container: str | None
    """``docker``, ``podman``, ``kubernetes`` …; null outside a container."""

    @property
    def simulated(self) -> bool:
        """Whether the machine is simulated: it has no accelerator, and its figures mean nothing."""
        return self.container == SIMULATED


class Load(Frozen):
    """Load of the machine when the run began. Null is unknown."""

    load_average_1m: NonNegative | None
    cpu_busy_share: NonNegative | None
    """Share of all cores' time that was used while nothing of skymark ran."""
    memory_available_bytes: Count | None
    swap_used_bytes: Count | None
    disk_free_bytes: Count | None
    cpu_governor: str | None
    turbo: bool | None
    on_battery: bool | None


class GitState(Frozen):
    """The commit that skymark itself was run from."""

    commit: str
    dirty: bool


class MachineState(Frozen):
    """The machine of a run: hardware, limits, load and software."""

    captured_at: Moment
    hardware: Hardware
    limits: ProcessLimits
    load: Load
    system: str
    """Operating system and kernel, such as ``Linux 6.8.0``."""
    filesystem: str | None
    """Type of the file system that holds the data under test, such as ``ext4``."""
    python: str
    """Implementation and version, such as ``CPython 3.11.9``."""
    skymark: str
    git: GitState | None
    """Null where skymark was installed from a package."""

    @property
    def name(self) -> str:
        """The machine as a person would call it: processor and accelerators."""
        chips = [one.name for one in self.hardware.accelerators or ()]
        return ", ".join([self.hardware.cpu_model or self.hardware.architecture, *chips])

    @property
    def hardware_key(self) -> str:
        """A digest that is equal for results that may be compared: same machine type and limits.

        Memory counts in whole GiB, because kernels of one machine type reserve differing amounts.
        """
        hardware = self.hardware.model_dump(mode="json")
        hardware["memory_bytes"] = round((self.hardware.memory_bytes or 0) / 2**30)
        for accelerator in hardware["accelerators"] or []:
            del accelerator["driver"]
        limits = self.limits
        allowed = [limits.usable_cores, limits.cpu_quota_cores, limits.memory_limit_bytes]
        return digest_of([hardware, allowed])


Platform = Literal["cpu", "gpu", "tpu"]
"""The kind of machine that a plan asks for."""

Target = Literal["cpu", "cuda12", "cuda13", "tpu"]
"""The kind of machine that packages are built for: those for a GPU depend on CUDA's version."""


def usual_target(platform: Platform) -> Target:
    """Return the target whose packages work on every machine of a platform, whatever its driver."""
    return "cuda12" if platform == "gpu" else platform


def platform_of(target: Target) -> Platform:
    """Return the platform that a target belongs to."""
    return "gpu" if target in {"cuda12", "cuda13"} else "tpu" if target == "tpu" else "cpu"
