"""Kinds of training steps, as ``--step`` names them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from skymark.model.base import Frozen
from skymark.suites.loading.delivery.framework import FrameworkName

Network = Literal["resnet50", "vit_b16", "mlp"]

IMAGE_NETWORKS: tuple[Network, ...] = ("resnet50", "vit_b16")
"""Networks that are trained on images, and so on scenarios that deliver such."""

IMAGE_BATCH = 256
"""Images per step on an accelerator, where no batch size is given."""

LEAST_MS, MOST_MS = 0.1, 1000.0
"""Bounds of a calibrated step: below, starting it takes as long as it does; above, finding its size
takes too long."""

TRAINED_BY: Mapping[FrameworkName, str] = {"jax": "JAX", "torch": "PyTorch"}
"""The frameworks that have steps."""


class StepKind(Frozen):
    """A network to train, and for how long one step is to take where it is calibrated."""

    network: Network
    ms: float | None = None

    @classmethod
    def parse(cls, text: str) -> StepKind:
        """Return the kind that ``resnet50``, ``vit_b16`` or ``mlp:MS`` names.

        Raises:
            ValueError: it names none.
        """
        for network in IMAGE_NETWORKS:
            if text == network:
                return cls(network=network)
        name, _, number = text.partition(":")
        if name != "mlp":
            raise ValueError(f"choose from {', '.join(IMAGE_NETWORKS)} and mlp:MS, such as mlp:5")
        try:
            ms = float(number)
        except ValueError:
            ms = math.nan
        if not LEAST_MS <= ms <= MOST_MS:
            raise ValueError(
                f"mlp:MS takes the milliseconds of a step, {LEAST_MS:g} to {MOST_MS:g}, such as "
                "mlp:5"
            )
        return cls(network="mlp", ms=ms)
