"""The simulated cloud's network: a bridge on this machine, with a way out for its machines."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import secrets
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skymark.cloud.rehearsal.changes import Changes
from skymark.cloud.rehearsal.errors import RehearsalError

NETWORKS = ipaddress.IPv4Network("10.77.0.0/16")
"""Each rehearsal takes a /24 of these that nobody uses."""

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_BEFORE = Path("/run/skymark-ip-forward")
"""Holds what `FORWARDING` was before the first of the rehearsals that run now."""


@dataclass
class Network:
    """One rehearsal's bridge. Machines get addresses from `next_address`, in order."""

    bridge: str
    subnet: ipaddress.IPv4Network
    _hosts: Iterator[ipaddress.IPv4Address]
    _lock: threading.Lock

    @property
    def gateway(self) -> str:
        """This machine's own address on the bridge."""
        return str(self.subnet[1])

    def next_address(self) -> str:
        """Return an address that no machine had before.

        Raises:
            RehearsalError: more than 253 machines were asked for.
        """
        with self._lock:
            address = next(self._hosts, None)
        if address is None:
            raise RehearsalError(f"{self.subnet} has no address left; start another rehearsal")
        return str(address)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for the other rehearsals of this machine that make a network or take one away."""
    directory = os.open(FORWARDING_BEFORE.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def make_network(changes: Changes) -> Network:
    """Make a bridge with an unused network and let it out through this machine.

    Raises:
        RehearsalError: no network is free, or the kernel refused.
    """
    # In any order, so that who looks whether one has gone does not find another of its name.
    numbered = list(enumerate(NETWORKS.subnets(new_prefix=24)))
    secrets.SystemRandom().shuffle(numbered)
    with one_at_a_time():
        _forward(changes)
        for number, subnet in numbered:
            if not _in_use(subnet) and (network := _claim(f"skymark{number}", subnet, changes)):
                return network
    raise RehearsalError(
        f"no /24 of {NETWORKS} is free, or the kernel makes no bridges; see ip -4 a"
    )


def _claim(bridge: str, subnet: ipaddress.IPv4Network, changes: Changes) -> Network | None:
    if _ip("link", "add", bridge, "type", "bridge").returncode:
        return None
    index = _link_index(bridge)
    changes.add(
        f"network bridge {bridge} with {subnet}",
        undo=lambda: delete_link(bridge),
        # By then another rehearsal may have one of that name.
        still_there=lambda: _link_index(bridge) == index,
    )
    check_ip("address", "add", f"{subnet[1]}/24", "dev", bridge)
    check_ip("link", "set", bridge, "up")
    _let_out(bridge, subnet, changes)
    return Network(bridge, subnet, iter(list(subnet.hosts())[1:]), threading.Lock())


def remove_network(bridge: str) -> None:
    """Remove a bridge and its rules, if they are there; whose rehearsal it was is gone.

    Call it in `one_at_a_time`.
    """
    delete_link(bridge)
    for table in ("nat", "filter"):
        shown = subprocess.run(
            ["iptables", "-w", "-t", table, "-S"], capture_output=True, text=True, check=False
        )
        for line in shown.stdout.splitlines():
            if f'"{_mark(bridge)}"' in line and line.startswith("-A "):
                rule = ["-D", *shlex.split(line)[1:]]
                subprocess.run(["iptables", "-w", "-t", table, *rule], check=False)
    _stop_forwarding()


def _mark(bridge: str) -> str:
    return f"skymark rehearsal {bridge}"


def _in_use(subnet: ipaddress.IPv4Network) -> bool:
    shown = subprocess.run(["ip", "-4", "-o", "route"], capture_output=True, text=True, check=True)
    for line in shown.stdout.splitlines():
        target = line.split()[0]
        if target != "default" and ipaddress.ip_network(target, strict=False).overlaps(subnet):
            return True
    return False


def _forward(changes: Changes) -> None:
    """Let this machine forward packets; the last rehearsal to end undoes what the first did."""
    if FORWARDING.read_text().strip() == "0":
        FORWARDING_BEFORE.write_text("0")
        FORWARDING.write_text("1")
    if FORWARDING_BEFORE.exists():
        changes.add(
            "net.ipv4.ip_forward set from 0 to 1, until the last rehearsal ends",
            undo=one_at_a_time()(_stop_forwarding),
            still_there=_forwards_for_nobody,
        )


def _let_out(bridge: str, subnet: ipaddress.IPv4Network, changes: Changes) -> None:
    mark = ("-m", "comment", "--comment", _mark(bridge))
    rules = [
        ("nat", "POSTROUTING", "-s", str(subnet), "!", "-d", str(subnet), "-j", "MASQUERADE"),
        ("filter", "FORWARD", "-i", bridge, "-j", "ACCEPT"),
        ("filter", "FORWARD", "-o", bridge, "-j", "ACCEPT"),
    ]
    for table, chain, *rule in rules:
        changes.add(
            f"iptables rule in {table} {chain}: {' '.join(rule)}",
            undo=partial(_drop_rule, (table, chain), [*rule, *mark]),
            still_there=partial(_rule_exists, (table, chain), [*rule, *mark]),
        )
        command = ["iptables", "-w", "-t", table, "-I", chain, *rule, *mark]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RehearsalError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _stop_forwarding() -> None:
    if not _bridges_left() and FORWARDING_BEFORE.exists():
        FORWARDING.write_text(FORWARDING_BEFORE.read_text())
        FORWARDING_BEFORE.unlink()


@one_at_a_time()
def _forwards_for_nobody() -> bool:
    return FORWARDING_BEFORE.exists() and not _bridges_left()


def _bridges_left() -> bool:
    return any(Path("/sys/class/net").glob("skymark[0-9]*"))


def _rule_exists(where: tuple[str, str], rule: list[str]) -> bool:
    command = ["iptables", "-w", "-t", where[0], "-C", where[1], *rule]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _drop_rule(where: tuple[str, str], rule: list[str]) -> None:
    command = ["iptables", "-w", "-t", where[0], "-D", where[1], *rule]
    subprocess.run(command, capture_output=True, check=False)


def _link_index(name: str) -> int | None:
    """Return the kernel's number of a network interface, which no other has later."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def link_exists(name: str) -> bool:
    """Return whether a network interface of that name is in this namespace."""
    return Path("/sys/class/net", name).exists()


def delete_link(name: str) -> None:
    """Delete a network interface, with its other end, if it is there."""
    _ip("link", "delete", name)


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def check_ip(*arguments: str) -> None:
    """Run ``ip``.

    Raises:
        RehearsalError: it refused, with its words.
    """
    done = _ip(*arguments)
    if done.returncode:
        raise RehearsalError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
