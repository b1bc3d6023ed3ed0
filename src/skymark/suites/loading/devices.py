"""Devices of batches, and the declarations of libraries' use of accelerators.

An adapter's batches stay on the library's device. The declarations here choose its packages on a
machine with an accelerator, and the library that checks the accelerator.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skymark.model.machine import Platform, Target
from skymark.suite.contract import SeenBy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skymark.suites.loading.work import Batch


HOST = "cpu"

INDEX = "index"

TEXT_KINDS = frozenset("OSU")
"""Kinds of NumPy's dtypes that hold text or objects."""


def devices_of(batch: Batch) -> set[str]:
    """Return the devices of a model's fields: ``cpu``, or ``gpu:0 NVIDIA H100 PCIe``."""
    fields = (value for name, value in batch.items() if is_for_model(name, value))
    return {device for value in fields for device in _devices_of(value)}


def is_for_model(name: str, value: Any) -> bool:
    """Whether a field is for a model: not the oracle's index, and no text, such as names of files.

    Other fields stay on the host: no accelerator has text.
    """
    return name != INDEX and getattr(getattr(value, "dtype", None), "kind", "") not in TEXT_KINDS


def fields_for_model(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a batch that go to a device."""
    return {name: value for name, value in batch.items() if is_for_model(name, value)}


def on_host(value: Any) -> Any:
    """Return an array that NumPy can copy: NumPy cannot copy PyTorch's arrays from a device."""
    torch = sys.modules.get("torch")
    return value.detach().cpu() if torch and isinstance(value, torch.Tensor) else value


def _devices_of(value: Any) -> Iterator[str]:
    """Yield the devices of one array, which belongs to a loaded library."""
    if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
        yield _of_torch(torch, value.device)
    elif (jax := sys.modules.get("jax")) and isinstance(value, jax.Array):
        for device in value.devices():
            # Page-locked memory of the host counts as a device's, of another kind.
            is_host = device.platform == HOST or "host" in (value.sharding.memory_kind or "")
            yield HOST if is_host else f"{device.platform}:{device.id} {device.device_kind}"
    elif (tensorflow := sys.modules.get("tensorflow")) and isinstance(value, tensorflow.Tensor):
        yield _of_tensorflow(tensorflow, value.device)
    else:
        yield HOST


def _of_torch(torch: Any, device: Any) -> str:
    if device.type != "cuda":
        return str(device)
    return f"gpu:{device.index} {torch.cuda.get_device_name(device)}"


def _of_tensorflow(tensorflow: Any, place: str) -> str:
    """Read a place such as ``/job:localhost/replica:0/task:0/device:GPU:0``."""
    kind, _, number = place.rpartition("device:")[2].partition(":")
    if kind != "GPU":
        return kind.lower()
    details = tensorflow.config.experimental.get_device_details(
        tensorflow.config.list_physical_devices(kind)[int(number)]
    )
    return f"gpu:{number} {details.get('device_name', '')}".strip()


@dataclass(frozen=True)
class Acceleration:
    """A library's use of accelerators, through its adapter."""

    seen_by: Mapping[Platform, SeenBy] = field(default_factory=dict)
    """The library that has to compute on a platform's accelerator before anything is measured. A
    platform that is not named is none of its business: it works on the host there."""
    builds: Mapping[Target, tuple[str, ...]] = field(default_factory=dict)
    """Requirements of a target besides the adapter's own, such as ``jax[cuda12]``; targets with
    the same share their pins. The usual pins do for targets that are not named."""
    distributions: Mapping[Target, str] = field(default_factory=dict)
    """The package whose version counts, where it is another than usual; it takes the place of that
    one among the requirements."""
    variables: Mapping[Platform, Mapping[str, str]] = field(default_factory=dict)
    """Environment variables of the worker, in addition to every platform's."""


HOST_ONLY = Acceleration()

TORCH_FOR_CUDA12 = "torch<2.11"
"""Later versions are for CUDA 13, which needs driver 580."""

TORCH = Acceleration(seen_by={"gpu": "torch"}, builds={"cuda12": (TORCH_FOR_CUDA12,)})
"""The usual pins have the newest torch, whose wheel is for CUDA 13. It knows no TPU by itself."""

TORCH_FROM_HOST = Acceleration(builds={"cuda12": (TORCH_FOR_CUDA12,)})
"""Acceleration of libraries that work on the host with torch, which copies batches to a GPU."""

TORCH_ON_GPUS = Acceleration(builds={"cuda12": (TORCH_FOR_CUDA12,), "cuda13": ("torch",)})
"""Of libraries that work on the host without torch: it only copies batches to a GPU."""

JAX = Acceleration(
    seen_by={"gpu": "jax", "tpu": "jax"},
    builds={"cuda12": ("jax[cuda12]",), "cuda13": ("jax[cuda13]",), "tpu": ("jax[tpu]",)},
    # Else the first of several ranks takes 75 % of a GPU's memory, and the next finds too little.
    variables={"gpu": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}},
)
