"""Requirements of providers: place of credentials, least privilege and quotas.

From SkyPilot's documentation: https://docs.skypilot.co/en/latest/getting-started/installation.html,
cloud-setup/cloud-permissions and cloud-setup/quota.html. Vast's categories of permissions:
https://docs.vast.ai/api-reference/permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skymark.model.base import Frozen

QUOTAS = "https://docs.skypilot.co/en/latest/cloud-setup/quota.html"
PERMISSIONS = "https://docs.skypilot.co/en/latest/cloud-setup/cloud-permissions"


class Access(Frozen):
    """Requirements of one provider."""

    provider: str
    """SkyPilot's name of it, as `--infra` takes it."""
    credentials: tuple[str, ...]
    """Files; one of them is enough."""
    variables: tuple[str, ...] = ()
    """Of the environment, that do instead of a file."""
    setup: str
    """How the credentials get there."""
    privilege: str
    """The least that they must allow."""
    quota: str | None = None
    """What to look at before the first machine; None where nothing is known of it."""

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
        privilege="an API key; Lambda's keys cannot be limited, so keep one for this alone",
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
        quota="what the cluster has; its administrator may limit a namespace",
    ),
    Access(
        provider="slurm",
        credentials=("~/.slurm/config",),
        setup="write the login node into the file, in the form of ~/.ssh/config",
        privilege="SSH to a login node, as a user who may submit jobs",
        quota="what the partition and the account allow: sacctmgr show assoc user=$USER",
    ),
)
"""Providers that the machine kinds are for."""
