"""Declaration of Weights & Biases as a kind of store."""

from __future__ import annotations

from functools import partial

from skymark.references import imported_when_called
from skymark.resources import install_line
from skymark.store.kinds import ClientLibrary, StoreKind, Variables

KEY_VARIABLE = "WANDB_API_KEY"
DISABLED_MODE = "disabled"
OFFLINE_MODES = {"offline", "dryrun"}
"""Values of WANDB_MODE with which a run is written to disk only."""


def _has_key(variables: Variables) -> bool:
    return bool(variables.get(KEY_VARIABLE))


def _default_url(variables: Variables) -> str | None:
    wanted = _has_key(variables) and variables.get("WANDB_MODE") != DISABLED_MODE
    return "wandb" if wanted else None


def _leaves_machine(variables: Variables) -> bool:
    return _has_key(variables) and variables.get("WANDB_MODE") not in {
        DISABLED_MODE,
        *OFFLINE_MODES,
    }


WANDB = StoreKind(
    scheme="wandb",
    address="wandb",
    opener=imported_when_called("skymark.store.wandb.store:open_run_files"),
    run_opener=imported_when_called("skymark.store.wandb.store:open_artifact"),
    run_addresses=("wandb://ENTITY/PROJECT/ARTIFACT:ALIAS", "wandb://ENTITY/PROJECT/runs/RUN-ID"),
    outlives_machine=False,  # offline it is on the machine's disk; and a run is found otherwise
    leaves_machine=_leaves_machine,
    default_url=_default_url,
    variables=(KEY_VARIABLE, "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_MODE"),
    has_credentials=_has_key,
    key_check=imported_when_called("skymark.store.wandb.key:check_key"),
    client=ClientLibrary("wandb", partial(install_line, "wandb")),
)
