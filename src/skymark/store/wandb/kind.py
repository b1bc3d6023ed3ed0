"""Declaration of Weights & Biases as a kind of store."""

from __future__ import annotations

from skymark.store.kinds import ClientLibrary, StoreKind, Variables
from skymark.store.store import RunSource, Store

KEY_VARIABLE = "WANDB_API_KEY"
DISABLED_MODE = "disabled"
OFFLINE_MODES = {"offline", "dryrun"}
"""Values of WANDB_MODE with which a run is written to disk only."""


def _open(url: str, run_id: str) -> Store:
    from skymark.store.wandb.store import open_run_files

    return open_run_files(url, run_id)


def _open_run(url: str) -> RunSource:
    from skymark.store.wandb.store import open_artifact

    return open_artifact(url)


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


def _check_key(variables: Variables) -> None:
    from skymark.store.wandb.key import check_key

    check_key(variables)


WANDB = StoreKind(
    scheme="wandb",
    address="wandb",
    opener=_open,
    run_opener=_open_run,
    run_addresses=("wandb://ENTITY/PROJECT/ARTIFACT:ALIAS", "wandb://ENTITY/PROJECT/runs/RUN-ID"),
    outlives_machine=False,  # offline it is on the machine's disk; and a run is found otherwise
    leaves_machine=_leaves_machine,
    default_url=_default_url,
    variables=(KEY_VARIABLE, "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_MODE"),
    has_credentials=_has_key,
    key_check=_check_key,
    client=ClientLibrary("wandb", "pip install 'skymark[wandb]'"),
)
