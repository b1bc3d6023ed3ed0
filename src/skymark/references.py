"""Objects named as ``module:name``, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_object(reference: str) -> Any:
    """Return the object that ``module:name`` names.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such name.
    """
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
