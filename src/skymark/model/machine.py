"""Machine, platform and software of a run."""

from __future__ import annotations

from typing import Literal

from skymark.model.base import Count, Frozen, Moment, NonNegative, digest_of

DiskKind = Literal["nvme", "ssd", "hdd", "virtual", "network", "memory"]


class Accelerator(Frozen):
    """Accelerator as its driver names it."""

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
    """Kind of the disk that holds the data under test."""
    accelerators: tuple[Accelerator, ...] | None
    """Null if a driver exists but did not answer; empty without a driver."""


SIMULATED = "sky-rehearsal"
"""Kind of container of a machine that `sky_rehearsal` simulates."""


class ProcessLimits(Frozen):
    """Limits of this process. Null: no limit was found."""

    usable_cores: Count | None
    """Logical cores that the affinity mask allows."""
    cpu_quota_cores: NonNegative | None
    """CPU time per time that the control group allows."""
    cpu_throttled_share: NonNegative | None
    """Share of the control group's periods in which it reached that quota."""
    memory_limit_bytes: Count | None
    container: str | None
    """``docker``, ``podman``, ``kubernetes`` …; null outside a container."""

    @property
    def simulated(self) -> bool:
        """Whether the machine is simulated: no accelerator, and meaningless figures."""
        return self.container == SIMULATED


class Load(Frozen):
    """Load of the machine when the run began. Null is unknown."""

    load_average_1m: NonNegative | None
    cpu_busy_share: NonNegative | None
    """Share of all cores' time that other programs used."""
    memory_available_bytes: Count | None
    swap_used_bytes: Count | None
    disk_free_bytes: Count | None
    cpu_governor: str | None
    turbo: bool | None
    on_battery: bool | None


class GitState(Frozen):
    """The commit of the skymark that ran."""

    commit: str
    dirty: bool


class MachineState(Frozen):
    """Machine of a run: hardware, limits, load and software."""

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
    """Null if skymark was installed from a package."""

    @property
    def name(self) -> str:
        """Short description of the machine: processor and accelerators."""
        chips = [chip.name for chip in self.hardware.accelerators or ()]
        return ", ".join([self.hardware.cpu_model or self.hardware.architecture, *chips])

    @property
    def hardware_key(self) -> str:
        """A digest of machine type and limits: equal for comparable results.

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
"""Kind of machine that a plan needs."""

Target = Literal["cpu", "cuda12", "cuda13", "tpu"]
"""Kind of machine that packages are built for; GPU packages depend on CUDA's version."""


def usual_target(platform: Platform) -> Target:
    """Return the target whose packages work on every machine of a platform, with any driver."""
    return "cuda12" if platform == "gpu" else platform


def platform_of(target: Target) -> Platform:
    """Return the platform that a target belongs to."""
    return "gpu" if target in {"cuda12", "cuda13"} else "tpu" if target == "tpu" else "cpu"
