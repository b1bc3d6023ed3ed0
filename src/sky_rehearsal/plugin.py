"""Plugin of SkyPilot's API server: where it asks whether the network is up.

Before SkyPilot believes that a machine is gone, it asks two public addresses whether the network
is up. Without an internet it would wait for ever, so the question goes to the simulated cloud.
"""

from __future__ import annotations

from sky.backends import backend_utils
from sky.server.plugins import BasePlugin, ExtensionContext


class RehearsalPlugin(BasePlugin):  # type: ignore[misc, unused-ignore]
    """Replacement of the addresses that SkyPilot asks whether the network is up.

    Args:
        probe: an address that answers HEAD as long as the simulated cloud is there.
    """

    def __init__(self, probe: str) -> None:
        self._probe = probe

    def install(self, extension_context: ExtensionContext) -> None:
        """Put the address in; every process of the API server loads the plugin for itself."""
        del extension_context
        backend_utils._TEST_IP_LIST[:] = [self._probe]  # noqa: SLF001 no public setting exists
