"""Environment variables of W&B's client that skymark reads itself."""

from __future__ import annotations

KEY_VARIABLE = "WANDB_API_KEY"
DISABLED_MODE = "disabled"
OFFLINE_MODES = {"offline", "dryrun"}
"""Values of WANDB_MODE with which a run is written to disk only."""
