"""Time limits of wandb's processes."""

from __future__ import annotations

from skymark.model.base import Frozen


class Limits(Frozen):
    """Time limits of wandb's processes, in seconds; a late one is ended.

    They include the start of a process, which takes many seconds on a busy machine.
    """

    request_s: int = 10
    """One request to the server; wandb's library itself gives up then."""
    call_s: float = 60.0
    """One file sent or read, or one listing, with the start of the process."""
    log_s: float = 120.0
    """Writing the offline run; reading it back has the same time again."""
    sync_s: float = 120.0
    """Uploading the offline run."""
    read_s: float = 60.0
    """Reading the artifact back."""
    per_file_s: float = 0.05
    """Added to the last three for each file of the run."""
