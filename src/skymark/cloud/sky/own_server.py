"""Connections to SkyPilot's API server, which lead to this user's server or to another machine.

SkyPilot's client unpickles the answers of its server, so whose server it is decides who runs code
here. Each new connection is looked at before the first byte is sent.
"""

from __future__ import annotations

import pwd
import socket
from typing import Any

from skymark.cloud.errors import CloudError
from skymark.machine.peer_owner import UnknownPeerError, strangers_id

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
        f"nothing was sent to it. Set {PORT_VARIABLE} to a free port, the same in every shell, or "
        "let SKYPILOT_API_SERVER_ENDPOINT name a server of your own"
    )


def guard(session: Any) -> None:
    """Look at each new connection of a session of requests before anything is sent.

    Args:
        session: whose pools of connections stay as large as they are.
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
