"""Import of PyTorch and open_clip: without collecting garbage, and without what no model needs yet.

open_clip does without the transformers library, as long as no text tower is one of its models.
"""

from __future__ import annotations

import gc
import importlib
import sys

from skymark.model.errors import LibraryAbsentError

TRANSFORMERS = "transformers"


def import_open_clip() -> None:
    """Import PyTorch and open_clip, once in a process.

    What they make lives as long as the process. Going through it for garbage again and again would
    take a third of the time of the import, and is left out then and later.

    Raises:
        LibraryAbsentError: they are not installed here.
    """
    if "open_clip" in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        import torch  # noqa: F401
        import torchvision  # noqa: F401

        _import_without_transformers()
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "torchvision", "open_clip"}:
            raise
        raise LibraryAbsentError(
            "open_clip is not installed here; run: pip install 'skymark[clip]'"
        ) from error
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def provide_transformers() -> None:
    """Have open_clip see the transformers library, for a text tower that is one of its models.

    Raises:
        LibraryAbsentError: it is not installed here.
    """
    from open_clip import hf_model

    if hf_model.transformers is not None:
        return
    try:
        import transformers  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != TRANSFORMERS:
            raise
        raise LibraryAbsentError(
            "transformers is not installed here, and the text tower is one of its models; run: pip "
            "install transformers"
        ) from error
    # The module looks for the library when it is executed; its classes see what it finds now.
    importlib.reload(hf_model)


def _import_without_transformers() -> None:
    """Import open_clip as where transformers is not installed, unless it is imported already."""
    hides = TRANSFORMERS not in sys.modules
    if hides:
        sys.modules[TRANSFORMERS] = None  # type: ignore[assignment]  # makes its import fail
    try:
        import open_clip  # noqa: F401
    finally:
        if hides:
            del sys.modules[TRANSFORMERS]
