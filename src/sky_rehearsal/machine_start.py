"""The first process of a simulated machine: makes its disk, root and network, then serves SSH.

Run by path as ``python machine_start.py SPEC.json`` in new mount, PID, UTS, IPC and network
namespaces. The machine's disk is a file. Its root is that disk laid over this machine's system
directories, so changes of ``/etc`` or ``/usr`` stay in the machine. Home directories, ``/tmp``,
``/run`` and every other directory of this machine are hidden from it.

It prints ``made`` when the disk is ready. It waits for a line on standard input that announces its
network interface, and prints ``up`` before it serves.

Standard library only, all imported at the start: its root changes while it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from sky_rehearsal.namespace_keeper import keep

SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt")
"""Directories of this machine that are part of a machine's image."""

OWN = {"dev": 0o755, "home": 0o755, "mnt": 0o755, "proc": 0o555, "root": 0o700, "run": 0o755}
OWN |= {"sys": 0o555, "tmp": 0o1777, "var/tmp": 0o1777, "var/log": 0o755, "etc/ssh": 0o755}
"""Directories that start empty in a machine, with their modes."""

DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""Minor numbers of the memory devices (major 1), from the kernel's list of devices."""

WITHHELD = "-sys_module,-sys_time,-sys_rawio,-mknod,-sys_boot,-mac_admin,-syslog"
"""Capabilities that would reach out of the namespaces; not even the machine's root has them."""

USER_ID = 1000


def make_root(spec: dict[str, Any]) -> Path:
    """Mount the machine's disk and lay it over this machine's system directories."""
    disk, root = Path(spec["disk"]), Path(spec["root"])
    run("mount", "-o", "loop,noatime,nobarrier", spec["disk_image"], str(disk))
    upper, work = disk / "upper", disk / "work"
    upper.mkdir()
    work.mkdir()
    for entry in Path("/").iterdir():
        if entry.name not in SYSTEM:
            os.mknod(upper / entry.name, stat.S_IFCHR | 0o600, os.makedev(0, 0))  # a whiteout
    for name, mode in OWN.items():
        directory = upper / name
        directory.parent.mkdir(exist_ok=True)
        if directory.exists():
            directory.unlink()
        directory.mkdir()
        directory.chmod(mode)
        os.setxattr(directory, "trusted.overlay.opaque", b"y")
    layers = f"lowerdir=/,upperdir={upper},workdir={work},volatile"
    run("mount", "-t", "overlay", "-o", layers, "machine", str(root))
    # The mark of a container that this machine may itself be, and the new one is not.
    (root / ".dockerenv").unlink(missing_ok=True)
    return root


def mount_kernel_files(root: Path) -> None:
    """Mount ``/proc``, ``/sys`` (read only), ``/run`` and a small ``/dev`` without disks."""
    run("mount", "-t", "proc", "proc", str(root / "proc"))
    run("mount", "--bind", "-o", "ro", str(root / "proc/sys"), str(root / "proc/sys"))
    run("mount", "-t", "sysfs", "-o", "ro", "sysfs", str(root / "sys"))
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=64m", "run", str(root / "run"))
    device = root / "dev"
    run("mount", "-t", "tmpfs", "-o", "mode=755,size=1m", "dev", str(device))
    for name, minor in DEVICES.items():
        _make_device(device / name, 1, minor)
    _make_device(device / "tty", 5, 0)
    (device / "pts").mkdir()
    run("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=666", "devpts", str(device / "pts"))
    (device / "ptmx").symlink_to("pts/ptmx")
    (device / "fd").symlink_to("/proc/self/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (device / name).symlink_to(f"/proc/self/fd/{number}")
    (device / "shm").mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "shm", str(device / "shm"))


