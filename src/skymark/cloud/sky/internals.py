"""Parts of SkyPilot without a public interface, each with its reason.

A new release of SkyPilot is checked against this module: no other one reaches behind its SDK.
"""

from __future__ import annotations

import logging
import pwd
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from skymark.machine.processes import UnknownPeerError, strangers_id
from skymark.model.errors import CloudError

MANAGED_JOB_FILES = Path("~/.sky/managed_jobs")
"""Files of managed jobs on the API server, secrets included; the SDK does not list them."""

SSH_SETTINGS = Path("~/.sky/generated/ssh")
"""SSH settings, one file per cluster; the SDK has no command that copies files."""

OWN_CLUSTERS = {"kubernetes", "slurm", "ssh"}
"""SkyPilot's names that are no providers: their machines are never ended."""

CATALOGUE_FILE = "vms.csv"


def withhold_bucket_keys() -> None:
    """Keep the AWS variables out of requests to the API server.

    A client sends them along to a server on its own machine, which writes them into its database.
    No setting turns that off.
    """
    from sky.server.requests import payloads

    names = payloads.EXTERNAL_LOCAL_ENV_VARS
    names[:] = [name for name in names if not name.startswith("AWS_")]


@cache
def refuse_strangers() -> None:
    """Keep the client from using an API server of another user on this machine.

    One client of requests serves the whole process; each upload makes a new client.
    """
    import httpx
    from sky.client import common
    from sky.server import rest

    class Client(httpx.Client):
        def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
            request.extensions["trace"] = _traced
            return super().send(request, **options)

    guard(rest._session)  # noqa: SLF001 - the one of all requests
    common.httpx = SimpleNamespace(Client=Client, Timeout=httpx.Timeout)


def _traced(event: str, info: dict[str, Any]) -> None:
    if event == "connection.connect_tcp.complete":
        require_own(info["return_value"].get_extra_info("socket"))


def withhold_provider_keys(used: Collection[str]) -> None:
    """Keep SkyPilot from copying the keys of providers that are not used to the machines it rents.

    It copies the keys of all, so that machines may read any bucket and rent further machines. Its
    setting for that is sent along with each request; some providers have none.

    Args:
        used: names of the providers that machines may be rented of, which end themselves with these
            keys.
    """
    from sky import skypilot_config
    from sky.utils import registry, schemas

    settings = schemas.get_config_schema()["properties"]
    unused = [
        name
        for name in registry.CLOUD_REGISTRY
        if name not in used and "remote_identity" in settings.get(name, {}).get("properties", {})
    ]
    skypilot_config.apply_cli_config([f"{name}.remote_identity=NO_UPLOAD" for name in unused])


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


def yaml_of(text: str) -> Any:
    """Return what a YAML says, read as SkyPilot reads one.

    Raises:
        ValueError: it is none, or has a key twice.
    """
    from sky.utils import yaml_utils

    yaml_utils.check_no_duplicate_keys(text)
    return yaml_utils.safe_load(text)


def catalogue_directory() -> Path:
    """Return the directory of price catalogues; its path has the schema's version in it."""
    from sky.catalog import common

    return Path(common.get_catalog_path(""))


def catalogue_files() -> dict[str, Path]:
    """Return the local catalogue files by the cloud's name.

    Files of clouds that this SkyPilot does not know are skipped.
    """
    from sky.utils import registry

    files = {
        path.parent.name: path for path in sorted(catalogue_directory().glob(f"*/{CATALOGUE_FILE}"))
    }
    return {name: path for name, path in files.items() if name in registry.CLOUD_REGISTRY}


def fetch_catalogue(cloud: str) -> None:
    """Fetch a cloud's catalogue that is not on this disk; it contacts no API server.

    SkyPilot fetches it when its content is first looked at, and would print on standard output why
    it cannot.

    Raises:
        OSError: there is no network, or no such catalogue.
    """
    import requests
    from sky.catalog import common
    from sky.skylet import constants

    logging.disable(logging.CRITICAL)
    try:
        _ = common.read_catalog(f"{cloud}/{CATALOGUE_FILE}").columns
    except requests.ConnectionError as error:
        host = urlsplit(constants.HOSTED_CATALOG_DIR_URL).hostname
        raise ConnectionError(f"{host} cannot be reached") from error
    finally:
        logging.disable(logging.NOTSET)


def cloud_named(name: str) -> Any:
    """Return a cloud's object, which knows the machines that are feasible and their regions."""
    from sky.utils import registry

    return registry.CLOUD_REGISTRY.from_str(name)


def managed_cluster_name(job: str, number: int) -> str:
    """Return the name that the machines of a managed job have; no record of the job has it."""
    from sky.jobs import utils

    return str(utils.generate_managed_job_cluster_name(job, number))


def local_handle(cluster: str) -> Any | None:
    """Return a cluster's handle from the database of the API server on this machine, or None.

    The SDK hides the machines of managed jobs, and has no answer while the server is away.
    """
    from sky import global_user_state

    return global_user_state.get_handle_from_cluster_name(cluster)


def image_of(handle: Any) -> str | None:
    """Return the container image that a cluster's jobs run in, or None."""
    image = handle.launched_resources.extract_docker_image()
    return None if image is None else str(image)


