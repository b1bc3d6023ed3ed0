"""Python environment of an adapter, and the libraries that some data needs."""

from __future__ import annotations

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.machine import Target

# A text, because a quoted word of a suite's own would stand for its adapter (tests/unit/test_seam).
WORKER = tuple("av filelock numpy pillow psutil pydantic".split())  # noqa: SIM905
"""Requirements of skymark's worker side, in every adapter's venv."""


class VenvSpec(Frozen):
    """Python environment of an adapter's worker.

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
    """Compiled file of a venv of similar size, if this one has no pins."""
    python: str | None = None
    imports: str | None = None
    """Module that its workers import first; it is imported once after the installation."""
    target: Target = "cpu"
    variants: dict[Target, VenvSpec] = Field(default_factory=dict)
    """Venvs that replace this one for a target; other targets use this one."""

    @property
    def title(self) -> str:
        """The name, with the target unless it is the CPU."""
        return self.name if self.target == "cpu" else f"{self.name} for {self.target}"

    def built_for(self, target: Target) -> VenvSpec:
        """Return the venv for a target; itself without a variant for it."""
        return self.variants.get(target, self)
