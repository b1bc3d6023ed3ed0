"""Room that the disks of simulated machines take on this machine's."""

from __future__ import annotations

import shutil
import tempfile

from skymark.execute.venv_specs import MB, unpacked_bytes, venvs_of_plan
from skymark.model.plan import Plan


def lack_of_room(plan: Plan) -> str | None:
    """Return a warning where a plan's venvs may fill the disk of simulated machines, or None.

    A machine's venvs share no files with one another, because uv's cache lies on another disk.
    """
    directory = tempfile.gettempdir()
    needed = sum(unpacked_bytes([spec]) for spec in venvs_of_plan(plan, "cpu").values())
    free = shutil.disk_usage(directory).free
    if needed <= free:
        return None
    return (
        f"the machines install about {needed / MB:,.0f} MB below {directory}, and "
        f"{free / MB:,.0f} MB are free: name fewer libraries with --adapters, or a larger disk "
        "with TMPDIR"
    )