def run_on_nodes(handle: Any, script: str, done: set[str]) -> bool:
    """Run a script on each node of a cluster that answers over SSH, also before SkyPilot is there.

    Args:
        handle: of `local_handle`.
        script: for bash.
        done: nodes where it has run already; those where it runs now are added.

    Returns:
        Whether it has run on all.
    """
    from sky import provision
    from sky.backends import backend_utils

    info = handle.cached_cluster_info
    if info is None or info.provider_name in OWN_CLUSTERS:
        return False
    known = backend_utils.ssh_credential_from_yaml(handle.cluster_yaml, ssh_user=info.ssh_user)
    # A connection of its own: SkyPilot's server shares one between its processes.
    keys = {name: value for name, value in known.items() if name != "ssh_control_name"}
    runners = provision.get_command_runners(info.provider_name, info, **keys)
    for runner in runners:
        if runner.node_id not in done:
            answer = runner.run(script, stream_logs=False, log_path="/dev/null", connect_timeout=10)
            if answer == 0:
                done.add(runner.node_id)
    return bool(runners) and {one.node_id for one in runners} <= done


def provider_of(handle: Any) -> tuple[str, dict[str, Any]] | None:
    """Return a cluster's provider and SkyPilot's settings for it; None before it has one.

    SkyPilot drops both with its record of the cluster, when it has told the provider to end it.
    """
    from sky import global_user_state

    info = handle.cached_cluster_info
    if info is not None and info.provider_config is not None:
        return str(info.provider_name), dict(info.provider_config)
    if handle.launched_resources.cloud is None or handle.cluster_yaml is None:
        return None
    config = global_user_state.get_cluster_yaml_dict(handle.cluster_yaml)
    return repr(handle.launched_resources.cloud).casefold(), dict(config["provider"])


def instance_ids(handle: Any) -> tuple[str, ...]:
    """Return the provider's ids of a cluster's machines that SkyPilot knows."""
    info = handle.cached_cluster_info
    return () if info is None else tuple(str(one) for one in info.instances)


def provider_lists(
    provider: str, cluster: str, name: str, settings: dict[str, Any]
) -> dict[str, bool]:
    """Ask a provider for its machines of a name; returns whether each runs, by its id.

    A machine that is listed and does not run has ended or is about to. The SDK asks only for
    clusters of which SkyPilot has a record.
    """
    from sky import provision

    found = provision.query_instances(provider, cluster, name, settings, non_terminated_only=False)
    return {str(id): status is not None for id, (status, _) in found.items()}


def provider_ends(provider: str, name: str, settings: dict[str, Any]) -> None:
    """Tell a provider to end its machines of a name, of which SkyPilot has no record any more."""
    from sky import provision

    provision.terminate_instances(provider, name, settings)


def lambda_prices_usd() -> dict[str, float]:
    """Return Lambda's own prices per hour by instance type, from the list that SkyPilot reads.

    SkyPilot takes from it which machines there are, and the prices from its catalogue.
    """
    from sky.provision.lambda_cloud import lambda_utils

    listed = lambda_utils.LambdaCloudClient().list_catalog()
    return {
        name: float(one["instance_type"]["price_cents_per_hour"]) / 100
        for name, one in listed.items()
    }


def is_api_server_here() -> bool:
    """Whether the API server is this machine's; what it keeps in files can be removed then."""
    from sky.server import common

    return bool(common.is_api_server_local())


def may_start_api_server() -> bool:
    """Whether SkyPilot starts an API server here where there is none and one is needed."""
    from sky.server import common

    try:
        common.check_local_api_server_enabled_or_raise()
    except RuntimeError:
        return False
    return is_api_server_here()


OWN_REQUESTS = "-daemon"
"""End of the ids of the API server's requests to itself, which go on for ever."""


def api_server_runs_here() -> bool:
    """Whether this machine has a running API server of this client."""
    from sky.client import sdk

    return bool(sdk._local_api_server_running())  # noqa: SLF001


def end_idle_api_server() -> None:
    """End the API server on this machine, unless it works on a request.

    SkyPilot's own ``api_stop`` also kills the controllers of managed jobs.
    """
    from filelock import FileLock
    from sky.client import sdk
    from sky.skylet import constants

    with FileLock(Path(constants.API_SERVER_CREATION_LOCK_PATH).expanduser()):
        if all(str(one.request_id).endswith(OWN_REQUESTS) for one in sdk.api_status()):
            sdk._local_api_server_running(kill=True)  # noqa: SLF001


def runs_job_controllers() -> bool:
    """Whether the API server runs controllers of managed jobs itself, instead of renting one."""
    from sky.utils import controller_utils

    return bool(controller_utils.is_jobs_consolidation_mode())


PORT_VARIABLE = "SKYPILOT_API_SERVER_LOCAL_PORT"


class StrangersServerError(CloudError):
    """Another user's program listens where SkyPilot's API server should."""


def require_own(connection: socket.socket) -> None:
    """Refuse a connection to another user's program on this machine.

    Raises:
        StrangersServerError: it leads there; nothing was sent.
        ConnectionError: nobody can tell where it leads.
    """
    try:
        user = strangers_id(connection)
    except UnknownPeerError as error:
        raise ConnectionError(str(error)) from error
    if user is None:
        return
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = f"user {user}"
    host, port = connection.getpeername()[:2]
    raise StrangersServerError(
        f"a program of {name} listens at {host} port {port}, where SkyPilot's API server should: "
        f"nothing was sent to it. Set {PORT_VARIABLE} to a free port, equal in every shell, or "
        "let SKYPILOT_API_SERVER_ENDPOINT name a server of your own"
    )


def guard(session: Any) -> None:
    """Check each new connection of a session of requests before it sends data.

    Args:
        session: the session; its pools of connections keep their size.
    """
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    class Connection(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            _looked_at(self)

    class SecureConnection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            _looked_at(self)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    for adapter in session.adapters.values():
        adapter.poolmanager.pool_classes_by_scheme = {"http": Pool, "https": SecurePool}


def _looked_at(connection: Any) -> None:
    try:
        require_own(connection.sock)
    except BaseException:
        connection.close()
        raise
