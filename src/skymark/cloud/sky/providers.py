"""Providers whose credentials work."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skymark.cloud.sky.client import explained, sdk, short, sky_program
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

ALIASES = {"k8s": "kubernetes"}

CHECKS = 2
PAUSE_S = 5.0
"""Wait before the next check of a provider that did not accept the credentials."""


def cloud_of(infra: str) -> str:
    """Return the provider's name of an ``--infra`` value such as ``gcp/us-central1``."""
    name = infra.partition("/")[0].casefold()
    return ALIASES.get(name, name)


def enabled_clouds(infra: str | None, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the usable providers; check again if a provider is named or none is known.

    Args:
        infra: of ``--infra``.
        variables: the user's, which may hold credentials.

    Raises:
        UsageError: no provider, or not the named provider, accepts the credentials.
    """
    from sky.client import sdk as client

    wanted = None if infra is None else cloud_of(infra)
    known: list[str] = []
    with explained("the credentials could not be checked"):
        if wanted is None:
            known = [name.casefold() for name in sdk().get(client.enabled_clouds())]
        if known:
            return tuple(known)
        places = _credentials(wanted, variables)
        for check in range(CHECKS):
            known, said = _check(wanted)
            if known:
                return tuple(known)
            if not places:
                break
            if check + 1 < CHECKS:
                time.sleep(PAUSE_S)
    who = wanted or "any provider"
    again = f"`{sky_program()} check {wanted or ''}".rstrip() + "`"
    if places:
        raise UsageError(
            f"the credentials in {' and '.join(places)} are not accepted, or {who} is at fault "
            f"just now ({said or 'SkyPilot does not say which'}); {again} asks again"
        )
    raise UsageError(
        f"no credentials for {who}; `skymark doctor --cloud` says how to get some, and `skymark "
        "cost PROFILE` shows prices without any"
    )


def _check(wanted: str | None) -> tuple[list[str], str]:
    """Check one provider, or all; return the usable providers, and the reasons of the rest."""
    from sky.client import sdk as client

    words = io.StringIO()
    asked = client.check(None if wanted is None else (wanted,), verbose=False)
    found = sdk().stream_and_get(asked, output_stream=words)
    known = [name.casefold() for clouds in found.values() for name in clouds]
    reason = re.search(r"Reason[^:\n]*: (.*?)(?:To enable a cloud|$)", words.getvalue(), re.DOTALL)
    return known, "" if reason is None or wanted is None else short(ValueError(reason[1].strip()))


def _credentials(wanted: str | None, variables: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        place for one in ACCESS if wanted in {None, one.provider} for place in one.found(variables)
    )


def check_all_clouds() -> frozenset[str]:
    """Check every provider again; return the names of the providers that rent machines."""
    from sky.client import sdk as client

    with explained("the credentials could not be checked"):
        found: Mapping[str, Mapping[str, Any]] = sdk().get(client.check(None, verbose=False))
    return frozenset(
        name.casefold()
        for clouds in found.values()
        for name, abilities in clouds.items()
        if "compute" in abilities
    )


QUOTAS = "https://docs.skypilot.co/en/latest/cloud-setup/quota.html"
PERMISSIONS = "https://docs.skypilot.co/en/latest/cloud-setup/cloud-permissions"


class Access(Frozen):
    """Requirements of one provider."""

    provider: str
    """SkyPilot's name of it, as `--infra` takes it."""
    credentials: tuple[str, ...]
    """Files; any single file is enough."""
    variables: tuple[str, ...] = ()
    """Environment variables that replace a file."""
    setup: str
    """How the credentials get there."""
    privilege: str
    """The least that they must allow."""
    quota: str | None = None
    """Rights and limits to check before the first machine; None if unknown."""

    def found(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the files and variables that credentials are in, whether they work or not."""
        home = Path(variables.get("HOME") or Path.home())
        files = [name for name in self.credentials if (home / name.removeprefix("~/")).is_file()]
        return (*files, *(name for name in self.variables if variables.get(name)))


ACCESS = (
    Access(
        provider="lambda",
        credentials=("~/.lambda_cloud/lambda_keys",),
        setup="make a key at https://cloud.lambdalabs.com/api-keys and write the line "
        "`api_key = KEY` into the file",
        privilege="an API key; Lambda's keys cannot be limited, so make a separate key for skymark",
    ),
    Access(
        provider="vast",
        credentials=("~/.config/vastai/vast_api_key",),
        setup="pip install 'skypilot[vast]', make a key at https://cloud.vast.ai/account/ and "
        "write it into the file",
        privilege="user read, machines read, instances read and write, nothing else. SkyPilot also "
        "searches offers, and registers its SSH key with the account once: if Vast refuses one of "
        "these, add the category misc or user write, as its permissions page has them",
    ),
    Access(
        provider="gcp",
        credentials=("~/.config/gcloud/application_default_credentials.json",),
        variables=("GOOGLE_APPLICATION_CREDENTIALS",),
        setup="pip install 'skypilot[gcp]', gcloud init, gcloud auth application-default login",
        privilege="a role of your own with the minimal permissions listed at "
        f"{PERMISSIONS}/gcp.html, and those for TPUs with a TPU profile. Instead, simpler and "
        "wider: roles/browser, compute.admin, iam.serviceAccountAdmin, iam.serviceAccountUser, "
        "serviceusage.serviceUsageConsumer, storage.admin, iam.securityAdmin, and tpu.admin for "
        "TPUs",
        quota="GPUs and TPUs of a new project are zero or few; raise them in the console "
        f"({QUOTAS}), which takes days",
    ),
    Access(
        provider="runpod",
        credentials=("~/.runpod/config.toml",),
        setup="pip install 'skypilot[runpod]', make a key at "
        "https://www.runpod.io/console/user/settings and give it to: runpod config",
        privilege="an API key that may read and write; SkyPilot's documentation names no less",
    ),
    Access(
        provider="aws",
        credentials=("~/.aws/credentials", "~/.aws/config"),
        variables=("AWS_ACCESS_KEY_ID",),
        setup="pip install 'skypilot[aws]', aws configure",
        privilege=f"a user of its own with the policy listed at {PERMISSIONS}/aws.html",
        quota="GPU instances of a new account are zero or few, on demand and spot apart; raise "
        f"them in the region that is used ({QUOTAS})",
    ),
    Access(
        provider="kubernetes",
        credentials=("~/.kube/config",),
        variables=("KUBECONFIG",),
        setup="pip install 'skypilot[kubernetes]' and put the cluster's kubeconfig into the file",
        privilege=f"the roles listed at {PERMISSIONS}/kubernetes.html",
        quota="the cluster's resources; its administrator may limit a namespace",
    ),
    Access(
        provider="slurm",
        credentials=("~/.slurm/config",),
        setup="write the login node into the file, in the form of ~/.ssh/config",
        privilege="SSH to a login node, as a user who may submit jobs",
        quota="the limits of the partition and the account: sacctmgr show assoc user=$USER",
    ),
)
"""Providers that the machine kinds are for."""
