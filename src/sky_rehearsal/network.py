"""The simulated cloud's network: a bridge on this machine, with a way out for its machines."""

from __future__ import annotations

import ipaddress
import secrets
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sky_rehearsal.changes import Changes, one_at_a_time
from sky_rehearsal.requirements import RehearsalError

NETWORKS = ipaddress.IPv4Network("10.77.0.0/16")
"""Each rehearsal takes an unused /24 of these."""

BRIDGES = "skysim"
"""Beginning of the names of bridges: with a machine's number they have 15 characters at most."""

INTERFACES = Path("/sys/class/net")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_BEFORE = Path("/run/sky-rehearsals-ip-forward")
"""Holds the value of `FORWARDING` before the first of the rehearsals that run now."""


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
            RehearsalError: there are more than 253 machines.
        """
        with self._lock:
            address = next(self._hosts, None)
        if address is None:
            raise RehearsalError(f"{self.subnet} has no address left; start another rehearsal")
        return str(address)


def make_network(changes: Changes) -> Network:
    """Make a bridge with an unused network and let it out through this machine.

    Raises:
        RehearsalError: no network is free, or the kernel refused.
    """
    # In random order: a bridge that has just gone should not return under its name at once.
    numbered = list(enumerate(NETWORKS.subnets(new_prefix=24)))
    secrets.SystemRandom().shuffle(numbered)
    with one_at_a_time():
        _forward(changes)
        for number, subnet in numbered:
            if not _in_use(subnet) and (network := _claim(f"{BRIDGES}{number}", subnet, changes)):
                return network
    raise RehearsalError(
        f"no /24 of {NETWORKS} is free, or the kernel makes no bridges; see ip -4 a"
    )


def remove_network(bridge: str) -> None:
    """Remove the bridge and the rules of a rehearsal that is gone. Call it in `one_at_a_time`."""
    delete_link(bridge)
    for table in ("nat", "filter"):
        for line in _iptables(table, "-S").stdout.splitlines():
            if f'"{_mark(bridge)}"' in line and line.startswith("-A "):
                _iptables(table, "-D", *shlex.split(line)[1:])
    _stop_forwarding()


def link_exists(name: str) -> bool:
    """Return whether a network interface of that name is in this namespace."""
    return (INTERFACES / name).exists()


def delete_link(name: str) -> None:
    """Delete a network interface, with its other end, if it is there."""
    _ip("link", "delete", name)


def check_ip(*arguments: str) -> None:
    """Run ``ip``.

    Raises:
        RehearsalError: it refused, with its words.
    """
    done = _ip(*arguments)
    if done.returncode:
        raise RehearsalError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")


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


def _let_out(bridge: str, subnet: ipaddress.IPv4Network, changes: Changes) -> None:
    rules = [
        ("nat", "POSTROUTING", "-s", str(subnet), "!", "-d", str(subnet), "-j", "MASQUERADE"),
        ("filter", "FORWARD", "-i", bridge, "-j", "ACCEPT"),
        ("filter", "FORWARD", "-o", bridge, "-j", "ACCEPT"),
    ]
    for table, chain, *words in rules:
        rule = (chain, *words, "-m", "comment", "--comment", _mark(bridge))
        changes.add(
            f"iptables rule in {table} {chain}: {' '.join(words)}",
            undo=partial(_iptables, table, "-D", *rule),
            still_there=partial(_rule_exists, table, *rule),
        )
        done = _iptables(table, "-I", *rule)
        if done.returncode:
            raise RehearsalError(f"iptables {' '.join(rule)} failed: {done.stderr.strip()}")


def _rule_exists(table: str, *rule: str) -> bool:
    return _iptables(table, "-C", *rule).returncode == 0


def _mark(bridge: str) -> str:
    return f"sky-rehearsal {bridge}"


def _in_use(subnet: ipaddress.IPv4Network) -> bool:
    targets = [line.split()[0] for line in _ip("-4", "-o", "route").stdout.splitlines()]
    return any(
        ipaddress.ip_network(target, strict=False).overlaps(subnet)
        for target in targets
        if target != "default"
    )


def _forward(changes: Changes) -> None:
    """Let this machine forward packets, until the last rehearsal ends."""
    if FORWARDING.read_text().strip() == "0":
        FORWARDING_BEFORE.write_text("0")
        FORWARDING.write_text("1")
    if FORWARDING_BEFORE.exists():
        changes.add(
            "net.ipv4.ip_forward set from 0 to 1, until the last rehearsal ends",
            undo=one_at_a_time()(_stop_forwarding),
            still_there=one_at_a_time()(_forwards_for_nobody),
        )


def _stop_forwarding() -> None:
    if _forwards_for_nobody():
        FORWARDING.write_text(FORWARDING_BEFORE.read_text())
        FORWARDING_BEFORE.unlink()


def _forwards_for_nobody() -> bool:
    return FORWARDING_BEFORE.exists() and not any(INTERFACES.glob(f"{BRIDGES}[0-9]*"))


def _link_index(name: str) -> int | None:
    """Return the kernel's number of a network interface, which no later one gets."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def _iptables(table: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["iptables", "-w", "-t", table, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
