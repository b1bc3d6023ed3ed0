"""The Python environment of an adapter, and the libraries that some data needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import DataError
from skymark.model.machine import Target

# A text, because a quoted word of a suite's own would stand for its adapter (tests/unit/test_seam).
WORKER = tuple("av filelock numpy pillow psutil pydantic".split())  # noqa: SIM905
"""Requirements of skymark's worker side, which every adapter's venv has."""


class VenvSpec(Frozen):
    """The Python environment that an adapter's worker runs in.

    `locked` names a compiled file below ``requirements/`` (hashed pins), made from `declared`.
    Without it `declared` is resolved when the venv is made. `packages` are further requirement
    lines, such as ``grain==0.2.17``, which are resolved in any case.
    """

    name: str
    locked: str | None = None
    declared: tuple[str, ...] = ()
    """Requirement lines, before they are pinned."""
    packages: tuple[str, ...] = ()
    similar: str | None = None
    """Compiled file of a venv that is about as large, for one without pins of its own."""
    python: str | None = None
    imports: str | None = None
    """Module that its workers import first; imported once when the venv has been made."""
    target: Target = "cpu"
    variants: dict[Target, VenvSpec] = Field(default_factory=dict)
    """What is installed in its place for a target; the venv itself does for those not named."""

    @property
    def title(self) -> str:
        """The name, with the target that it is built for where that is no CPU."""
        return self.name if self.target == "cpu" else f"{self.name} for {self.target}"

    def built_for(self, target: Target) -> VenvSpec:
        """Return the venv for a target; itself where nothing in it depends on that."""
        return self.variants.get(target, self)


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
