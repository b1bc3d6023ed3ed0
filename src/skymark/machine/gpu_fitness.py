"""Fitness of NVIDIA GPUs for measuring: each fault with its stable kind and its remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from types import MappingProxyType

from skymark.machine.nvidia import (
    IDLE,
    NO_BINDINGS,
    SLOWED_DOWN,
    USER_CLOCKS,
    VISIBLE_VARIABLE,
)
from skymark.model.base import Frozen
from skymark.model.machine import Gpu, NvidiaDriver
from skymark.model.record import Round, StabilityWarning
from skymark.model.sizes import percent, size_text

GIB = 1 << 30
LEAST_FREE_SHARE = 0.25
"""Least share of free memory: JAX takes three quarters of a GPU by default."""
UNSEEN_BYTES = GIB
"""Memory in use without a visible process that exceeds the driver's own use."""
LEAST_POWER_SHARE = 0.95
HOT_MARGIN_C = 5
LEAST_COPY_SHARE = 0.5
"""Least share of the link's rate: an H100's page-locked copies reach 55 of 63 GB/s."""

LEAST_DRIVER: Mapping[int, int] = {12: 525, 13: 580}
"""Branch of the driver by the major version of CUDA of a library's build. Source: CUDA Toolkit
release notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version
Compatibility"."""

LANE_BYTES_PER_S: Mapping[int, float] = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""Bytes per second of a PCIe lane by generation: transfers per second and their encoding, from the
PCI Express Base Specification."""

CUDA_BUILD = re.compile(
    r"cu(\d\d)\d+$|nvidia-cuda-runtime-cu(\d+)|(?:nvidia-cuda-runtime|cuda-toolkit)\b[^=<>~]*[=<>~]+(\d+)"
)
"""Major version of CUDA in the local part of torch's version, or in its requirements."""

STOPS_A_RUN = frozenset({"driver-mismatch", "driver-too-old", "gpu-full", "gpu-lost", "mig-empty"})
"""Kinds of faults that prevent any measurement."""


class CopyRates(Frozen):
    """Rates of copies from host memory to a GPU, in bytes per second; null if not measured."""

    framework: str
    page_locked: float | None = None
    pageable: float | None = None


def driver_faults(driver: NvidiaDriver) -> Iterator[StabilityWarning]:
    """Yield the faults of a driver itself."""
    if driver.fault is None:
        return
    if driver.fault == NO_BINDINGS:
        yield StabilityWarning(
            kind="driver-not-asked",
            message=f"the state of the GPUs is unknown: {driver.fault}",
            action="pip install nvidia-ml-py; records have no figures of the GPU else",
        )
    elif not driver.fits:
        yield StabilityWarning(
            kind="driver-mismatch",
            message=f"NVIDIA's driver was changed while it ran: {driver.fault}",
            action="restart the machine, or the container",
        )
    else:
        yield StabilityWarning(
            kind="driver-fault",
            message=f"NVIDIA's library of the driver does not work: {driver.fault}",
            action="try `nvidia-smi`, which asks the same library, and restart the machine or the "
            "container if that does not work; records have no figures of the GPU else",
        )


def age_faults(
    driver: str | None, cuda: str | None, builds: Mapping[str, int]
) -> Iterator[StabilityWarning]:
    """Yield a fault for each library that is built for a newer CUDA than the driver runs.

    Args:
        driver: its version, such as ``535.183.06``; None if unknown.
        cuda: the newest version of CUDA that it runs, such as ``12.2``; None if unknown.
        builds: major version of CUDA by library.
    """
    for library, major in builds.items():
        least = LEAST_DRIVER.get(major)
        if driver is None or least is None:
            continue
        number = cuda or driver
        if int(number.partition(".")[0]) >= (least if cuda is None else major):
            continue
        runs = "" if cuda is None else f", which runs CUDA {cuda} at most"
        yield StabilityWarning(
            kind="driver-too-old",
            message=f"{library} is built for CUDA {major}, and the driver is {driver}{runs}",
            action=f"install NVIDIA's driver {least} or newer, choose another machine, or install "
            f"a build of {library} for an older CUDA",
        )


def cuda_builds() -> dict[str, int]:
    """Return the major version of CUDA of this interpreter's torch and JAX, without CPU builds.

    It is read from metadata, without importing the libraries.
    """
    versions: dict[str, int] = {}
    with suppress(metadata.PackageNotFoundError):
        texts = metadata.version("torch").partition("+")[2], *(metadata.requires("torch") or ())
        if said := next(filter(None, map(CUDA_BUILD.match, texts)), None):
            versions["torch"] = int(next(filter(None, said.groups())))
    for major in LEAST_DRIVER:
        with suppress(metadata.PackageNotFoundError):
            metadata.version(f"jax-cuda{major}-plugin")
            versions["jax"] = major
    return versions


