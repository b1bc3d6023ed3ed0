"""SkyPilot's own runtime on a machine, kept so that the next machine need not install it again.

The first machine of a SkyPilot version spends most of its set-up installing Ray and SkyPilot. It
is copied when that machine ends, and laid under the home of later ones, as some providers bake it
into their images. SkyPilot checks versions and hashes itself and installs what does not fit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

RUNTIME = "skypilot-runtime"
MARKS = (".sky/python_path", ".sky/ray_path", ".sky/wheels/current_sky_wheel_hash")
"""Files by which SkyPilot knows what is installed, from the machine's home."""


@dataclass(frozen=True)
class Runtime:
    """A kept runtime, or the place for one.

    Args:
        directory: where it lies; named for the versions that it holds.
    """

    directory: Path

    @property
    def complete(self) -> bool:
        """Whether it can be used."""
        return (self.directory / RUNTIME).is_dir()

    def keep(self, home: Path) -> None:
        """Copy the runtime out of a machine's home, unless there is one or it is not finished."""
        if self.complete or not all((home / mark).is_file() for mark in MARKS):
            return
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.directory.with_name(f"{self.directory.name}.lock")):
            if self.complete:
                return
            partial = self.directory.with_name(f"{self.directory.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for name in MARKS:
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(home / name, partial / name)
            copy = ["cp", "--archive", os.fspath(home / RUNTIME), os.fspath(partial)]
            if subprocess.run(copy, capture_output=True, check=False).returncode == 0:
                shutil.rmtree(self.directory, ignore_errors=True)
                partial.rename(self.directory)
