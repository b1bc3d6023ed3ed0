"""The Python environment of an adapter, as its suite declares it."""

from __future__ import annotations

from skymark.model.base import Frozen


class VenvSpec(Frozen):
    """The Python environment that an adapter's worker runs in.

    `locked` names a compiled file below ``requirements/`` (hashed pins), `declared` one that is
    not compiled; `packages` are further requirement lines, such as ``grain==0.2.17``, which are
    resolved when the venv is made.
    """

    name: str
    locked: str | None = None
    declared: str | None = None
    packages: tuple[str, ...] = ()
    python: str | None = None
