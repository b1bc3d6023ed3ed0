"""Where a secret shows: in the arguments of processes, and in files, plain or as base64."""

from __future__ import annotations

import os
import threading
import time
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

POLL_S = 0.02
STARTING_S = 1.0
"""As long as each poll looks at a process: a shell becomes the command that it starts."""
POLLS_OF_OLD_PROCESSES = 25


def forms(secret: str) -> list[bytes]:
    """Return a secret in plain text, and what base64 makes of it wherever it lies in a text."""
    encoded = []
    for offset in range(3):
        whole = b64encode(b"\0" * offset + secret.encode())
        encoded.append(whole[4 if offset else 0 : -4])  # what depends on its neighbours left out
    return [secret.encode(), *encoded]


def files_with(secret: str, places: Iterable[Path]) -> list[str]:
    """Return the files below some places that hold a secret in any form."""
    wanted, found = forms(secret), []
    for place in places:
        for directory, _, names in os.walk(place):
            for path in (Path(directory, name) for name in names):
                with suppress(FileNotFoundError):  # gone since it was listed
                    data = path.read_bytes() if path.is_file() else b""
                    if any(form in data for form in wanted):
                        found.append(str(path))
    return found


class Arguments:
    """Watches the arguments of every process of this machine, simulated machines included."""

    def __init__(self, secret: str) -> None:
        """Begin to look for a secret in any form."""
        self.looks = 0
        self.seen: set[str] = set()
        """The arguments that held it."""
        self._forms = forms(secret)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        first_seen: dict[Path, float] = {}
        while not self._over.wait(POLL_S):
            now = time.monotonic()
            processes = (path for path in Path("/proc").iterdir() if path.name.isdigit())
            first_seen = {process: first_seen.get(process, now) for process in processes}
            old_too = self.looks % POLLS_OF_OLD_PROCESSES == 0
            self.looks += 1
            for process, since in first_seen.items():
                if now - since > STARTING_S and not old_too:
                    continue
                try:
                    arguments = (process / "cmdline").read_bytes()
                except OSError:  # it has ended
                    continue
                if any(form in arguments for form in self._forms):
                    self.seen.add(arguments.decode(errors="replace").replace("\0", " "))