def gpu_faults(
    gpus: Sequence[Gpu],
    copies: Mapping[int, Sequence[CopyRates]] = MappingProxyType({}),
    fraction: float = 1.0,
) -> Iterator[StabilityWarning]:
    """Yield the faults of GPUs; each GPU's worst fault comes first.

    Args:
        gpus: their state while skymark does not use them.
        copies: rates of copies by the GPU's index.
        fraction: this process's share of a GPU's memory.
    """
    for gpu in gpus:
        if gpu.lost is not None:
            yield lost_fault(f"{gpu.title}: {gpu.lost}")
            continue
        yield from _memory_faults(gpu, fraction)
        yield from _slice_faults(gpu)
        yield from _speed_faults(gpu)
        yield from _health_faults(gpu)
        yield from _link_faults(gpu, copies.get(gpu.index, ()))


def lost_fault(words: str) -> StabilityWarning:
    """Return the fault of a lost GPU.

    Args:
        words: the driver's error, with the GPU's name.
    """
    return StabilityWarning(
        kind="gpu-lost",
        message=f"a GPU is lost: {words}",
        action="`dmesg | grep Xid` has the driver's reason; restart the machine, or choose another",
    )


LOSS = re.compile(
    r"GPU is lost|fallen off the bus|uncorrectable ECC|ECC_UNCORRECTABLE|requires restart|\bXid\b",
    re.IGNORECASE,
)
"""Words of the driver and of CUDA for a device lost to all programs."""

LEAST_THROTTLED_SHARE = 0.05
"""Least share of a round's samples for a warning."""


def use_warnings(rounds: Iterable[Round]) -> Iterator[StabilityWarning]:
    """Yield warnings about the GPUs of rounds: throttling, other programs, slices."""
    uses = [use for round in rounds for use in round.resources.gpus or ()]
    for index in sorted({use.index for use in uses}):
        own, title = [use for use in uses if use.index == index], f"GPU {index}"
        slowest = max(own, key=lambda use: max(use.throttled.values(), default=0.0))
        shares = {
            why: share for why, share in slowest.throttled.items() if share >= LEAST_THROTTLED_SHARE
        }
        if shares:
            when = f"in {percent(max(shares.values()))} of a round"
            yield throttled_fault(title, shares, when)
        others = {process.pid: process for use in own for process in use.other_processes}
        if others:
            yield StabilityWarning(
                kind="gpu-shared",
                message=f"{title} was used meanwhile by "
                f"{', '.join(process.text for process in others.values())}",
                action=f"end it and measure again, or choose another GPU with {VISIBLE_VARIABLE}",
            )
        if own[0].is_slice:
            yield slice_fault(title, own[0].name)


def _memory_faults(gpu: Gpu, fraction: float) -> Iterator[StabilityWarning]:
    used, free = gpu.memory_used_bytes, gpu.memory_free_bytes
    if used is None or free is None or gpu.memory_bytes is None:
        return
    others = gpu.processes or ()
    if not others and used < UNSEEN_BYTES:
        return
    names = (
        ", ".join(process.text for process in others)
        or "processes that are not to be seen from here"
    )
    end = "end it" if len(others) == 1 else "end them"
    is_full = free < LEAST_FREE_SHARE * fraction * gpu.memory_bytes
    yield StabilityWarning(
        kind="gpu-full" if is_full else "gpu-in-use",
        message=f"{gpu.title}: {size_text(used)} of {size_text(gpu.memory_bytes)} are used by "
        f"{names}",
        action=f"{end}, or choose another GPU with {VISIBLE_VARIABLE}",
    )


def _slice_faults(gpu: Gpu) -> Iterator[StabilityWarning]:
    if gpu.slices:
        yield slice_fault(gpu.title, ", ".join(part.name for part in gpu.slices))
    elif gpu.mig:
        yield StabilityWarning(
            kind="mig-empty",
            message=f"{gpu.title} is in MIG mode without a slice, so no program can use it",
            action="`sudo nvidia-smi -mig 0` gives the whole GPU back; `sudo nvidia-smi mig -cgi "
            "PROFILE -C` makes a slice",
        )


