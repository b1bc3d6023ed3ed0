"""Machine, its NVIDIA GPUs as their driver reports them, platform and software of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

from pydantic import Field

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


class GpuProcess(Frozen):
    """A process that holds memory of a GPU."""

    pid: Count
    name: str | None = None
    """Null if it is not visible, such as a process of another container."""
    memory_bytes: Count | None = None

    @property
    def text(self) -> str:
        """The process in words: ``pid 4242 (python)``."""
        return f"pid {self.pid}" if self.name is None else f"pid {self.pid} ({self.name})"


class GpuSlice(Frozen):
    """Slice of a GPU that MIG (multi-instance GPU) has divided."""

    uuid: str
    name: str
    memory_bytes: Count | None = None


class Gpu(Frozen):
    """State of an NVIDIA GPU at one moment. Null is a value that the driver does not report."""

    index: Count
    """Number in the driver's order, the order on the PCIe bus."""
    name: str
    uuid: str | None = None
    lost: str | None = None
    """The driver's error if the GPU does not answer; all other values are then null."""
    memory_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    sm_clock_mhz: Count | None = None
    sm_clock_max_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    memory_clock_max_mhz: Count | None = None
    power_w: NonNegative | None = None
    power_limit_w: NonNegative | None = None
    power_limit_default_w: NonNegative | None = None
    clock_reasons: tuple[str, ...] | None = None
    """Reasons why the clocks are below their maximum, in words."""
    temperature_c: Count | None = None
    slowdown_temperature_c: Count | None = None
    """The temperature at which the GPU starts to slow down."""
    ecc: bool | None = None
    ecc_uncorrected: Count | None = None
    """Uncorrected memory errors since the driver was loaded."""
    mig: bool | None = None
    slices: tuple[GpuSlice, ...] = ()
    persistence: bool | None = None
    pcie_generation: Count | None = None
    """Current generation; an idle link saves power in a lower generation."""
    pcie_generation_max: Count | None = None
    pcie_width: Count | None = None
    """Lanes in use."""
    pcie_width_max: Count | None = None
    processes: tuple[GpuProcess, ...] | None = None

    @property
    def title(self) -> str:
        """Its title in messages, such as ``GPU 0``."""
        return f"GPU {self.index}"

    @property
    def memory_free_bytes(self) -> int | None:
        """Free memory; None if the driver does not report it."""
        if self.memory_bytes is None or self.memory_used_bytes is None:
            return None
        return self.memory_bytes - self.memory_used_bytes


class NvidiaDriver(Frozen):
    """NVIDIA's driver as its management library NVML reports it, with the machine's GPUs."""

    version: str | None = None
    """Such as ``580.65.06``."""
    cuda: str | None = None
    """The newest version of CUDA that it runs, such as ``13.0``."""
    gpus: tuple[Gpu, ...] = ()
    fault: str | None = None
    """NVML's error if it is installed but does not work; everything else is then empty."""
    fits: bool = True
    """False if library and kernel module have different releases: CUDA does not work then."""


class GpuUse(Frozen):
    """Use of one GPU, or MIG slice, in a round's timed region. Null is unknown to the driver."""

    index: Count
    name: str
    kernel_share: NonNegative | None = None
    """Mean share of the time in which a kernel ran: NVML's utilisation over its last sampling
    period (1/6 s to 1 s)."""
    sm_clock_mhz: NonNegative | None = None
    """Mean clock of the multiprocessors."""
    power_w: NonNegative | None = None
    """Mean power of the whole board."""
    peak_memory_bytes: Count | None = None
    """Largest memory in use on it, including other processes."""
    board_energy_j: NonNegative | None = None
    """Increase of the board's energy counter."""
    throttled: dict[str, NonNegative] = Field(default_factory=dict)
    """Share of the samples in which it was slowed down, by reason that occurred."""
    other_processes: tuple[GpuProcess, ...] = ()
    """Processes of other programs that held its memory during the round."""
    is_slice: bool = False
    samples: Count
    """Number of samples of the driver."""


def combined(uses: Sequence[GpuUse]) -> GpuUse | None:
    """Return the combined use of several GPUs; None without a GPU.

    Shares and clocks are means, power and energy sums, memory the largest. A value that is
    null in one is null.
    """
    if not uses:
        return None
    powers, energies = [use.power_w for use in uses], [use.board_energy_j for use in uses]
    peaks = _whole(use.peak_memory_bytes for use in uses)
    return uses[0].model_copy(
        update={
            "kernel_share": _mean(use.kernel_share for use in uses),
            "sm_clock_mhz": _mean(use.sm_clock_mhz for use in uses),
            "power_w": None if (whole := _whole(powers)) is None else sum(whole),
            "peak_memory_bytes": None if peaks is None else int(max(peaks)),
            "board_energy_j": None if (whole := _whole(energies)) is None else sum(whole),
        }
    )


def _whole(values: Iterable[float | None]) -> list[float] | None:
    """Return the values; None if a value is missing."""
    every = list(values)
    known = [value for value in every if value is not None]
    return known if len(known) == len(every) else None


def _mean(values: Iterable[float | None]) -> float | None:
    whole = _whole(values)
    return None if whole is None else fmean(whole)
