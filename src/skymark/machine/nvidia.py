"""NVIDIA's driver, through its management library NVML.

Functions and their units: https://docs.nvidia.com/deploy/nvml-api/. None is a value that the GPU,
the driver's release or the container's rights do not provide.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from skymark.model.machine import Gpu, GpuProcess, GpuSlice, NvidiaDriver

Value = TypeVar("Value")

IDLE = "idle"
USER_CLOCKS = "clocks set by a user"
CLOCK_REASONS: Mapping[int, str] = {
    0x001: IDLE,
    0x002: USER_CLOCKS,
    0x004: "power limit",
    0x008: "hardware slowdown",
    0x010: "same clocks as other GPUs",
    0x020: "temperature",
    0x040: "temperature, hardware limit",
    0x080: "power brake of the machine",
    0x100: "clocks of the display",
}
"""Reasons by the bits of `nvmlDeviceGetCurrentClocksEventReasons`."""

SLOWED_DOWN = frozenset(CLOCK_REASONS[bit] for bit in (0x004, 0x008, 0x020, 0x040, 0x080))
"""Reasons that slow down a GPU under load."""

ANSWER_S = 60.0
"""Longest time for an answer."""

DEVICE_FILE = Path("/dev/nvidiactl")
"""Made by the driver."""

NO_BINDINGS = "nvidia-ml-py is not installed"

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


class GpuLostError(Exception):
    """Lost GPU that no longer answers its driver; the text has the driver's error."""


@dataclass(frozen=True)
class Unit:
    """Device as CUDA sees it, a whole GPU or a MIG slice, with NVML's handle."""

    index: int
    """Of the GPU."""
    uuid: str
    name: str
    handle: Any
    is_slice: bool = False


def nvidia_driver() -> NvidiaDriver | None:
    """Return the driver with all GPUs of the machine; None without NVML.

    NVML comes with the driver. A container has it if it may use the driver's part ``utility``, as
    ``--gpus all`` and NVIDIA's images ask for; ``nvidia-smi`` is in the same part.
    """
    try:
        return answered(_driver)
    except GpuLostError as error:
        return NvidiaDriver(fault=str(error))


