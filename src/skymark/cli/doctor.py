"""`skymark doctor`: the fitness of this machine for measuring, and the set-up for rented ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from skymark.cache.location import cache_directory
from skymark.cli.caller import print_json, print_plain, say
from skymark.cli.parameters import Env, Several
from skymark.cli.tables import print_rows
from skymark.execute.accelerator import python_of_gpus, require_accelerator
from skymark.execute.ceilings import limits_of_data_here
from skymark.execute.planner import planned
from skymark.execute.seen_devices import copy_rates
from skymark.machine.cgroup import room_here
from skymark.machine.disk import disk_bytes_per_s, memory_bytes_per_s
from skymark.machine.facts import capture
from skymark.machine.fitness import (
    ROUND_S,
    Noise,
    fitness_warnings,
    noise_warnings,
    observe,
    room_warnings,
)
from skymark.machine.gpu_fitness import STOPS_A_RUN, CopyRates, driver_faults, gpu_faults
from skymark.machine.nvidia import nvidia_driver, visible_units
from skymark.model.machine import Gpu, NvidiaDriver
from skymark.model.requests import Work
from skymark.model.sizes import size_text
from skymark.report.text import MISSING, duration, share, significant, size
from skymark.statistics.power import Detection, detections
from skymark.suite.registry import suite_named, suites

if TYPE_CHECKING:
    from skymark.cloud import Checkup, LiveMachine, Provider


def doctor(
    *,
    cloud: Annotated[
        bool,
        Parameter(
            help="Check rented machines instead: providers, credentials, machines left over."
        ),
    ] = False,
    platform: Annotated[
        Literal["gpu", "tpu"] | None,
        Parameter(
            help="Check only that JAX and torch compute on this accelerator, as a run for it does "
            "first; exit status 2 if not."
        ),
    ] = None,
    env: Annotated[
        Env,
        Parameter(
            help="JAX and torch to check. own: pinned versions in their own venv, which "
            "--platform makes. current: the versions in skymark's venv.",
        ),
    ] = "own",
    skip: Annotated[
        tuple[Literal["noise", "self-tests", "copies", "limits"], ...],
        Several,
        Parameter(
            help="Leave out noise (ten seconds of one core), self-tests (skymark's own cost), "
            "copies (rates of copies to GPUs) or limits (rates of memory, disk and decoders)."
        ),
    ] = (),
    json: Annotated[bool, Parameter(help="Print JSON instead of tables.")] = False,
) -> int:
    """Find anything on this machine that would disturb a measurement.

    Watches the machine's noise for ten seconds, and says how long a measurement must be here to
    show a change of 1 to 20 %. Shows the state of each NVIDIA GPU, and the speed of copies to it.
    Measures copies in memory, the disk, and how fast the cores decode data of earlier runs.
    --cloud shows usable providers, missing credentials, and machines left over with their price.

    Examples:
      skymark doctor
      skymark doctor --cloud

    Exit status: 0; with --cloud 1 if a machine is left over or none can be rented; with
    --platform 2 if the accelerator does not work.
    """
    if platform is not None:
        require_accelerator(platform, say, own=env == "own")
        return 0
    return (
        _doctor_of_clouds(json=json)
        if cloud
        else _doctor_of_this_machine(skip, own=env == "own", json=json)
    )


def _doctor_of_clouds(*, json: bool) -> int:
    from skymark.cloud import check_up

    found = check_up(os.environ)
    if json:
        print_json({**found.model_dump(mode="json"), "all_well": found.all_well})
    else:
        print_checkup(found)
    return 0 if found.all_well else 1


def print_checkup(found: Checkup) -> None:
    """Print the state of providers and machines, and what to do about it."""
    print_rows(("provider", "state"), [(one.name, one.state.value) for one in found.providers])
    lines = [
        *(line for one in found.providers for line in _needs(one)),
        *(_left_over(one) for one in found.machines),
        *(f"! {problem}" for problem in found.problems),
    ]
    if not found.machines and not found.problems:
        lines += ["", "no machine of skymark's is left over, as its providers say"]
    if found.all_well:
        lines.append("machines can be rented: skymark cost PROFILE says what they cost")
    elif not found.problems and not any(one.state == "enabled" for one in found.providers):
        lines.append("! nothing can be rented: no provider has credentials that work")
    print_plain("\n".join(lines))


def _needs(provider: Provider) -> list[str]:
    """Return a provider's needs in lines; the way there only where it is not enabled."""
    from skymark.cloud import advice_for_here, sky_program

    access = provider.access
    if access is None:
        return []
    lines = ["", provider.name]
    if provider.state != "enabled":
        places = " or ".join((*access.credentials, *access.variables))
        lines.append(f"  credentials: {places}")
        check = f"{sky_program()} check {provider.name}"
        lines.append(f"  how: {advice_for_here(access.setup)}; then `{check}`, which says why not")
    lines.append(f"  least privilege: {access.privilege}")
    if access.quota is not None:
        lines.append(f"  quota: {access.quota}")
    return lines


