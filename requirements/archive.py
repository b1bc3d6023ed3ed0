"""Build hook: the wheel has all requirement files in one archive, which is twenty times smaller.

Most of them are hashes, and most hashes stand in many files.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "skymark/data/requirements.tar.xz"
OF_CHECKOUT = {"docs"}
"""Names of requirement files that an installed skymark does not use."""


class RequirementsArchive(BuildHookInterface[Any]):
    """Archive of the requirement files, the same bytes for the same files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the archive, unless the wheel only points to this checkout."""
        if version == "editable":
            return
        requirements = Path(self.root, "requirements")
        self._made = Path(tempfile.mkstemp(suffix=".tar.xz")[1])
        with tarfile.open(self._made, "w:xz") as archive:
            for path in sorted(requirements.rglob("*")):
                if path.stem in OF_CHECKOUT:
                    continue
                if path.suffix in {".in", ".txt"} or path.name == "sizes.toml":
                    member = tarfile.TarInfo(path.relative_to(requirements).as_posix())
                    member.size = path.stat().st_size
                    with path.open("rb") as file:
                        archive.addfile(member, file)
        build_data["force_include"][str(self._made)] = PLACE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the archive, which is in the wheel now."""
        del build_data, artifact_path
        if version != "editable":
            self._made.unlink()
