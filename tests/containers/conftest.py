"""Real images without a daemon: buildah and podman, in a store of the tests' own.

The base that the Dockerfiles name by its digest is replaced by one that is made here from Debian's
packages, because the place that serves it may be out of reach. What this machine needs to reach a
package index (a certificate, an index of its own) is read from pip's configuration and mounted
while an image is built.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.11-slim-bookworm"
BASE_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CANARY = "canary-7f3a91c2e8d04b65a1f0-canary"
"""Stands for a secret, as long as a W&B key."""
REVISION = "0123456789abcdef0123456789abcdef01234567"
CONTEXT = (".dockerignore", "pyproject.toml", "README.md", "LICENSE")
CONTEXT_FOLDERS = ("src", "benchmarks", "requirements")
SECRET_PLACES = (
    ".env",
    ".git/config",
    ".venv/secret.txt",
    "results/run/secret.txt",
    "src/skymark/.secret",
    "benchmarks/docker/.env",
)
"""Files that a checkout may hold and that must stay at home."""


def missing_part() -> str | None:
    """Say what keeps images from being built here."""
    tools = ("buildah", "podman", "runc", "mmdebstrap")
    if absent := [tool for tool in tools if shutil.which(tool) is None]:
        return f"images need {', '.join(absent)}: apt-get install {' '.join(absent)}"
    if os.geteuid() != 0:
        return "images are built here as root only"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "images need overlay mounts, which this kernel does not have"
    return None


@dataclass(frozen=True)
class Containers:
    """Podman and buildah on a store of their own."""

    directory: Path

    def call(
        self, *command: str | Path, timeout: float = 2400, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(),
            check=False,
        )
        if check and done.returncode != 0:
            tail = (done.stdout + done.stderr)[-4000:]
            raise AssertionError(f"{command} ended with {done.returncode}:\n{tail}")
        return done

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
            "CONTAINERS_CONF": str(self.directory / "containers.conf"),
            # A secret of whoever builds must not come along.
            "WANDB_API_KEY": CANARY,
        }

    def configure(self) -> None:
        self.directory.joinpath("storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.directory}/graph"\n'
            f'runroot = "{self.directory}/run"\n'
        )
        self.directory.joinpath("containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
            f'tmp_dir = "{self.directory}/libpod"\nvolume_path = "{self.directory}/volumes"\n'
        )

    def make_base(self) -> None:
        """Make the base image from packages, with the places that the real one has."""
        archive = self.directory / "base.tar"
        self.call(
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}"),
            *("bookworm", archive),
        )
        self.call("podman", "import", "--quiet", archive, BASE)
        archive.unlink()

    def build(self, platform: str, context: Path, adapters: str) -> str:
        name = f"skymark-test:{platform}"
        mounts = [option for mount in self._build_mounts() for option in ("-v", mount)]
        self.call(
            *("buildah", "bud", "--isolation", "chroot", "--pull-never", "--layers", *mounts),
            *("--build-arg", f"ADAPTERS={adapters}", "--build-arg", f"GIT_SHA={REVISION}"),
            *("--build-arg", f"BASE={BASE}"),
            *("-f", context / f"benchmarks/docker/Dockerfile.{platform}", "-t", name, context),
        )
        return name

    def run(
        self, image: str, results: Path, *arguments: str, options: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        return self.call(
            *self.run_command(image, results, *arguments, options=options), check=False
        )

    def run_command(
        self, image: str, results: Path, *arguments: str, options: Sequence[str] = ()
    ) -> list[str]:
        """A command that runs an image without a network: what it needs must be in it."""
        mount = f"{results}:/app/results"
        return [
            *("podman", "run", "--rm", "--network", "none", "--shm-size", "1g"),
            *("-v", mount, *options, image, *arguments),
        ]

    def inspect(self, image: str) -> dict:
        return json.loads(self.call("podman", "image", "inspect", image).stdout)[0]

    def remove(self) -> None:
        """End and remove everything, also after a test that failed half-way."""
        self.call("podman", "rm", "--all", "--force", "--time", "0", check=False)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted(
            (m for m in mounts if m.startswith(f"{self.directory}/")), reverse=True
        ):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.directory)

    def _build_mounts(self) -> Iterator[str]:
        """Yield what a build needs of this machine to reach its package index."""
        settings = pip_settings()
        pip, uv = ["[global]"], []
        certificate = settings.get("cert") or os.environ.get("SSL_CERT_FILE")
        if certificate:
            yield f"{certificate}:{CERTIFICATES}:ro"
            pip.append(f"cert = {CERTIFICATES}")
            uv.append("native-tls = true")
        if index := settings.get("index-url"):
            pip.append(f"index-url = {index}")
            uv.append(f'index-url = "{index}"')
        for name, lines, place in (("pip", pip, "/etc/pip.conf"), ("uv", uv, "/etc/uv/uv.toml")):
            path = self.directory / f"{name}.conf"
            path.write_text("\n".join([*lines, ""]))
            yield f"{path}:{place}:ro"


def pip_settings() -> dict[str, str]:
    """Pip's effective settings by their bare names, those of the environment last."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = (
        line.partition("=")[::2] for line in sorted(lines, key=lambda x: x.startswith(":env:"))
    )
    return {key.rpartition(".")[2]: value.strip("'") for key, value in pairs}


@pytest.fixture(scope="session")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """Tools and the base image, removed at the end."""
    if reason := missing_part():
        pytest.skip(reason)
    made = Containers(tmp_path_factory.mktemp("containers"))
    try:
        made.configure()
        made.make_base()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's files, with secrets lying about in it."""
    directory = tmp_path_factory.mktemp("context")
    for name in CONTEXT:
        shutil.copy2(ROOT / name, directory / name)
    for name in CONTEXT_FOLDERS:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, directory / name, ignore=ignore)
    for place in SECRET_PLACES:
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY)
    return directory


@pytest.fixture(scope="session")
def image(containers: Containers, context: Path) -> str:
    """The image for CPUs, with the environments of two adapters."""
    return containers.build("cpu", context, "numpy grain")
