"""The reference pages of `docs/`, made from the code: `nox -s reference` writes them.

A test compares each page with its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.reference_pages import api, commands, declared, loading

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/api.md": api.page,
    "docs/reference/adapters.md": loading.adapters_page,
    "docs/reference/causes.md": declared.causes_page,
    "docs/reference/commands.md": commands.commands_page,
    "docs/reference/metrics.md": declared.metrics_page,
    "docs/reference/profiles.md": declared.profiles_page,
    "docs/reference/scenarios.md": loading.scenarios_page,
}
"""What makes each page, by its path."""
