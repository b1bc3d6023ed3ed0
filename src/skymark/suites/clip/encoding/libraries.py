"""Import of PyTorch and open_clip: what only some models use is imported for those alone."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from skymark.model.errors import LibraryAbsentError
from skymark.resources import install_line

OPTIONAL = {"transformers": ("hf_model", "coca_model"), "timm": ("timm_model",)}
"""Libraries that open_clip uses for some towers only, with its modules that look for them."""
COMPILER = "torch._dynamo.utils"


def import_open_clip() -> None:
    """Import PyTorch and open_clip, once in a process, without what only some models use.

    Garbage collection skips their objects, which live as long as the process: it would take a third
    of the import's time.

    Raises:
        LibraryAbsentError: PyTorch or open_clip is not installed here.
    """
    if "open_clip" in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        import torch  # noqa: F401

        with _in_place_of({COMPILER: _late_compiler()}):
            import torchvision  # noqa: F401
        with _in_place_of(dict.fromkeys(OPTIONAL)):  # None makes an import fail
            import open_clip  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "torchvision", "open_clip"}:
            raise
        raise LibraryAbsentError(
            f"open_clip is not installed here; run: {install_line('clip')}"
        ) from error
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@contextmanager
def _in_place_of(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Import other modules in place of those that are not imported yet."""
    absent = modules.keys() - sys.modules.keys()
    sys.modules.update({name: modules[name] for name in absent})  # type: ignore[misc]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _late_compiler() -> ModuleType:
    """Return a module that imports PyTorch's compiler when torchvision first asks it something."""
    module = ModuleType(COMPILER)

    def is_compile_supported(device_type: str) -> bool:
        return bool(importlib.import_module(COMPILER).is_compile_supported(device_type))

    vars(module)["is_compile_supported"] = is_compile_supported
    return module


def provide(library: str) -> None:
    """Show one of the `OPTIONAL` libraries to open_clip, for a tower that uses it.

    Raises:
        LibraryAbsentError: the library is not installed here.
    """
    modules = [sys.modules[f"open_clip.{name}"] for name in OPTIONAL[library]]
    if getattr(modules[0], library) is not None:
        return
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise LibraryAbsentError(
            f"{library} is not installed here, and one of the towers needs it; run: pip install "
            f"{library}"
        ) from error
    for module in modules:  # they look for the library when Python executes them
        importlib.reload(module)
