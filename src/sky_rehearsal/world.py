"""A whole cloud on this machine: SkyPilot, machines for rent and a bill, gone without a trace."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sky_rehearsal.changes import Changes
from sky_rehearsal.image import (
    UV_INSTALLER,
    UV_INSTALLER_HOST,
    UV_INSTALLER_PATH,
    Image,
    Runtime,
    find_python,
    find_uv,
    host_certificates,
)
from sky_rehearsal.lambda_api import LambdaApi
from sky_rehearsal.lambda_cloud import Instance, InstanceType, LambdaCloud, read_instance_types
from sky_rehearsal.leftovers import note_rehearsal, remove_leftovers, undone_when_told_to_end
from sky_rehearsal.machine import Machine, start_machine
from sky_rehearsal.machine_start import USER_ID
from sky_rehearsal.network import Network, make_network
from sky_rehearsal.requirements import UnfitError, check_requirements
from sky_rehearsal.skypilot import (
    TRACES,
    ApiServer,
    client_variables,
    free_port,
    installed_skypilot,
    server_variables,
    started_api_server,
    write_settings,
)
from sky_rehearsal.slurm import SlurmCluster, start_slurm

CATALOGS = Path(__file__).with_name("catalogs")
"""Machines and prices of the simulated cloud."""

CACHE = Path("~/.cache/sky-rehearsal")

DISK_GIB = 64.0
"""Default size of a machine's disk. It takes room here only as it fills."""


@dataclass
class World:
    """A cloud that is up. Made by `rehearsal_world`.

    Attributes:
        home: the home directory of SkyPilot and of its client.
        cloud: the rented machines, their cost, and every fault of the provider.
        api: the provider's REST API: its calls, and its rate limit.
        api_server: SkyPilot's API server; may be stopped and started to rehearse that.
        network: the network of the machines.
        changes: all changes of this machine.
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
    _slurm: list[SlurmCluster] = field(default_factory=list)

    def variables(self) -> dict[str, str]:
        """Return the variables for a SkyPilot client in this world: this process's, changed."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SKYPILOT_")}
        return {**kept, **self._client}

    def command(self, *command: str) -> list[str]:
        """Return a command that runs as a client in this world: the provider's name leads here.

        Like SkyPilot's server, it cannot reach the real provider by mistake.
        """
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--", "sh", "-c", script, os.fspath(self._hosts), *command]

    def rented(self, cluster: str | None = None) -> list[Instance]:
        """Return the instances that are rented now, of one cluster or of all, oldest first."""
        named = [
            instance
            for instance in self.cloud.instances()
            if cluster is None or instance.name.startswith(f"{cluster}-")
        ]
        return sorted(named, key=lambda instance: instance.began_s)

    def machine(self, instance: Instance) -> Machine:
        """Return an instance's machine, to look into it or to pull its cable.

        Raises:
            UnfitError: it has not booted.
        """
        if instance.machine is None:
            raise UnfitError(f"instance {instance.name} has not booted: {instance.status}")
        return instance.machine

    def preempt(self, cluster: str) -> list[Instance]:
        """Take all machines of a cluster away without being asked; return when they have gone."""
        taken = self.rented(cluster)
        for instance in taken:
            self.cloud.preempt(instance.id)
        return taken

    def start_slurm(self, name: str = "slurm") -> SlurmCluster:
        """Start a real Slurm cluster beside the cloud; SkyPilot knows it as ``slurm/NAME``.

        The world must have been made with ``clouds=("lambda", "slurm")``.

        Raises:
            UnfitError: Slurm's packages are not installed.
            RehearsalError: it did not start.
        """
        directory = self._machines / name
        cluster = start_slurm(self.home, self._image, self.network, directory, name=name)
        self._slurm.append(cluster)
        return cluster

    def stop_slurm(self) -> None:
        """End every Slurm cluster; safe to call again."""
        while self._slurm:
            self._slurm.pop().stop()


