"""Scenarios' work inside FFCV's pipelines, as compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Factory = Callable[[Any], dict[str, list[Any]]]
"""From the scenario to each column's operations."""
Draw = Callable[[Any, "Dataset", int], "dict[str, dict[str, Array]]"]
"""From scenario, data and epoch to arrays ``[elements]`` of metadata, by column and name."""


def nothing_drawn(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, dict[str, Array]]:
    """Return no metadata."""
    del scenario, dataset, epoch
    return {}


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    pipelines: Factory
    draw: Draw = nothing_drawn
    delivered_as: Mapping[str, str] = field(default_factory=dict)
    """Fields of the batch that are called otherwise than the columns that they are made of."""


OPERATORS: OperatorTable[Operators] = OperatorTable()


def operators(
    *ids: str, draw: Draw = nothing_drawn, delivered_as: Mapping[str, str] | None = None
) -> Callable[[Factory], Factory]:
    """Register pipelines as the work of some scenarios."""

    def register(factory: Factory) -> Factory:
        OPERATORS.register(Operators(factory, draw, delivered_as or {}), *ids)
        return factory

    return register


def crop_and_flip(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, dict[str, Array]]:
    """Return each image's crop and whether it is mirrored."""
    from skymark.suites.loading.adapters.ffcv.compiled import DRAWN

    drawn = (*scenario.boxes(epoch, dataset).T, scenario.table(epoch)["flip"])
    return {"jpeg": dict(zip(DRAWN, drawn, strict=True))}


@operators("CV-1", draw=crop_and_flip, delivered_as={"jpeg": "image"})
def image(scenario: Any) -> dict[str, list[Any]]:
    """Decode, crop, flip and normalise an image."""
    from ffcv.fields.decoders import IntDecoder

    from skymark.suites.loading.adapters.ffcv.compiled import DrawnCrop, normalise

    return {"jpeg": [DrawnCrop(scenario.size["side"]), normalise()], "label": [IntDecoder()]}


@operators("TAB-1")
def standardise(scenario: Any) -> dict[str, list[Any]]:
    """Subtract the features' means and divide by their deviations."""
    from ffcv.fields.decoders import IntDecoder, NDArrayDecoder

    from skymark.suites.loading.adapters.ffcv.compiled import Standardise
    from skymark.suites.loading.dataset.tabular import feature_moments

    moments = feature_moments(scenario.size["features"])
    return {"features": [NDArrayDecoder(), Standardise(*moments)], "label": [IntDecoder()]}
