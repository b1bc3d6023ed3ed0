"""SkyPilot's API server starts on another port where somebody was quicker to take one.

A scripted server stands in: the real one takes half a minute, and nobody can be quicker on demand.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sky_rehearsal.requirements import PortTakenError, RehearsalError
from sky_rehearsal.skypilot import PORT_ATTEMPTS, started_api_server


class Servers:
    """Servers of which those on some ports do not start."""

    def __init__(self, error, broken):
        self.error, self.broken = error, broken
        self.asked, self.stopped = [], []
        self.ports = iter(range(1, 100))

    def free_port(self):
        return next(self.ports)

    def __call__(self, port):
        servers = self

        class Server:
            def __init__(self):
                self.port = port

            def start(self):
                servers.asked.append(port)
                if port in servers.broken:
                    raise servers.error(f"port {port}")

            def stop(self):
                servers.stopped.append(port)

        return Server()


def test_another_port_is_taken_where_one_is_in_use():
    servers = Servers(PortTakenError, broken={1, 2})
    with ExitStack() as stack:
        assert started_api_server(servers, stack, servers.free_port).port == 3
        assert servers.asked == [1, 2, 3]
    assert set(servers.stopped) == {1, 2, 3}


def test_ports_that_are_always_in_use_end_the_rehearsal():
    servers = Servers(PortTakenError, broken=range(100))
    with ExitStack() as stack, pytest.raises(PortTakenError):
        started_api_server(servers, stack, servers.free_port)
    assert len(servers.asked) == PORT_ATTEMPTS


def test_a_server_that_does_not_start_for_another_reason_is_not_tried_again():
    servers = Servers(RehearsalError, broken={1})
    with ExitStack() as stack, pytest.raises(RehearsalError, match="port 1"):
        started_api_server(servers, stack, servers.free_port)
    assert servers.asked == [1]
    assert servers.stopped == [1]
