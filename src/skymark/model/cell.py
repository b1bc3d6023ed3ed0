"""A cell: a scenario variant, an adapter, settings. The unit of running and resuming."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache

from pydantic import Field, JsonValue

from skymark.model.base import Frozen, digest_of

Setting = bool | int | float | str

UNSAFE = re.compile(r"[^\w@=+-]", re.ASCII)
"""What a file name of ours does not have."""

FILE_NAME = re.compile(r"[\w@=+-][\w@=+.-]{0,240}", re.ASCII)
"""The name of a cell's files, without suffix: neither a path nor a hidden file."""


@lru_cache(maxsize=4096)
def _safe(part: str) -> str:
    """Return a part of an id; ten thousand cells have a few hundred of them."""
    return UNSAFE.sub("_", part)


def id_of(
    suite: str, scenario: str, variant: str, axes: Mapping[str, Setting], adapter: str
) -> str:
    """Return the id of the cell that these make."""
    values = [f"{name}-{value}" for name, value in sorted(axes.items())]
    return ".".join([_safe(part) for part in (suite, scenario, variant, *values, adapter)])


class Cell(Frozen):
    """One scenario variant × one adapter × settings, of one suite.

    `axes` are the values that tell cells of one scenario and adapter apart (`depth=50`) and are
    part of the id. `settings` apply to the whole run (`workers=2`). `specification` is everything
    else that decides what is measured: sizes, seed, versions of generators and oracle. Its suite
    alone writes and reads it, by a type of its own; to others it is JSON.
    """

    suite: str
    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)
    settings: dict[str, Setting] = Field(default_factory=dict)
    specification: dict[str, JsonValue] = Field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The readable, stable, file-name-safe name: ``SUITE.PC-1.small.depth-50.grain``."""
        return id_of(self.suite, self.scenario, self.variant, self.axes, self.adapter)

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest of the full specification; a record is reused only if it agrees."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def label(self) -> str:
        """The scenario with its variant and axes, such as ``PC-1:small depth=50``."""
        axes = "".join(f" {name}={value}" for name, value in sorted(self.axes.items()))
        return f"{self.scenario}:{self.variant}{axes}"
