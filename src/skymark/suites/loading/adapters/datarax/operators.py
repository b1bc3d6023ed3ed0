"""Scenarios' work by JAX operators, as steps of a compiled pipeline.

A step maps a batch, a dict of arrays ``[B, ...]``, to another. Random parameters are columns of the
batch, named as in `Operators.draw`; `forget` drops them again. Work that JAX cannot do, such as
decoding, is left to the reference's first stages on the host: `Operators.host_stages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from skymark.suites.loading.operators import Draw, OperatorTable, drawn_as_they_are

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Arrays = dict[str, Any]
Step = Callable[[Arrays], Arrays]
Factory = Callable[[Any], tuple[Step, ...]]


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    steps: Factory
    draw: Draw = drawn_as_they_are
    host_stages: int = 0
    """Stages of the reference that come before the steps, on the host."""


OPERATORS = OperatorTable(Operators)


def forget(names: Mapping[str, Any]) -> Step:
    """Return a step that drops the random parameters."""
    return lambda batch: {name: value for name, value in batch.items() if name not in names}


def on(field: str, function: Callable[[Any], Any]) -> Step:
    """Return a step that replaces one field."""
    return lambda batch: {**batch, field: function(batch[field])}


@OPERATORS.work("DIST-1", "DIST-2", "TAB-1")
def standardise(scenario: Any) -> tuple[Step, ...]:
    """Subtract the features' means and divide by their deviations."""
    from skymark.suites.loading.dataset.tabular import feature_moments

    mean, deviation = feature_moments(scenario.size["features"])
    return (on("features", lambda features: (features - mean) / deviation),)


@OPERATORS.work("PR-1", "PR-2", "PR-4")
def scale_and_shift(scenario: Any) -> tuple[Step, ...]:
    """Multiply by the drawn factor, then add the drawn amount."""
    del scenario
    return (
        lambda batch: {**batch, "features": batch["features"] * batch["scale"][:, None]},
        lambda batch: {**batch, "features": batch["features"] + batch["shift"][:, None]},
    )


@OPERATORS.work("PC-1")
def chain(scenario: Any) -> tuple[Step, ...]:
    """Apply the chain's links, one step each."""
    import jax.numpy as jnp
    import numpy as np

    from skymark.suites.loading.transforms import numeric as chains

    def level(values: Any) -> Any:
        power = jnp.mean(values * values, axis=-1, keepdims=True)
        root = jnp.sqrt(jnp.where(power > 0, power, 1))
        return values * jnp.where(power > 0, np.float32(chains.LEVEL) / root, 1)

    links: Mapping[str, Callable[[Any], Any]] = {
        "scale": lambda x: x * chains.GAIN,
        "fold": lambda x: jnp.abs(x) - chains.THRESHOLD,
        "rotate": lambda x: jnp.roll(x, -chains.PLACES, axis=-1),
        "bend": lambda x: x + jnp.sin(x) * chains.BEND,
        "level": level,
    }
    names = islice(cycle(chains.LINKS), int(scenario.axes["depth"]))
    return tuple(on("values", links[name]) for name in names)


@OPERATORS.work("TAB-2")
def sparse(scenario: Any) -> tuple[Step, ...]:
    """Take the logarithm of the counts and hash the categories; needs 64-bit integers."""
    import jax
    import jax.numpy as jnp

    from skymark.suites.loading.dataset.tabular import CARDINALITIES, table_sizes
    from skymark.suites.loading.transforms import numeric as tabular

    keys = tabular.feature_keys(len(CARDINALITIES))
    rows = table_sizes(scenario.size["largest_table"])

    def hashed(ids: Any) -> Any:
        mixed = jax.lax.bitcast_convert_type(ids, jnp.uint64) + keys
        for mixer in tabular.MIXERS:
            mixed = (mixed ^ (mixed >> 33)) * mixer
        return ((mixed ^ (mixed >> 33)) % rows).astype(jnp.int32)

    return (
        on("dense", lambda counts: jnp.log1p(jnp.maximum(counts, 0).astype(jnp.float32))),
        on("categorical", hashed),
    )


def corner(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the first voxel of each element's crop, int32 ``[elements, 3]``."""
    return {"corner": scenario.corners(epoch, dataset).astype("int32")}


@OPERATORS.work("CV-2", draw=corner)
def volume(scenario: Any) -> tuple[Step, ...]:
    """Cut the drawn cube out and take its z-score."""
    import jax
    import jax.numpy as jnp

    edge = scenario.size["edge"]

    def crop(batch: Arrays) -> Arrays:
        cube = jax.vmap(lambda volume, corner: jax.lax.dynamic_slice(volume, corner, [edge] * 3))
        return {**batch, "volume": cube(batch["volume"], batch["corner"])}

    def z_score(voxels: Any) -> Any:
        voxels = voxels.astype(jnp.float32)
        centred = voxels - voxels.mean(axis=(1, 2, 3), keepdims=True)
        return centred / centred.std(axis=(1, 2, 3), keepdims=True)

    return crop, on("volume", z_score)


def flip(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return whether each image is mirrored."""
    del dataset
    return {"flip": scenario.table(epoch)["flip"]}


@OPERATORS.work("CV-1", "CV-6", draw=flip, host_stages=2)
def image(scenario: Any) -> tuple[Step, ...]:
    """Mirror a decoded and cropped image where drawn, and normalise it."""
    import jax.numpy as jnp
    import numpy as np

    from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

    del scenario
    mean = np.asarray(IMAGENET_MEAN, np.float32)
    deviation = np.asarray(IMAGENET_DEVIATION, np.float32)

    def mirror(batch: Arrays) -> Arrays:
        pixels = batch["image"]
        mirrored = jnp.where(batch["flip"][:, None, None, None], pixels[:, :, ::-1], pixels)
        return {**batch, "image": mirrored}

    def normalise(pixels: Any) -> Any:
        return (pixels.astype(jnp.float32) / 255 - mean) / deviation

    return mirror, on("image", normalise)
