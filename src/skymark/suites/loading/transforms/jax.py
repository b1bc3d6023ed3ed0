"""Scenarios' work by JAX operators, for pipelines that are compiled.

A step maps a batch, a dict of arrays ``[B, ...]``, to another. Random parameters are columns of the
batch, named as in `random_parameters`; `forget` drops them again. What JAX cannot do, such as
decoding, is left to the reference's first stages on the host: `HOST_STAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from skymark.suites.loading.dataset import tabular as tables
from skymark.suites.loading.transforms import chains, tabular
from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Arrays = dict[str, Any]
Step = Callable[[Arrays], Arrays]


def random_parameters(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the tables ``[elements, ...]`` that the steps need in an epoch."""
    table: dict[str, Array] = scenario.table(epoch)
    match scenario.id:
        case "CV-1":
            return {"flip": table["flip"]}
        case "CV-2":
            return {"corner": scenario.corners(epoch, dataset).astype(np.int32)}
    return table


def forget(names: Mapping[str, Any]) -> Step:
    """Return a step that drops the random parameters."""
    return lambda batch: {name: value for name, value in batch.items() if name not in names}


def on(field: str, function: Callable[[Any], Any]) -> Step:
    """Return a step that replaces one field."""
    return lambda batch: {**batch, field: function(batch[field])}


def standardise(scenario: Any) -> tuple[Step, ...]:
    """TAB-1."""
    mean, deviation = tables.feature_moments(scenario.size["features"])
    return (on("features", lambda features: (features - mean) / deviation),)


def scale_and_shift(scenario: Any) -> tuple[Step, ...]:
    """PR-2."""
    del scenario
    return (
        lambda batch: {**batch, "features": batch["features"] * batch["scale"][:, None]},
        lambda batch: {**batch, "features": batch["features"] + batch["shift"][:, None]},
    )


def _level(values: Any) -> Any:
    power = jnp.mean(values * values, axis=-1, keepdims=True)
    root = jnp.sqrt(jnp.where(power > 0, power, 1))
    return values * jnp.where(power > 0, np.float32(chains.LEVEL) / root, 1)


LINKS: Mapping[str, Callable[[Any], Any]] = {
    "scale": lambda x: x * chains.GAIN,
    "fold": lambda x: jnp.abs(x) - chains.THRESHOLD,
    "rotate": lambda x: jnp.roll(x, -chains.PLACES, axis=-1),
    "bend": lambda x: x + jnp.sin(x) * chains.BEND,
    "level": _level,
}


def chain(scenario: Any) -> tuple[Step, ...]:
    """PC-1: one step per link."""
    names = islice(cycle(chains.LINKS), int(scenario.axes["depth"]))
    return tuple(on("values", LINKS[name]) for name in names)


def sparse(scenario: Any) -> tuple[Step, ...]:
    """TAB-2; needs 64-bit integers."""
    keys = tabular.feature_keys(len(tables.CARDINALITIES))
    rows = tables.table_sizes(scenario.size["largest_table"])

    def hashed(ids: Any) -> Any:
        mixed = jax.lax.bitcast_convert_type(ids, jnp.uint64) + keys
        for mixer in tabular.MIXERS:
            mixed = (mixed ^ (mixed >> 33)) * mixer
        return ((mixed ^ (mixed >> 33)) % rows).astype(jnp.int32)

    return (
        on("dense", lambda counts: jnp.log1p(jnp.maximum(counts, 0).astype(jnp.float32))),
        on("categorical", hashed),
    )


def volume(scenario: Any) -> tuple[Step, ...]:
    """CV-2."""
    edge = scenario.size["edge"]

    def crop(batch: Arrays) -> Arrays:
        cube = jax.vmap(lambda volume, corner: jax.lax.dynamic_slice(volume, corner, [edge] * 3))
        return {**batch, "volume": cube(batch["volume"], batch["corner"])}

    def z_score(voxels: Any) -> Any:
        voxels = voxels.astype(jnp.float32)
        centred = voxels - voxels.mean(axis=(1, 2, 3), keepdims=True)
        return centred / centred.std(axis=(1, 2, 3), keepdims=True)

    return crop, on("volume", z_score)


def image(scenario: Any) -> tuple[Step, ...]:
    """CV-1, after decoding and cropping: mirror where drawn, normalise."""
    del scenario
    mean = np.asarray(IMAGENET_MEAN, np.float32)
    deviation = np.asarray(IMAGENET_DEVIATION, np.float32)

    def flip(batch: Arrays) -> Arrays:
        pixels = batch["image"]
        mirrored = jnp.where(batch["flip"][:, None, None, None], pixels[:, :, ::-1], pixels)
        return {**batch, "image": mirrored}

    def normalise(pixels: Any) -> Any:
        return (pixels.astype(jnp.float32) / 255 - mean) / deviation

    return flip, on("image", normalise)


WORK: Mapping[str, Callable[[Any], tuple[Step, ...]]] = {
    "CV-1": image,
    "CV-2": volume,
    "DIST-1": standardise,
    "DIST-2": standardise,
    "PC-1": chain,
    "PR-1": scale_and_shift,
    "PR-2": scale_and_shift,
    "TAB-1": standardise,
    "TAB-2": sparse,
}
HOST_STAGES: Mapping[str, int] = {"CV-1": 2}
"""How many of the reference's stages come before the steps, on the host."""