def slice_fault(title: str, names: str) -> StabilityWarning:
    """Return the warning about a device that is a slice of a GPU."""
    return StabilityWarning(
        kind="gpu-slice",
        message=f"{title} is cut by MIG; a program computes on a slice ({names}), with its memory "
        "alone",
        action="compare its figures with equal slices only, or give the whole GPU back: "
        "`sudo nvidia-smi -mig 0`",
    )


def _speed_faults(gpu: Gpu) -> Iterator[StabilityWarning]:
    if slowing := [reason for reason in gpu.clock_reasons or () if reason in SLOWED_DOWN]:
        yield throttled_fault(gpu.title, slowing, "now")
    limit, usual = gpu.power_limit_w, gpu.power_limit_default_w
    if limit is not None and usual is not None and limit < LEAST_POWER_SHARE * usual:
        yield StabilityWarning(
            kind="gpu-power-limit",
            message=f"{gpu.title} may take {limit:.0f} of its {usual:.0f} W",
            action=f"`sudo nvidia-smi -i {gpu.index} -pl {usual:.0f}`, or choose another machine",
        )
    if USER_CLOCKS in (gpu.clock_reasons or ()):
        yield StabilityWarning(
            kind="gpu-clocks-set",
            message=f"{gpu.title}: a user has set its clocks ({gpu.sm_clock_mhz} of "
            f"{gpu.sm_clock_max_mhz} MHz)",
            action=f"`sudo nvidia-smi -i {gpu.index} -rgc` and `-rac` give them free again",
        )


def throttled_fault(title: str, reasons: Iterable[str], when: str) -> StabilityWarning:
    """Return the warning about a GPU that is slowed down under load.

    Args:
        title: of the GPU.
        reasons: of `SLOWED_DOWN`.
        when: such as ``now``.
    """
    return StabilityWarning(
        kind="gpu-throttled",
        message=f"{title} is slowed down {when}: {', '.join(reasons)}",
        action="see to its cooling and power supply, raise the power limit (`nvidia-smi -pl`), or "
        "choose another machine",
    )


def _health_faults(gpu: Gpu) -> Iterator[StabilityWarning]:
    hot, is_at = gpu.slowdown_temperature_c, gpu.temperature_c
    if hot is not None and is_at is not None and is_at >= hot - HOT_MARGIN_C:
        yield StabilityWarning(
            kind="gpu-hot",
            message=f"{gpu.title} has {is_at} °C, and slows down at {hot} °C",
            action="let it cool down, see to its fans, or choose another machine",
        )
    if gpu.ecc_uncorrected:
        yield StabilityWarning(
            kind="gpu-memory-errors",
            message=f"{gpu.title}: {gpu.ecc_uncorrected} errors of its memory could not be "
            "corrected",
            action="restart the machine, which replaces damaged rows; choose another if they come "
            "again",
        )
    if gpu.persistence is False:
        yield StabilityWarning(
            kind="gpu-persistence-off",
            message=f"{gpu.title}: persistence mode is off, so each first use of the GPU waits "
            "seconds for its driver",
            action="`sudo nvidia-smi -pm 1`",
        )


def _link_faults(gpu: Gpu, copies: Sequence[CopyRates]) -> Iterator[StabilityWarning]:
    width, most_width = gpu.pcie_width, gpu.pcie_width_max
    generation, newest = gpu.pcie_generation, gpu.pcie_generation_max
    if width is not None and most_width is not None and width < most_width:
        yield StabilityWarning(
            kind="gpu-pcie-width",
            message=f"{gpu.title}: PCIe runs at x{width} of x{most_width}",
            action="reseat the GPU, or choose another machine",
        )
    is_idle = gpu.clock_reasons is None or IDLE in gpu.clock_reasons
    if generation is not None and newest is not None and generation < newest and not is_idle:
        yield StabilityWarning(
            kind="gpu-pcie-generation",
            message=f"{gpu.title}: PCIe runs in generation {generation} of {newest}, and the GPU "
            "is at work",
            action="set the slot's generation in the machine's firmware, or choose another machine",
        )
    if width is None or (lane := LANE_BYTES_PER_S.get(newest or 0)) is None:
        return
    rates = [copy.page_locked for copy in copies if copy.page_locked is not None]
    if rates and max(rates) < LEAST_COPY_SHARE * lane * width:
        yield StabilityWarning(
            kind="gpu-slow-copies",
            message=f"{gpu.title}: page-locked copies reach {size_text(max(rates))}/s of "
            f"{size_text(lane * width)}/s that PCIe {newest} x{width} has",
            action="measure on the processor next to the GPU (`nvidia-smi topo -m`, then "
            "`numactl --cpunodebind`), stop what else copies, or choose another machine",
        )
