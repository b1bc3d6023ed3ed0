"""The names that people know scenarios and adapters by."""

from __future__ import annotations


def scenario_title(scenario: str) -> str | None:
    """Return what a scenario does, in a few words; None for one that this skymark lacks."""
    from skymark.suites.loading.registry import scenarios

    known = scenarios().get(scenario)
    return None if known is None else known.title


def adapter_name(adapter: str) -> str:
    """Return a library's own name with the version asked for, or the slug as it is."""
    from skymark.suites.loading.registry import adapters

    slug, at, version = adapter.partition("@")
    known = adapters().get(slug)
    return adapter if known is None else f"{known.name}{at}{version}"