def _left_over(machine: LiveMachine) -> str:
    cost = "at an unknown price"
    if machine.hourly_price_usd is not None:
        cost = f"${machine.hourly_price_usd:.2f}/h"
    timer = "no idle timer"
    if machine.idle_minutes is not None:
        timer = f"ends itself after {machine.idle_minutes} idle min"
    return (
        f"! {machine.name} is there: {machine.status}, {machine.machine}, {cost}, {timer}; "
        f"end it: skymark down {machine.name}"
    )


def _copy_rates(driver: NvidiaDriver, *, own: bool) -> dict[int, list[CopyRates]]:
    """Return the rates of copies to GPUs; none where a fault keeps programs from them."""
    faults = {one.kind for one in (*driver_faults(driver), *gpu_faults(driver.gpus))}
    if not driver.gpus or faults & STOPS_A_RUN:
        return {}
    return copy_rates(visible_units(), python_of_gpus(own=own))


def _doctor_of_this_machine(skip: Collection[str], *, own: bool, json: bool) -> int:
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    machine = capture(cache)
    driver = nvidia_driver() or NvidiaDriver()
    copies = {} if "copies" in skip else _copy_rates(driver, own=own)
    noise = None if "noise" in skip else observe()
    warnings = [
        *driver_faults(driver),
        *gpu_faults(driver.gpus, copies),
        *fitness_warnings(machine),
        *room_warnings(room_here()),
        *(noise_warnings(noise) if noise else ()),
    ]
    self_tests = (
        {} if "self-tests" in skip else {suite.name: suite.self_test() for suite in suites()}
    )
    limits = {} if "limits" in skip else dict(_limit_rows(cache, own=own))
    found = () if noise is None else detections(noise.rounds_s, ROUND_S)
    if json:
        state = {
            "machine": machine,
            "nvidia": driver,
            "copies": copies,
            "noise": noise,
            "detectable": found,
            "warnings": warnings,
            "self_tests": self_tests,
            "limits": limits,
        }
        print_json(state)
        return 0
    hardware = machine.hardware
    print_rows(
        ("", ""),
        [
            ("processor", f"{hardware.cpu_model or 'unknown'}, {hardware.logical_cores} cores"),
            ("memory", size_text(hardware.memory_bytes or 0)),
            ("disk of the cache", f"{cache} ({hardware.disk_kind or 'unknown kind'})"),
            (
                "accelerators",
                "unknown"
                if hardware.accelerators is None
                else ", ".join(one.name for one in hardware.accelerators) or "none found",
            ),
            *(driver_rows(driver, copies) if driver != NvidiaDriver() else ()),
            *(() if noise is None else noise_rows(noise)),
            *limits.items(),
            *(
                (f"{name}: {title}", text)
                for name, tests in self_tests.items()
                for title, text in tests.items()
            ),
        ],
    )
    if found:
        print_plain("")
        print_rows(("change", "shown in", "measuring"), detection_rows(found))
        noise_alone = f"in rounds of {ROUND_S:g} s, by this machine's noise alone"
        print_plain(f"with 80 % probability, {noise_alone}: that of a library comes on top\n")
    told = "\n".join(f"! {warning.message}: {warning.action}" for warning in warnings)
    print_plain(told or "nothing was found that would disturb a measurement")
    return 0


Row = tuple[str, str]


def _limit_rows(cache: Path, *, own: bool) -> Iterator[Row]:
    """Yield rows of the machine's own rates: copy memory, read the disk, decode earlier data."""
    yield "copying in memory", f"{size_text(memory_bytes_per_s())}/s by one thread"
    files = [path for path in (cache / "datasets").rglob("*") if path.is_file()]
    files.sort(key=lambda path: -path.stat().st_size)
    if (rate := disk_bytes_per_s(files)) is not None:
        yield "reading the disk", f"{size_text(rate)}/s by one thread"
    cells = [cell.cell for cell in planned(Work(scenarios=("all",)))[0].cells]
    suite = suite_named(cells[0].suite)
    for label, limits in limits_of_data_here(suite, cells, cache, own=own).items():
        unit = suite.declaration.primary_metric.heading
        for ceiling in limits.ceilings:
            yield ceiling.name, f"{significant(ceiling.rate)} {unit} of {label}"


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
