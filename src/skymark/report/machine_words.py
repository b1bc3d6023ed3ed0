"""The machine in words: the state of its GPUs, its noise, and the changes it can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from skymark.machine.gpu_fitness import CopyRates
from skymark.machine.noise import Noise
from skymark.model.gpu import Gpu, NvidiaDriver
from skymark.model.sizes import size_text
from skymark.report.text import MISSING, duration, share, size
from skymark.statistics.power import Detection

Row = tuple[str, str]


def driver_rows(
    driver: NvidiaDriver, copies: Mapping[int, Sequence[CopyRates]] = MappingProxyType({})
) -> Iterator[Row]:
    """Yield rows of a title and a text: of the driver, and of each GPU.

    Args:
        driver: with the GPUs.
        copies: rates of copies by the GPU's index, where they were measured.
    """
    version = driver.version or "unknown"
    yield (
        "NVIDIA driver",
        driver.fault or (version if driver.cuda is None else f"{version}, CUDA {driver.cuda}"),
    )
    for gpu in driver.gpus:
        yield gpu.title, f"lost: {gpu.lost}" if gpu.lost else gpu.name
        if gpu.lost is None:
            yield from _rows(gpu)
            yield from (("  copies to it", _copies(one)) for one in copies.get(gpu.index, ()))


def _rows(gpu: Gpu) -> Iterator[Row]:
    yield "  memory used", _of_size(gpu.memory_used_bytes, gpu.memory_bytes)
    yield "  clock", _of(_count(gpu.sm_clock_mhz), _count(gpu.sm_clock_max_mhz), "MHz")
    memory_clock = _count(gpu.memory_clock_mhz), _count(gpu.memory_clock_max_mhz)
    yield "  memory's clock", _of(*memory_clock, "MHz")
    power, limit = (
        None if one is None else f"{one:.0f}" for one in (gpu.power_w, gpu.power_limit_w)
    )
    yield "  power", _of(power, limit, "W")
    reasons = gpu.clock_reasons
    yield "  clock is held by", MISSING if reasons is None else ", ".join(reasons) or "nothing"
    yield "  temperature", MISSING if gpu.temperature_c is None else f"{gpu.temperature_c} °C"
    errors = gpu.ecc_uncorrected
    told = "" if errors is None or not gpu.ecc else f", {errors} uncorrected errors"
    yield "  ECC", f"{_switch(gpu.ecc)}{told}"
    slices = ", ".join(f"{one.name} ({size(one.memory_bytes)})" for one in gpu.slices)
    yield "  MIG", f"{_switch(gpu.mig)}{slices and ': '}{slices}"
    yield "  persistence mode", _switch(gpu.persistence)
    now, most = (
        _link(gpu.pcie_generation, gpu.pcie_width),
        _link(gpu.pcie_generation_max, gpu.pcie_width_max),
    )
    yield "  PCIe", f"{now}; at most {most}"
    yield "  processes on it", _processes(gpu)


def _processes(gpu: Gpu) -> str:
    if gpu.processes is None:
        return MISSING
    return (
        ", ".join(f"{one.text} with {size(one.memory_bytes)}" for one in gpu.processes)
        or "none to be seen from here"
    )


def _copies(one: CopyRates) -> str:
    kinds = {"page-locked": one.page_locked, "pageable": one.pageable}
    known = [f"{size_text(rate)}/s {kind}" for kind, rate in kinds.items() if rate is not None]
    return f"{one.framework}: {', '.join(known)}"


def _of(now: str | None, most: str | None, unit: str) -> str:
    if now is None:
        return MISSING
    return f"{now} {unit}" if most is None else f"{now} of {most} {unit}"


def _link(generation: int | None, width: int | None) -> str:
    lanes = MISSING if width is None else f"x{width}"
    return f"generation {MISSING if generation is None else generation}, {lanes}"


def _of_size(now: int | None, most: int | None) -> str:
    return size(now) if now is None or most is None else f"{size(now)} of {size(most)}"


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _switch(on: bool | None) -> str:
    return MISSING if on is None else "on" if on else "off"


def noise_rows(noise: Noise) -> list[tuple[str, str]]:
    """Return what was seen of a machine's noise, as rows of a title and a text."""
    frequency = noise.frequency_mhz
    waits = ", ".join(f"{name} {share(one)}" for name, one in noise.pressure.items())
    times = (noise.fastest_s, noise.median_s, noise.slowest_s)
    fastest, middle, slowest = map(duration, times)
    return [
        ("noise", f"{share(noise.spread)} between {len(noise.rounds_s)} rounds of the same work"),
        ("one repetition", f"{fastest} to {slowest}, mostly {middle}"),
        ("stolen by the host", share(noise.steal_share)),
        ("used by other programs", share(noise.others_share)),
        ("load of the last minute", f"{noise.load_average_1m:.2f}"),
        ("programs that waited", waits or MISSING),
        (
            "frequency",
            MISSING if frequency is None else f"{frequency[0]:,.0f} to {frequency[1]:,.0f} MHz",
        ),
    ]


def detection_rows(found: Iterable[Detection]) -> list[tuple[str, str, str]]:
    """Return a row for each effect: its size, the rounds that show it, and their time."""
    return [
        (
            share(one.effect),
            "more than a thousand rounds" if one.rounds is None else f"{one.rounds} rounds each",
            duration(one.measured_s),
        )
        for one in found
    ]
