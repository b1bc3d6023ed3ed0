"""Programs of a second user of this machine, for tests of attacks by one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OTHER_USER = 65534
"""Nobody's number."""

BECOME = f"""
import contextlib, os, random, shutil, socket, sys, time
os.setgroups([]); os.setgid({OTHER_USER}); os.setuid({OTHER_USER})
"""
"""Root starts Python, which may lie where the other user cannot read it, and only then leaves."""


@contextmanager
def program_of_another_user(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program as another user until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", BECOME + text, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()