def _make_device(path: Path, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
    path.chmod(0o666)


def add_user(root: Path, name: str) -> Path:
    """Make the login user, who may do everything with sudo; return the home directory."""
    home = Path("home") / name
    lines = {
        "etc/passwd": f"{name}:x:{USER_ID}:{USER_ID}::/{home}:/bin/bash",
        "etc/group": f"{name}:x:{USER_ID}:",
        "etc/shadow": f"{name}:*:19000:0:99999:7:::",
    }
    for path, line in lines.items():
        file = root / path
        number = str(USER_ID)
        others = [
            other
            for other in file.read_text().splitlines()
            if other.split(":")[0] != name and number not in other.split(":")[2:3]
        ]
        file.write_text("\n".join([*others, line]) + "\n")
    sudoers = root / "etc/sudoers.d/machine-user"
    sudoers.parent.mkdir(exist_ok=True)
    sudoers.write_text(f"{name} ALL=(ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    (root / home).mkdir()
    return root / home


def put_files(root: Path, spec: dict[str, Any]) -> None:
    """Write and copy the files of the machine's image, and bind what is shared with others."""
    for path, text in spec["files"].items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text)
    for path, source in spec["copies"].items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, file, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, file)
    for path, target in spec["links"].items():
        link = root / path.lstrip("/")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    for path, bind in spec["binds"].items():
        directory = root / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        mode = "rw" if bind["writable"] else "ro"
        run("mount", "--bind", "-o", mode, bind["source"], str(directory))


def lay_runtime(home: Path, spec: dict[str, Any]) -> None:
    """Lay a kept SkyPilot runtime under the home, so that changes to it stay in the machine."""
    kept = Path(spec["runtime"])
    upper, work = Path(spec["disk"]) / "runtime-upper", Path(spec["disk"]) / "runtime-work"
    for directory in (upper, work, home / kept.name):
        directory.mkdir()
        os.chown(directory, USER_ID, USER_ID)
    layers = f"lowerdir={kept},upperdir={upper},workdir={work},volatile"
    run("mount", "-t", "overlay", "-o", layers, "runtime", str(home / kept.name))


def own_home(home: Path, spec: dict[str, Any]) -> None:
    """Give the home directory to its user, but not what is bound into it from outside."""
    bound = {os.path.normpath(str(home.parents[1]) + path) for path in spec["binds"]}
    os.chown(home, USER_ID, USER_ID)
    for directory, names, files in os.walk(home):
        names[:] = [name for name in names if os.path.join(directory, name) not in bound]  # noqa: PTH118
        for name in (*names, *files):
            os.chown(os.path.join(directory, name), USER_ID, USER_ID, follow_symlinks=False)  # noqa: PTH118
    (home / ".ssh").chmod(0o700)


def enter(root: Path, hostname: str) -> None:
    """Make `root` the root of this namespace and let go of the old one."""
    old = root / "mnt"
    run("pivot_root", str(root), str(old))
    os.chdir("/")
    run("umount", "--lazy", "/mnt")
    run("hostname", hostname)


def set_up_network(spec: dict[str, Any]) -> None:
    """Give the interface that was moved in here its name, address and route."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "set", spec["interface"], "name", "eth0")
    run("ip", "address", "add", spec["address"], "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    run("ip", "route", "add", "default", "via", spec["gateway"])


def run(*command: str) -> None:
    """Run a command of the system; its own words are on standard error if it fails."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """Make the machine, then serve SSH until told to end."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    root = make_root(spec)
    mount_kernel_files(root)
    home = add_user(root, spec["user"])
    put_files(root, spec)
    own_home(home, spec)
    if spec["runtime"]:
        lay_runtime(home, spec)  # after `own_home`, which would copy all of it up
    sys.stdout.write("made\n")
    sys.stdout.flush()
    os.read(sys.stdin.fileno(), 4096)
    enter(root, spec["hostname"])
    set_up_network(spec)
    run("ldconfig")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/ssh_host_ed25519_key")
    Path("/run/sshd").mkdir()
    sys.stdout.write("up\n")
    sys.stdout.flush()
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    server = ["setpriv", "--bounding-set", WITHHELD, "/usr/sbin/sshd", "-D", "-e"]
    sys.exit(keep(server, {"PATH": path, "LANG": "C.UTF-8"}))


if __name__ == "__main__":
    main()
