"""Libraries of loaders, and the settings of a loader that decide its speed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

LIBRARY_BY_MODULE = {
    "torch.utils.data": "torch",
    "tensorflow": "tf.data",
    "keras": "keras",
    "grain": "grain",
    "datasets": "datasets",
    "webdataset": "webdataset",
    "litdata": "litdata",
    "ray": "ray",
}


def settings_of(loader: Any) -> tuple[str, dict[str, Any]]:
    """Return the library of a loader and its settings."""
    for base in type(loader).__mro__:
        for prefix, library in LIBRARY_BY_MODULE.items():
            if base.__module__ == prefix or base.__module__.startswith(f"{prefix}."):
                return library, SETTINGS[library](loader) if library in SETTINGS else {}
    return "plain", {}


def torch_settings(loader: Any) -> dict[str, Any]:
    """Return the settings of a `DataLoader` that decide its speed."""
    names = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "in_order")
    settings = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    settings["batch_size"] = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    return {name: value for name, value in settings.items() if isinstance(value, (int, bool))}


def keras_settings(data: Any) -> dict[str, Any]:
    """Return the settings of a `PyDataset` or its adapter; its worker is a thread by default."""
    return {"num_workers": getattr(data, "py_dataset", data).workers}


OPERATIONS = (
    ("Decode", "decode"),
    ("ReadFile", "read"),
    ("PyFunc", "transform"),
    ("Resize", "transform"),
)
"""Beginnings or parts of the names of TensorFlow's operations, with their stages."""


def tf_settings(dataset: Any) -> dict[str, Any]:
    """Return the stages of a tf.data pipeline by its operations, and its serial maps."""
    stages: list[str] = []
    settings: dict[str, Any] = {"serial_maps": 0, "prefetch": False}
    with suppress(Exception):  # private fields of another version
        current = dataset
        while current is not None:
            kind = type(current).__name__
            settings["prefetch"] = settings["prefetch"] or "Prefetch" in kind
            settings["serial_maps"] += kind == "_MapDataset"
            function = getattr(current, "_map_func", None)
            if function is not None:
                names = [operation.type for operation in function.function.graph.get_operations()]
                stages += [s for part, s in OPERATIONS if any(part in name for name in names)]
            current = getattr(current, "_input_dataset", None)
    return {**settings, "stages": sorted(set(stages))}


SETTINGS = {"torch": torch_settings, "tf.data": tf_settings, "keras": keras_settings}
"""Functions that return the settings of a loader, by its library."""