def answered(ask: Callable[[], Value]) -> Value:
    """Return the driver's answer to a question, from a thread of its own.

    If a GPU hangs, its driver may answer after minutes, or never.

    Raises:
        GpuLostError: it does not answer in time.
    """
    answer: Future[Value] = Future()

    def wait() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # the caller's matter
            answer.set_exception(error)

    Thread(target=wait, name="skymark-driver", daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except TimeoutError as error:
        raise GpuLostError(f"the driver gave no answer in {ANSWER_S:g} s") from error


def _driver() -> NvidiaDriver | None:
    if not _has_bindings():
        return NvidiaDriver(fault=NO_BINDINGS) if DEVICE_FILE.exists() else None
    import pynvml

    try:
        opened()
    except pynvml.NVMLError as error:
        if error.value in {
            pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        }:
            return None
        fits = error.value != pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
        return NvidiaDriver(fault=str(error).rstrip("."), fits=fits)
    cuda = told(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return NvidiaDriver(
        version=told(pynvml.nvmlSystemGetDriverVersion),
        cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        gpus=tuple(_gpu(index) for index in range(told(pynvml.nvmlDeviceGetCount) or 0)),
    )


def _has_bindings() -> bool:
    """Return whether nvidia-ml-py is installed; a machine without a network may lack it."""
    return importlib.util.find_spec("pynvml") is not None


def opened() -> Any:
    """Return the module `pynvml`, its library loaded and started.

    It stays open: without the driver's persistence mode, each first opening of a GPU takes seconds.

    Raises:
        pynvml.NVMLError: the library or the driver is absent, or they do not match.
    """
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def visible_units(variables: Mapping[str, str] = os.environ) -> list[Unit]:
    """Return the devices that CUDA programs see, in order; none if NVML does not work.

    Args:
        variables: environment variables, among them ``CUDA_VISIBLE_DEVICES``.

    Raises:
        GpuLostError: a GPU does not answer.
    """
    return answered(lambda: _visible_units(variables))


def _visible_units(variables: Mapping[str, str]) -> list[Unit]:
    if not _has_bindings():
        return []
    import pynvml

    try:
        opened()
    except pynvml.NVMLError:
        return []
    units: list[Unit] = []
    for index in range(told(pynvml.nvmlDeviceGetCount) or 0):
        with _numbered(index):
            if (handle := told(pynvml.nvmlDeviceGetHandleByIndex, index)) is not None:
                units += _units(index, handle)
    return chosen(units, variables)


def chosen(units: Sequence[Unit], variables: Mapping[str, str]) -> list[Unit]:
    """Return the units that ``CUDA_VISIBLE_DEVICES`` names; without it all GPUs, or one slice.

    The variable lists numbers or prefixes of UUIDs; entries after the first unknown one are
    ignored. Numbers are taken as NVML's, which is right if all GPUs of a machine are of one kind. A
    process uses one MIG slice. Sources: CUDA C++ Programming Guide, "CUDA Environment Variables",
    and NVIDIA's MIG User Guide.
    """
    given = variables.get(VISIBLE_VARIABLE)
    if given is None:
        slices = [unit for unit in units if unit.is_slice]
        return slices[:1] or list(units)
    visible: list[Unit] = []
    for word in map(str.strip, given.split(",")):
        if word.isdigit():
            fitting = [unit for unit in units if unit.index == int(word)]
        else:
            fitting = [unit for unit in units if word and unit.uuid.startswith(word)]
        if not fitting:
            break
        visible.append(fitting[0])
    return visible


def lost_gpu(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return the driver's words for a visible GPU that is lost; None if all answer.

    Args:
        variables: as of `visible_units`.
    """

    def ask() -> None:
        for unit in _visible_units(variables):
            with _numbered(unit.index):
                memory_of(unit.handle)

    try:
        answered(ask)
    except GpuLostError as error:
        return str(error)
    return None


def told(call: Callable[..., Value], *arguments: Any) -> Value | None:
    """Return the answer of a function of NVML; None without an answer.

    Raises:
        GpuLostError: the GPU does not answer any more.
    """
    import pynvml

    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}:
            raise GpuLostError(str(error)) from error
        return None


def memory_of(handle: Any) -> Any:
    """Return the memory of a GPU or a slice: `total`, `free` and `used` in bytes; None if unknown.

    The driver reserves some hundred MiB for itself; they do not count as used.

    Raises:
        GpuLostError: the GPU does not answer any more.
    """
    import pynvml

    memory = told(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    # drivers before 510 include their own memory in the used memory
    return told(pynvml.nvmlDeviceGetMemoryInfo, handle) if memory is None else memory


def clock_reasons(handle: Any) -> tuple[str, ...] | None:
    """Return the reasons, in words, why a GPU's clocks are below their maximum.

    Raises:
        GpuLostError: the GPU does not answer any more.
    """
    import pynvml

    bits = told(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if bits is None:  # the name before driver 535
        bits = told(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    if bits is None:
        return None
    return tuple(words for bit, words in CLOCK_REASONS.items() if bits & bit)


def processes_on(handle: Any) -> tuple[GpuProcess, ...] | None:
    """Return the processes that compute on a GPU or a slice.

    Raises:
        GpuLostError: the GPU does not answer any more.
    """
    import pynvml

    running = told(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    if running is None:  # drivers before 510
        running = told(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    if running is None:
        return None
    return tuple(
        GpuProcess(pid=process.pid, name=_name_of(process.pid), memory_bytes=process.usedGpuMemory)
        for process in running
    )


@contextmanager
def _numbered(index: int) -> Iterator[None]:
    """Name the lost GPU."""
    try:
        yield
    except GpuLostError as error:
        raise GpuLostError(f"GPU {index}: {error}") from error


def _gpu(index: int) -> Gpu:
    import pynvml

    try:
        handle = told(pynvml.nvmlDeviceGetHandleByIndex, index)
        return Gpu(index=index, name=f"GPU {index}") if handle is None else _state(index, handle)
    except GpuLostError as error:
        return Gpu(index=index, name=f"GPU {index}", lost=str(error))


def _state(index: int, handle: Any) -> Gpu:
    import pynvml as nvml

    memory = memory_of(handle)
    ecc, mig = told(nvml.nvmlDeviceGetEccMode, handle), told(nvml.nvmlDeviceGetMigMode, handle)
    persistence = told(nvml.nvmlDeviceGetPersistenceMode, handle)
    slowdown = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return Gpu(
        index=index,
        name=_device_name(index, handle),
        uuid=told(nvml.nvmlDeviceGetUUID, handle),
        memory_bytes=None if memory is None else memory.total,
        memory_used_bytes=None if memory is None else memory.used,
        sm_clock_mhz=told(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        sm_clock_max_mhz=told(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=told(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        memory_clock_max_mhz=told(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM),
        power_w=watts(told(nvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit_w=watts(told(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        power_limit_default_w=watts(told(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)),
        clock_reasons=clock_reasons(handle),
        temperature_c=_temperature(handle),
        slowdown_temperature_c=told(nvml.nvmlDeviceGetTemperatureThreshold, handle, slowdown),
        ecc=None if ecc is None else bool(ecc[0]),
        ecc_uncorrected=told(nvml.nvmlDeviceGetTotalEccErrors, handle, *uncorrected),
        mig=None if mig is None else bool(mig[0]),
        slices=tuple(_slice(index, part) for part in _slice_handles(handle)),
        persistence=None if persistence is None else bool(persistence),
        pcie_generation=told(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        pcie_generation_max=told(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=told(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        pcie_width_max=told(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        processes=processes_on(handle),
    )


def _units(index: int, handle: Any) -> list[Unit]:
    """Return the slices of a GPU, or the GPU itself without slices."""
    devices = [(device, True) for device in _slice_handles(handle)] or [(handle, False)]
    return [
        Unit(index, _uuid(device), _device_name(index, device), device, is_slice=is_slice)
        for device, is_slice in devices
    ]


def _slice(index: int, handle: Any) -> GpuSlice:
    memory = memory_of(handle)
    return GpuSlice(
        uuid=_uuid(handle),
        name=_device_name(index, handle),
        memory_bytes=None if memory is None else memory.total,
    )


def _slice_handles(handle: Any) -> list[Any]:
    import pynvml

    mode = told(pynvml.nvmlDeviceGetMigMode, handle)
    if mode is None or not mode[0]:
        return []
    count = told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    handles = (
        told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number) for number in range(count)
    )
    return [part for part in handles if part is not None]


def _uuid(handle: Any) -> str:
    import pynvml

    return told(pynvml.nvmlDeviceGetUUID, handle) or ""


def _device_name(index: int, handle: Any) -> str:
    import pynvml

    return told(pynvml.nvmlDeviceGetName, handle) or f"GPU {index}"


def _temperature(handle: Any) -> int | None:
    import pynvml

    sensor = pynvml.NVML_TEMPERATURE_GPU
    temperature: int | None = told(pynvml.nvmlDeviceGetTemperatureV, handle, sensor)
    # drivers before 570 have only the former function
    return (
        told(pynvml.nvmlDeviceGetTemperature, handle, sensor)
        if temperature is None
        else temperature
    )


def watts(milliwatts: int | None) -> float | None:
    """Return a power in W; NVML has mW."""
    return None if milliwatts is None else milliwatts / 1e3


def _name_of(pid: int) -> str | None:
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None
