"""A user's own job on a machine that is there: a command or a YAML, and what is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class UserJob:
    """A command or a YAML of SkyPilot's. Building one contacts nobody."""

    words: tuple[str, ...]
    """Of the command, or the YAML's path."""
    name: str | None = None
    gpus: str | None = None
    """Such as ``H100:0.5``; None for what the YAML says, or none."""
    num_nodes: int | None = None
    """None for what the YAML says, or one."""
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SkyPilot keeps them in its API server's database, as with ``sky exec --secret``."""
    files: tuple[Path, ...] = ()
    """Sent besides, from the current directory; see `skymark.cloud.sent_files`."""
    workdir: Path | None = None
    """Directory that is sent; None for the YAML's, or skymark's source."""
