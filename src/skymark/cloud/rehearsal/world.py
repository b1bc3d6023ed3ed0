"""A whole cloud on this machine: SkyPilot, machines for hire and a bill, gone without a trace.

    with rehearsal_world() as world:
        subprocess.run(world.command("skymark", "launch", ...), env=world.variables())
        print(world.cloud.bill())
    print(world.changes.record)

It needs Linux and root.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from skymark.cache.location import own_cache
from skymark.cloud.rehearsal.api_server import ApiServer, free_port, started_api_server
from skymark.cloud.rehearsal.certificate import make_certificate
from skymark.cloud.rehearsal.changes import Changes
from skymark.cloud.rehearsal.clients import end_processes_at_home, processes_at_home
from skymark.cloud.rehearsal.errors import RehearsalUnfitError
from skymark.cloud.rehearsal.image import (
    UV_INSTALLER,
    UV_INSTALLER_HOST,
    UV_INSTALLER_PATH,
    Image,
    find_python,
    find_uv,
    host_certificates,
)
from skymark.cloud.rehearsal.instance_types import InstanceType, read_instance_types
from skymark.cloud.rehearsal.lambda_api import LambdaApi
from skymark.cloud.rehearsal.lambda_cloud import Instance, LambdaCloud
from skymark.cloud.rehearsal.leftovers import (
    note_rehearsal,
    remove_leftovers,
    undone_when_told_to_end,
)
from skymark.cloud.rehearsal.machine import Machine, start_machine
from skymark.cloud.rehearsal.machine_start import USER_ID
from skymark.cloud.rehearsal.network import Network, make_network
from skymark.cloud.rehearsal.requirements import check_requirements
from skymark.cloud.rehearsal.runtime import Runtime
from skymark.cloud.rehearsal.slurm import SlurmCluster, start_slurm

CATALOGS = Path(__file__).with_name("catalogs")
"""Machines and prices of the simulated cloud."""

DISK_GIB = 64.0
"""Size of a machine's disk unless told otherwise. It takes room here only as it fills."""

