"""A machine whose home is a directory here: the real rsync, with a stand-in for ssh."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

SSH = """#!{python}
import os, sys
words = sys.argv[1:]
while words[0].startswith("-"):
    del words[:2]  # each option has a value
host = words.pop(0)
home = {homes!r} + "/" + host
if not os.path.isdir(home):
    sys.exit(255)
os.chdir(home)
os.execvp("sh", ["sh", "-c", " ".join(words)])
"""


class Machines:
    """Nodes of clusters; `node` makes one, and what is in its directory is in its home."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._homes = directory / "machines"
        self._settings = directory / "home" / ".sky" / "generated" / "ssh"
        self._programs = directory / "programs"
        for one in (self._homes, self._settings, self._programs):
            one.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(directory / "home"))
        monkeypatch.setenv("PATH", f"{self._programs}:{os.environ['PATH']}")
        self.program("ssh", SSH.format(python=sys.executable, homes=str(self._homes)))
        monkeypatch.setattr("skymark.cloud.sky.ssh.PAUSE_S", 0.01)

    def node(self, name: str) -> Path:
        """Make a node with its SSH settings; returns its home."""
        home = self._homes / name
        home.mkdir()
        (self._settings / name).write_text("")
        return home

    def program(self, name: str, text: str) -> None:
        """Put a program before all others on PATH."""
        path = self._programs / name
        path.write_text(text)
        path.chmod(0o755)