@contextmanager
def rehearsal_world(
    *,
    catalogs: Path | None = None,
    cache: Path | None = None,
    managed_jobs: bool = False,
    clouds: Sequence[str] = ("lambda",),
    directory: Path | None = None,
) -> Iterator[World]:
    """Make a cloud on this machine, and take it away at the end, also after an error.

    Args:
        catalogs: prices in place of `CATALOGS`, in the layout of ``~/.sky/catalogs/v8``.
        cache: keeps packages and SkyPilot's runtime between rehearsals; by default `CACHE`.
        managed_jobs: have SkyPilot's API server run controllers of managed jobs, which take
            0.5 GB and a while to start.
        clouds: the clouds that SkyPilot may use.
        directory: a new one with a short path, for everything; a temporary one by default.

    Raises:
        UnfitError: this machine cannot hold a rehearsal.
        RehearsalError: something did not come up, or could not be taken away again.
    """
    check_requirements()
    remove_leftovers()
    changes = Changes()
    try:
        with undone_when_told_to_end(), ExitStack() as stack:
            root = directory or Path(tempfile.mkdtemp(prefix="rehearsal-"))
            home, machines = root / "home", root / "machines"
            changes.add_directory(root)
            for folder in (home, machines, root / "tmp"):
                folder.mkdir(parents=True)
            changes.add_clients(home)
            skypilot = installed_skypilot(home)
            prices = catalogs or CATALOGS
            types = read_instance_types(prices)
            shutil.copytree(prices, home / ".sky" / "catalogs" / skypilot.catalog_version)
            network = make_network(changes)
            user, key = secrets.token_hex(4), secrets.token_hex(16)
            sockets = Path(f"/tmp/sky_ssh_{user}")  # noqa: S108 SkyPilot's choice
            note_rehearsal(network.bridge, [root, sockets], TRACES, changes)
            changes.add_directory(sockets)
            host = skypilot.provider_host
            names = [host, UV_INSTALLER_HOST] if find_uv() else [host]
            bundle, certificate = _make_trust(root, names)
            cache = (cache or CACHE).expanduser()
            image = _make_image(bundle, names, network, cache, skypilot.release)
            cloud = _make_cloud(types, image, network, machines, stack)
            address, files = (network.gateway, 443), {UV_INSTALLER_PATH: UV_INSTALLER}
            api = stack.enter_context(LambdaApi(cloud, key, address, certificate, files))
            write_settings(home, key, clouds, f"https://{host}/", managed_jobs=managed_jobs)
            hosts = root / "hosts"
            hosts.write_text(f"{Path('/etc/hosts').read_text()}\n{network.gateway} {host}\n")

            def make_server(port: int) -> ApiServer:
                client = client_variables(home, user, bundle, port)
                return ApiServer(root, hosts, server_variables(client, root / "tmp", bundle), port)

            server = started_api_server(make_server, stack, free_port)
            client = client_variables(home, user, bundle, server.port)
            world = World(
                home, cloud, api, server, network, changes, image, machines, client, hosts
            )
            stack.callback(world.stop_slurm)
            yield world
    finally:
        changes.undo_all()


def _make_trust(directory: Path, hosts: Sequence[str]) -> tuple[Path, Path]:
    """Make a certificate for host names, by an authority that is forgotten at once.

    Returns:
        a bundle of this machine's certificates and the authority's; the certificate with its key.
    """
    import trustme

    authority = trustme.CA(organization_name="sky-rehearsal")
    bundle, certificate = directory / "bundle.crt", directory / "server.pem"
    here = host_certificates()
    trusted = b"" if here is None else here.read_bytes() + b"\n"
    bundle.write_bytes(trusted + authority.cert_pem.bytes())
    certificate.touch(mode=0o600)
    certificate.write_bytes(authority.issue_cert(*hosts).private_key_and_cert_chain_pem.bytes())
    return bundle, certificate


def _make_image(
    bundle: Path, names: Sequence[str], network: Network, cache: Path, release: str
) -> Image:
    packages, python = cache / "packages", find_python()
    packages.mkdir(parents=True, exist_ok=True)
    os.chown(packages, USER_ID, USER_ID)
    digest = hashlib.sha256(os.fsencode(python or "downloaded")).hexdigest()[:8]
    return Image(
        certificates=bundle,
        hosts=dict.fromkeys(names, network.gateway),
        package_cache=packages,
        python=python,
        runtime=Runtime(cache / f"skypilot-{release}-{digest}"),
    )


def _make_cloud(
    types: Mapping[str, InstanceType],
    image: Image,
    network: Network,
    machines: Path,
    stack: ExitStack,
) -> LambdaCloud:
    def start(name: str, public_keys: Sequence[str], type: InstanceType) -> Machine:
        directory = machines / f"{name}-{secrets.token_hex(3)}"
        # SkyPilot asks Ray for half a core for each job: with fewer, not every GPU would get one.
        cpus = type.gpus if type.gpus > (os.cpu_count() or 1) else None
        return start_machine(name, public_keys, image, network, directory, DISK_GIB, cpus)

    def keep_runtime(instance: Instance) -> None:
        machine = instance.machine
        if machine is not None and machine.alive and image.runtime is not None:
            image.runtime.keep(machine.home)

    cloud = LambdaCloud(types, start)
    cloud.before_end.append(keep_runtime)
    stack.callback(cloud.close)
    return cloud
