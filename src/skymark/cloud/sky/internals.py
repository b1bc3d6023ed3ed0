"""Parts of SkyPilot without a public interface, each with its reason.

A new release of SkyPilot is checked against this module: no other one reaches behind its SDK.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MANAGED_JOB_FILES = Path("~/.sky/managed_jobs")
"""Files of managed jobs on the API server, secrets included; the SDK does not list them."""

SSH_SETTINGS = Path("~/.sky/generated/ssh")
"""SSH settings, one file per cluster; the SDK has no command that copies files."""

CATALOGUE_FILE = "vms.csv"


def withhold_bucket_keys() -> None:
    """Keep the AWS variables out of requests to the API server.

    A client sends them along to a server on its own machine, which writes them into its database.
    No setting turns that off.
    """
    from sky.server.requests import payloads

    names = payloads.EXTERNAL_LOCAL_ENV_VARS
    names[:] = [name for name in names if not name.startswith("AWS_")]


@contextmanager
def catalogue_without_refresh() -> Iterator[None]:
    """Keep SkyPilot from fetching a catalogue that is some hours old.

    It leaves a file alone that the user has changed; for the time being, all count as such. A
    price must not need a network.
    """
    from sky.catalog import common

    usual = common.is_catalog_modified
    common.is_catalog_modified = lambda _: True
    try:
        yield
    finally:
        common.is_catalog_modified = usual


def catalogue_directory() -> Path:
    """Return the directory of price catalogues; its path has the schema's version in it."""
    from sky.catalog import common

    return Path(common.get_catalog_path(""))


def catalogue_files() -> dict[str, Path]:
    """Return the catalogue file of every cloud that has one on this disk, by the cloud's name.

    There may be files of clouds that this SkyPilot does not know (any more); they are left out.
    """
    from sky.utils import registry

    files = {
        path.parent.name: path for path in sorted(catalogue_directory().glob(f"*/{CATALOGUE_FILE}"))
    }
    return {name: path for name, path in files.items() if name in registry.CLOUD_REGISTRY}


def fetch_catalogue(cloud: str) -> None:
    """Fetch a cloud's catalogue that is not on this disk; it contacts no API server.

    SkyPilot fetches it when its content is first looked at.

    Raises:
        requests.RequestException: there is no network, or no such catalogue.
    """
    from sky.catalog import common

    _ = common.read_catalog(f"{cloud}/{CATALOGUE_FILE}").columns


def cloud_named(name: str) -> Any:
    """Return a cloud's object, which knows the machines that are feasible and their regions."""
    from sky.utils import registry

    return registry.CLOUD_REGISTRY.from_str(name)


def managed_cluster_name(job: str, number: int) -> str:
    """Return the name that the machines of a managed job have; no record of the job has it."""
    from sky.jobs import utils

    return str(utils.generate_managed_job_cluster_name(job, number))


def is_api_server_here() -> bool:
    """Whether the API server is this machine's; what it keeps in files can be removed then."""
    from sky.server import common

    return bool(common.is_api_server_local())


def runs_job_controllers() -> bool:
    """Whether the API server runs controllers of managed jobs itself, instead of renting one."""
    from sky.utils import controller_utils

    return bool(controller_utils.is_jobs_consolidation_mode())


def facts_for_rehearsal() -> tuple[str, str, str]:
    """Return Lambda's API address, the catalogue's version and SkyPilot's release."""
    import sky
    from sky.provision.lambda_cloud import lambda_utils
    from sky.skylet import constants

    return (
        str(lambda_utils.API_ENDPOINT),
        str(constants.CATALOG_SCHEMA_VERSION),
        str(sky.__version__),
    )
