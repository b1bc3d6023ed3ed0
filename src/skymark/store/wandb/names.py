"""Names of runs and files for W&B."""

from __future__ import annotations

import re
from hashlib import sha256

LONGEST = 64
LINK = "run"
"""Link to the run's directory, in the working directory of wandb's commands."""


def wandb_id(run_id: str) -> str:
    """Return a run's id as W&B takes it: letters, digits, ``_``, ``-`` and ``.``, at most 64."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", run_id)
    if plain == run_id and len(plain) <= LONGEST:
        return plain
    return f"{plain[:55]}-{sha256(run_id.encode()).hexdigest()[:8]}"