KEPT_VARIABLES = ("PATH", "LANG", "TZ", "TERM", "USER", "LOGNAME", "SHELL")
PACKAGE_VARIABLES = ("PIP_", "UV_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""The only variables of this process that SkyPilot's API server sees: no credential passes."""

TRACES = tuple(
    Path("/tmp", name)  # noqa: S108 SkyPilot's choice
    for name in (
        "jobs_ha_recovery.log",
        "pool_ha_recovery.log",
        "skypilot_graceful_shutdown.lock",
    )
)
"""Files that every API server of SkyPilot writes at fixed places."""

MEMORY_VARIABLE = "SKYPILOT_POD_MEMORY_GB_LIMIT"
SERVER_MEMORY_GIB = "8"
"""What the API server sizes itself for: with all of 24 GiB it starts 12 job controllers."""

ASK_SKYPILOT = (
    "from skymark.cloud.sky.internals import facts_for_rehearsal; print(*facts_for_rehearsal())"
)


@dataclass
class World:
    """A cloud that is up. Made by `rehearsal_world`.

    Attributes:
        home: the home directory of SkyPilot and of its client.
        cloud: what is hired, what it costs, and every fault of the provider.
        api: the provider's REST API: its calls, and its rate limit.
        api_server: SkyPilot's API server; may be stopped and started to rehearse that.
        network: where the machines are.
        changes: what was changed on this machine.
        slurm: the Slurm clusters beside it.
    """

    home: Path
    cloud: LambdaCloud
    api: LambdaApi
    api_server: ApiServer
    network: Network
    changes: Changes
    _image: Image
    _machines: Path
    _client: Mapping[str, str]
    _hosts: Path
    slurm: list[SlurmCluster] = field(default_factory=list)

    def variables(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables for a SkyPilot client (or `skymark launch`) in this world.

        Args:
            base: what it starts from; this process's variables by default.
        """
        inherited = os.environ if base is None else base
        kept = {key: value for key, value in inherited.items() if not key.startswith("SKYPILOT_")}
        return {**kept, **self._client}

    def command(self, *command: str) -> list[str]:
        """Return a command as a client in this world runs it: the provider's name leads here.

        Like SkyPilot's server, it cannot reach the real provider even by mistake.
        """
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--", "sh", "-c", script, os.fspath(self._hosts), *command]

    def hired(self, cluster: str | None = None) -> list[Instance]:
        """Return the instances that are hired now, of one cluster or of all, oldest first."""
        named = [
            one
            for one in self.cloud.instances()
            if cluster is None or one.name.startswith(f"{cluster}-")
        ]
        return sorted(named, key=lambda one: one.began_s)

    def machine(self, instance: Instance) -> Machine:
        """Return an instance's machine, to look into it or to pull its cable.

        Raises:
            RehearsalUnfitError: it has not booted.
        """
        if not isinstance(instance.machine, Machine):
            raise RehearsalUnfitError(f"instance {instance.name} has not booted: {instance.status}")
        return instance.machine

    def start_slurm(self, name: str = "slurm") -> SlurmCluster:
        """Start a real Slurm cluster beside the cloud; SkyPilot knows it as ``slurm/NAME``.

        The world must have been made with ``clouds=("lambda", "slurm")``.

        Raises:
            RehearsalUnfitError: Slurm's packages are not installed.
            RehearsalError: it did not start.
        """
        place = self._machines / name
        cluster = start_slurm(self.home, self._image, self.network, place, name=name)
        self.slurm.append(cluster)
        return cluster

    def stop_slurm(self) -> None:
        """End every Slurm cluster; safe to call again."""
        while self.slurm:
            self.slurm.pop().stop()

    def preempt(self, cluster: str) -> list[Instance]:
        """Take all machines of a cluster away without being asked; return when they have gone."""
        taken = self.hired(cluster)
        for instance in taken:
            self.cloud.preempt(instance.id)
        return taken


@contextmanager
def rehearsal_world(
    *,
    catalogs: Path | None = None,
    cache: Path | None = None,
    managed_jobs: bool = False,
    disk_gib: float = DISK_GIB,
    clouds: Sequence[str] = ("lambda",),
    directory: Path | None = None,
) -> Iterator[World]:
    """Make a cloud on this machine, and take it away at the end, whatever happened.

    Args:
        catalogs: prices in place of `CATALOGS`, laid out as below ``~/.sky/catalogs/v8``.
        cache: keeps packages and SkyPilot's runtime between rehearsals; by default in skymark's.
        managed_jobs: have SkyPilot's API server run controllers of managed jobs, which take
            0.5 GB and a while to start.
        disk_gib: size of each machine's disk.
        clouds: what SkyPilot may use.
        directory: where everything lies, new and short; a temporary one by default.

    Raises:
        RehearsalUnfitError: this machine cannot hold a rehearsal.
        RehearsalError: something did not come up, or could not be taken away again.
    """
    check_requirements()
    remove_leftovers()
    changes = Changes()
    try:
        with undone_when_told_to_end(), ExitStack() as stack:
            root = _make_directory(directory, changes)
            home = root / "home"
            changes.add(
                f"processes of SkyPilot's clients, whose home is {home}",
                undo=partial(end_processes_at_home, home),
                still_there=lambda: bool(processes_at_home(home)),
            )
            host, version, release = _ask_skypilot(home)
            prices = catalogs or CATALOGS
            types = read_instance_types(prices)
            shutil.copytree(prices, home / ".sky" / "catalogs" / version)
            network = make_network(changes)
            user = secrets.token_hex(4)
            sockets = Path(f"/tmp/sky_ssh_{user}")  # noqa: S108 SkyPilot's choice
            note_rehearsal(network.bridge, [root, sockets], TRACES, changes)
            names = [host, UV_INSTALLER_HOST] if find_uv() else [host]
            bundle, certificate = _make_trust(root, names)
            place = cache or own_cache() / "rehearsal"
            python = find_python()
            image = Image(
                certificates=bundle,
                hosts=dict.fromkeys(names, network.gateway),
                package_cache=_make_package_cache(place / "packages"),
                python=python,
                runtime=Runtime(place / f"skypilot-{release}-{_short(python)}"),
            )
            cloud = _make_cloud(types, image, network, root / "machines", disk_gib, stack)
            key = secrets.token_hex(16)
            api = stack.enter_context(LambdaApi(cloud, key, (network.gateway, 443), certificate))
            api.files[UV_INSTALLER_PATH] = UV_INSTALLER
            _write_settings(home, key, clouds, f"https://{host}/", managed_jobs=managed_jobs)
            _note_directory(sockets, changes)
            hosts = root / "hosts"
            hosts.write_text(f"{Path('/etc/hosts').read_text()}\n{network.gateway} {host}\n")
            client_of = partial(_client_variables, home, user, bundle)

            def make_server(port: int) -> ApiServer:
                variables = {**_kept_variables(), **client_of(port), "HOME": os.fspath(home)}
                variables[MEMORY_VARIABLE] = SERVER_MEMORY_GIB
                variables["TMPDIR"] = os.fspath(root / "tmp")
                variables["SSL_CERT_FILE"] = os.fspath(bundle)
                return ApiServer(root, hosts, variables, port)

            server = started_api_server(make_server, stack, free_port)
            client = client_of(server.port)
            machines = root / "machines"
            world = World(
                home, cloud, api, server, network, changes, image, machines, client, hosts
            )
            stack.callback(world.stop_slurm)
            yield world
    finally:
        changes.undo_all()


def _make_directory(directory: Path | None, changes: Changes) -> Path:
    root = directory or Path(tempfile.mkdtemp(prefix="rehearsal-"))
    _note_directory(root, changes)
    (root / "home").mkdir(parents=True)
    (root / "machines").mkdir()
    (root / "tmp").mkdir()
    return root


def _note_directory(directory: Path, changes: Changes) -> None:
    changes.add(
        f"directory {directory}",
        undo=partial(shutil.rmtree, directory, ignore_errors=True),
        still_there=directory.exists,
    )


def _ask_skypilot(home: Path) -> tuple[str, str, str]:
    """Return the provider's host name, the catalogue version and the release of this SkyPilot."""
    variables = {**_kept_variables(), "HOME": os.fspath(home)}
    asked = subprocess.run(
        [sys.executable, "-P", "-c", ASK_SKYPILOT],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise RehearsalUnfitError(
            f"this SkyPilot cannot be rehearsed: {asked.stderr.strip().splitlines()[-1:]}; "
            "install the version in requirements/cloud.txt"
        )
    endpoint, version, release = asked.stdout.split()[-3:]
    return str(urlsplit(endpoint).hostname), version, release


def _make_trust(root: Path, hosts: Sequence[str]) -> tuple[Path, Path]:
    authority, certificate, bundle = root / "ca.crt", root / "server.pem", root / "bundle.crt"
    make_certificate(hosts, authority, certificate)
    here = host_certificates()
    trusted = b"" if here is None else here.read_bytes() + b"\n"
    bundle.write_bytes(trusted + authority.read_bytes())
    return bundle, certificate


def _make_package_cache(cache: Path) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    os.chown(cache, USER_ID, USER_ID)
    return cache


def _short(python: Path | None) -> str:
    return hashlib.sha256(os.fsencode(python or "downloaded")).hexdigest()[:8]


def _make_cloud(
    types: Mapping[str, InstanceType],
    image: Image,
    network: Network,
    directory: Path,
    disk_gib: float,
    stack: ExitStack,
) -> LambdaCloud:
    def start(name: str, public_keys: list[str], _: InstanceType) -> Machine:
        place = directory / f"{name}-{secrets.token_hex(3)}"
        return start_machine(name, public_keys, image, network, place, disk_gib)

    def keep_runtime(instance: Instance) -> None:
        machine = instance.machine
        if isinstance(machine, Machine) and machine.alive and image.runtime is not None:
            image.runtime.keep(machine.home)

    cloud = LambdaCloud(types, start)
    cloud.before_end.append(keep_runtime)
    stack.callback(cloud.close)
    return cloud


def _write_settings(
    home: Path, key: str, clouds: Sequence[str], probe: str, *, managed_jobs: bool
) -> None:
    credentials = home / ".lambda_cloud" / "lambda_keys"
    credentials.parent.mkdir()
    credentials.write_text(f"api_key = {key}\n")
    # JSON is YAML, and needs no library.
    settings = {
        "allowed_clouds": list(clouds),
        "jobs": {"controller": {"consolidation_mode": managed_jobs}},
    }
    plugin = "skymark.cloud.rehearsal.plugin.RehearsalPlugin"
    plugins = {"plugins": [{"class": plugin, "parameters": {"probe": probe}}]}
    (home / ".sky").mkdir(exist_ok=True)
    (home / ".sky" / "config.yaml").write_text(json.dumps(settings))
    (home / ".sky" / "plugins.yaml").write_text(json.dumps(plugins))


def _client_variables(home: Path, user: str, bundle: Path, port: int) -> dict[str, str]:
    return {
        "HOME": os.fspath(home),
        "REQUESTS_CA_BUNDLE": os.fspath(bundle),
        "SKYPILOT_API_SERVER_LOCAL_PORT": str(port),
        # A client that finds no server would start one itself, outside this world.
        "SKYPILOT_DISABLE_LOCAL_API_SERVER": "1",
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        "SKYPILOT_USER_ID": user,
        "SKYPILOT_USER": "rehearsal",
        # What is noted of machines for those who come back to them goes with the machines.
        "SKYMARK_CACHE": os.fspath(home / ".cache" / "skymark"),
    }


def _kept_variables() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if key in KEPT_VARIABLES or key.upper().startswith(PACKAGE_VARIABLES)
    }
