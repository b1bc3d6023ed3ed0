"""Software of simulated machines, found on this machine when the rehearsal starts.

A machine sees this machine's system directories. A rented machine has more, and some of it lies
here in directories that a simulated one does not see: a Python 3.10 and a `uv` for SkyPilot, the
certificates, the package-index settings. These are copied into it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

CONTAINER = "sky-rehearsal"
"""Kind of container that a simulated machine says it is, in ``/run/systemd/container``."""

CERTIFICATES = "/etc/ssl/certs/machine-bundle.crt"
"""A machine's trusted certificates: this machine's and the simulated cloud's."""

TRUST_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
PASSED_ON = ("PIP_", "UV_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
"""Beginnings of the variables with the settings for fetching packages."""

NOT_PASSED_ON = ("UV_PROJECT", "UV_PYTHON", "UV_CACHE_DIR", "UV_TOOL", "PIP_CACHE_DIR", "UV_RUN")

UV = "/opt/machine/uv"
"""A machine's copy of this machine's uv, for its installer to find."""

UV_INSTALLER_HOST = "astral.sh"
UV_INSTALLER_PATH = "/uv/install.sh"
UV_INSTALLER = f"""\
set -e
directory="${{UV_INSTALL_DIR:-$HOME/.local/bin}}"
mkdir -p "$directory"
cp {UV} "$directory/uv"
"""
"""Replacement of uv's installer, which SkyPilot and many set-ups run."""

RUNTIME = "skypilot-runtime"
MARKS = (".sky/python_path", ".sky/ray_path", ".sky/wheels/current_sky_wheel_hash")
"""Files by which SkyPilot knows what is installed, from the machine's home."""


SSH_SERVER = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
UsePAM no
UseDNS no
PasswordAuthentication no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
SetEnv {variables}
"""


@dataclass(frozen=True)
class Runtime:
    """SkyPilot's own software on a machine, kept for the next machine, or the place for it.

    The first machine of a SkyPilot version spends most of its set-up installing Ray and SkyPilot.
    It is copied when that machine ends, and laid under the home of later ones, as some providers
    bake it into their images. SkyPilot checks versions and hashes and installs misfits anew.

    Args:
        directory: its place, named for its versions.
    """

    directory: Path

    @property
    def complete(self) -> bool:
        """Whether it can be used."""
        return (self.directory / RUNTIME).is_dir()

    def keep(self, home: Path) -> None:
        """Copy the runtime out of a machine's home, unless there is one or it is not finished."""
        if self.complete or not all((home / mark).is_file() for mark in MARKS):
            return
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.directory.with_name(f"{self.directory.name}.lock")):
            if self.complete:
                return
            partial = self.directory.with_name(f"{self.directory.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for name in MARKS:
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(home / name, partial / name)
            copy = ["cp", "--archive", os.fspath(home / RUNTIME), os.fspath(partial)]
            if subprocess.run(copy, capture_output=True, check=False).returncode == 0:
                shutil.rmtree(self.directory, ignore_errors=True)
                partial.rename(self.directory)


@dataclass(frozen=True)
class Image:
    """Contents of every machine of one rehearsal.

    Args:
        certificates: a bundle with the simulated cloud's own authority.
        hosts: addresses of the names that the simulated cloud answers for.
        package_cache: uv's cache, shared by all machines; None gives each an empty one.
        python: the root of a Python 3.10; None leaves it to uv to download one.
        runtime: SkyPilot's own software on a machine from the start; None for nothing.
    """

    certificates: Path
    hosts: dict[str, str]
    package_cache: Path | None
    python: Path | None
    runtime: Runtime | None

    def spec(
        self, name: str, address: str, user: str, public_keys: Sequence[str], cpus: int | None
    ) -> dict[str, Any]:
        """Return one machine's contents, as `machine_start` takes them.

        Args:
            name: its host name.
            address: its address.
            user: who logs in.
            public_keys: of that user.
            cpus: cores that Ray believes in; None for those that there are.
        """
        home = f"/home/{user}"
        variables = {**_passed_on(), **dict.fromkeys(TRUST_VARIABLES, CERTIFICATES)}
        if cpus is not None:
            variables["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": cpus})
        quoted = " ".join(shlex.quote(f"{key}={value}") for key, value in variables.items())
        files = {
            "/etc/hostname": f"{name}\n",
            "/etc/hosts": _hosts_file({**self.hosts, name: address}),
            "/run/systemd/container": f"{CONTAINER}\n",
            "/etc/resolv.conf": _resolvers(),
            "/etc/ssh/sshd_config": SSH_SERVER.format(variables=quoted),
            f"{home}/.ssh/authorized_keys": "".join(f"{key.strip()}\n" for key in public_keys),
        }
        copies = {CERTIFICATES: str(self.certificates)}
        for source, target in (("~/.config/pip", ".config/pip"), ("~/.config/uv", ".config/uv")):
            if (here := Path(source).expanduser()).is_dir():
                copies[f"{home}/{target}"] = str(here)
        if uv := find_uv():
            copies[UV] = uv
        binds: dict[str, Any] = {}
        links: dict[str, str] = {}
        if self.package_cache is not None:
            binds[f"{home}/.cache/uv"] = {"source": str(self.package_cache), "writable": True}
        if self.python is not None:
            binds["/opt/python3.10"] = {"source": str(self.python), "writable": False}
            links["/usr/local/bin/python3.10"] = "/opt/python3.10/bin/python3.10"
            files["/etc/ld.so.conf.d/python3.10.conf"] = "/opt/python3.10/lib\n"
        runtime = ""
        if self.runtime is not None and self.runtime.complete:
            runtime = str(self.runtime.directory / RUNTIME)
            copies |= {f"{home}/{mark}": str(self.runtime.directory / mark) for mark in MARKS}
        return {
            "files": files,
            "copies": copies,
            "links": links,
            "binds": binds,
            "runtime": runtime,
        }


def find_python() -> Path | None:
    """Return the root of a Python 3.10 on this machine, which SkyPilot's runtime asks for."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [shutil.which("python3.10"), *pyenv.glob("versions/3.10*")]
    for candidate in candidates:
        if candidate is None:
            continue
        python = Path(candidate) / "bin" / "python3.10" if Path(candidate).is_dir() else candidate
        ask = [str(python), "-c", "import sys; print(sys.base_prefix, sys.version_info[1])"]
        answer = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
        if answer[1:] == ["10"] and answer[0] != "/usr":
            return Path(answer[0])
    return None


def host_certificates() -> Path | None:
    """Return the bundle of certificates that this machine trusts."""
    known = (os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt")
    return next((Path(path) for path in known if path and Path(path).is_file()), None)


def find_uv() -> str | None:
    """Return this machine's uv, or None."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.is_file() else shutil.which("uv")


def _passed_on() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(PASSED_ON) and not name.startswith(NOT_PASSED_ON)
    }


def _hosts_file(names: dict[str, str]) -> str:
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
    here = Path("/etc/hosts").read_text().splitlines()
    lines += [line for line in here if line and not line.startswith(("#", "127.", "::1"))]
    return "\n".join(lines) + "\n"


def _resolvers() -> str:
    """Return this machine's name servers, past a resolver that serves only this machine."""
    for path in ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"):
        if Path(path).is_file():
            lines = Path(path).read_text().splitlines()
            kept = [line for line in lines if not line.startswith("nameserver 127.")]
            return "\n".join(kept) + "\n"
    return ""
