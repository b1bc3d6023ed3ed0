"""Libraries that some data needs, and the command that installs one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skymark.model.errors import DataError


@contextmanager
def needs(module: str) -> Iterator[None]:
    """Turn the absence of a library that data needs into the command that installs it.

    Raises:
        DataError: importing the module failed because it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise DataError(
            f"this data needs {module}, which is not installed; run: uv pip install 'skymark[data]'"
        ) from error
