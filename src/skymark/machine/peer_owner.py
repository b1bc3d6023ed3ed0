"""Owner of the process at the other end of a connection on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLES = tuple(Path("/proc/net", name) for name in ("tcp", "tcp6"))
"""The kernel's lists of the connections of this network namespace (proc_net_tcp.rst)."""
ESTABLISHED = "01"
ACCEPT_S = 10.0
"""Time for a server to accept a connection; older kernels report the owner only after that."""
LOOK_S = 0.01

Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


class _Row(NamedTuple):
    state: str
    user: int
    inode: int


class UnknownPeerError(OSError):
    """The kernel does not report the owner of the other end."""


def strangers_id(connection: socket.socket) -> int | None:
    """Return the user id of a connection's other end if it belongs to another user.

    Returns:
        None for a process of this user or of root, and for another machine.

    Raises:
        UnknownPeerError: the process is on this machine, and its owner is unknown.
    """
    if not TABLES[0].exists():  # no Linux
        return None
    ours, theirs = _address(connection.getsockname()), _address(connection.getpeername())
    until_s = time.monotonic() + ACCEPT_S
    while time.monotonic() < until_s:
        row = next(_rows(theirs, ours), None)
        if row is None and not (theirs[0].is_loopback or theirs[0] == ours[0]):
            return None
        if row is not None and row.state != ESTABLISHED:
            break
        # Older kernels give root as the owner of a connection until the server accepts it.
        if row is not None and (row.user or row.inode):
            return None if row.user in {0, os.getuid()} else row.user
        time.sleep(LOOK_S)
    raise UnknownPeerError(f"no process of this machine answers at {theirs[0]} port {theirs[1]}")


def _rows(local: Address, remote: Address) -> Iterator[_Row]:
    """Yield the connection between two addresses, as seen from its local end."""
    ports = f":{local[1]:04X}", f":{remote[1]:04X}"
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            words = line.split()
            if not (words[1].endswith(ports[0]) and words[2].endswith(ports[1])):
                continue
            if _written(words[1]) == local and _written(words[2]) == remote:
                yield _Row(words[3], int(words[7]), int(words[9]))


def _written(text: str) -> Address:
    """Return an address as the kernel writes it: words of four bytes, in the machine's order."""
    digits, _, port = text.partition(":")
    data = bytes.fromhex(digits)
    if sys.byteorder == "little":
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return _plain(ipaddress.ip_address(data)), int(port, 16)


def _address(name: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    return _plain(ipaddress.ip_address(name[0].partition("%")[0])), name[1]


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that is written as IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
