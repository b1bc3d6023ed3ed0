"""Declaration of Weights & Biases as a kind of store."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.resources import imported_when_called, install_line
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
    key_check=imported_when_called("skymark.store.wandb.kind:check_key"),
    client=ClientLibrary("wandb", partial(install_line, "wandb")),
)

SERVER = "https://api.wandb.ai"
QUERY = "query Viewer { viewer { id username } }"
ANSWER_S = 30.0
LARGEST_ANSWER_BYTES = 1 << 20
REFUSED = {400, 401, 403, 404}


class _NoRedirect(HTTPRedirectHandler):
    """A redirection would take the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def check_key(variables: Variables) -> None:
    """Prove that W&B's server knows the key.

    Raises:
        StoreRefusedError: it does not.
        StoreUnavailableError: it does not answer.
    """
    server = (variables.get("WANDB_BASE_URL") or SERVER).rstrip("/")
    host = urlsplit(server).netloc.rpartition("@")[2]
    if urlsplit(server).scheme not in {"http", "https"} or not host:
        raise StoreRefusedError(f"WANDB_BASE_URL {server!r} is no address; set it or unset it")
    key = base64.b64encode(f"api:{variables.get(KEY_VARIABLE, '')}".encode()).decode()
    asked = Request(  # noqa: S310  # http or https, see above
        f"{server}/graphql",
        data=json.dumps({"query": QUERY, "variables": {}}).encode(),
        headers={"Authorization": f"Basic {key}", "Content-Type": "application/json"},
    )
    try:
        with build_opener(_NoRedirect).open(asked, timeout=ANSWER_S) as answer:
            told = json.loads(answer.read(LARGEST_ANSWER_BYTES))
    except HTTPError as error:
        error.close()
        if error.code in REFUSED:
            raise _refused(host, f"answered {error.code}") from error
        raise StoreUnavailableError(
            f"W&B ({host}) answered {error.code}; try again later"
        ) from error
    except (URLError, OSError, ValueError) as error:
        raise StoreUnavailableError(
            f"W&B ({host}) did not answer; check the network, or try again later"
        ) from error
    viewer = told.get("data") if isinstance(told, dict) else None
    if not isinstance(viewer, dict) or not viewer.get("viewer"):
        raise _refused(host, "does not know it")


def _refused(host: str, why: str) -> StoreRefusedError:
    return StoreRefusedError(
        f"W&B ({host}) refuses {KEY_VARIABLE}: it {why}; set another key, or WANDB_MODE=disabled"
    )
