"""QuickGELU: weights trained with it give wrong features without it, and the reverse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.clip.specification import Model

QUICK = "QuickGELU"


def check_tag(model: Model, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return open_clip's settings of a tag, {} for a file of weights.

    Raises:
        UnknownNameError: open_clip has no such tag of the architecture.
        UsageError: the tag was trained with the other activation than the architecture has.
    """
    import open_clip

    tag = model.weights.tag
    if tag is None:
        return {}
    found: dict[str, Any] = open_clip.get_pretrained_cfg(model.architecture, tag)
    if not found:
        known = open_clip.list_pretrained_tags_by_model(model.architecture)
        raise UnknownNameError(f"weights of {model.architecture}", tag, known)
    has, wants = (bool(one.get("quick_gelu", False)) for one in (configuration, found))
    if has != wants:
        plain = model.architecture.removesuffix("-quickgelu")
        better = f"{plain}-quickgelu" if wants else plain
        raise UsageError(
            f"{model.architecture}:{tag} would be scored with the wrong activation: its weights "
            f"were trained {'with' if wants else 'without'} QuickGELU; use {better}:{tag}"
        )
    return found


def activations_of(network: Any) -> dict[str, int]:
    """Return how often a network has each kind of GELU."""
    names = Counter(type(module).__name__ for module in network.modules())
    return {name: count for name, count in sorted(names.items()) if name in {QUICK, "GELU"}}
