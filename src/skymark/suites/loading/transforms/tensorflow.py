"""Scenarios' work by TensorFlow's own operators, for pipelines that run as graphs.

Each factory takes the scenario and its random parameters and returns the steps of the work. A step
maps a dict of tensors, either of one element (`ELEMENT_WORK`) or of a batch (`BATCH_WORK`, for work
too small to be worth a call per element). Random parameters are tables ``[elements, ...]``, held in
variables because they change with the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from skymark.suites.loading.dataset.text import END_OF_TEXT, START_OF_TEXT
from skymark.suites.loading.transforms import chains
from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Tensors = dict[str, Any]
Step = Callable[[Tensors], Tensors]
Tables = Mapping[str, Any]
Factory = Callable[[Any, Tables], tuple[Step, ...]]


def random_parameters(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the tables of an epoch, with crops as boxes in pixels."""
    table: dict[str, Array] = scenario.table(epoch)
    match scenario.id:
        case "CV-1":
            return {"box": scenario.boxes(epoch, dataset), "flip": table["flip"]}
        case "CV-2":
            return {"corner": scenario.corners(epoch, dataset)}
        case "PC-2":
            box_1, box_2 = scenario.boxes(epoch, dataset)
            flips = {name: table[name] for name in ("flip_1", "flip_2")}
            return {"box_1": box_1, "box_2": box_2, **flips}
    return table


def standardise(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """TAB-1, on batches."""
    from skymark.suites.loading.dataset.tabular import feature_moments

    del tables
    mean, deviation = feature_moments(scenario.size["features"])
    return (lambda batch: {**batch, "features": (batch["features"] - mean) / deviation},)


def scale_and_shift(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """PR-2, on batches."""
    del scenario

    def scale(batch: Tensors) -> Tensors:
        drawn = tf.gather(tables["scale"], batch["index"])[:, None]
        return {**batch, "features": batch["features"] * drawn}

    def shift(batch: Tensors) -> Tensors:
        drawn = tf.gather(tables["shift"], batch["index"])[:, None]
        return {**batch, "features": batch["features"] + drawn}

    return scale, shift


def sparse(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """TAB-2, on batches."""
    from skymark.suites.loading.dataset.tabular import CARDINALITIES, table_sizes
    from skymark.suites.loading.transforms import tabular

    del tables
    keys = tf.constant(tabular.feature_keys(len(CARDINALITIES)))
    rows = tf.constant(table_sizes(scenario.size["largest_table"]))

    def folded(ids: Any) -> Any:
        return tf.bitwise.bitwise_xor(ids, tf.bitwise.right_shift(ids, tf.constant(33, tf.uint64)))

    def log(batch: Tensors) -> Tensors:
        counts = tf.cast(tf.maximum(batch["dense"], 0), tf.float32)
        return {**batch, "dense": tf.math.log1p(counts)}

    def hashing(batch: Tensors) -> Tensors:
        ids = tf.bitcast(batch["categorical"], tf.uint64) + keys
        for mixer in tabular.MIXERS:
            ids = folded(ids) * mixer
        return {**batch, "categorical": tf.cast(folded(ids) % rows, tf.int32)}

    return log, hashing


LINKS: Mapping[str, Callable[[Any], Any]] = {
    "scale": lambda x: x * chains.GAIN,
    "fold": lambda x: tf.abs(x) - chains.THRESHOLD,
    "rotate": lambda x: tf.roll(x, -chains.PLACES, axis=-1),
    "bend": lambda x: x + tf.sin(x) * chains.BEND,
    "level": lambda x: x * chains.LEVEL * _inverse_root(tf.reduce_mean(x * x, -1, keepdims=True)),
}


def _inverse_root(power: Any) -> Any:
    return tf.where(power > 0, tf.math.rsqrt(power), 1 / chains.LEVEL)


def chain(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """PC-1, on batches: one step per link."""
    del tables

    def step(link: Callable[[Any], Any]) -> Step:
        return lambda batch: {**batch, "values": link(batch["values"])}

    names = islice(cycle(chains.LINKS), int(scenario.axes["depth"]))
    return tuple(step(LINKS[name]) for name in names)


def crop_and_flip(jpeg: Any, box: Any, flip: Any, side: int) -> Any:
    """Decode only the drawn box, resize it, mirror it where drawn, and normalise."""
    pixels = tf.io.decode_and_crop_jpeg(jpeg, box, channels=3, dct_method="INTEGER_ACCURATE")
    resized = tf.image.resize(pixels, (side, side), antialias=True) / 255
    mirrored = tf.cond(flip, lambda: tf.image.flip_left_right(resized), lambda: resized)
    return (mirrored - IMAGENET_MEAN) / IMAGENET_DEVIATION


def image(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """CV-1."""

    def work(element: Tensors) -> Tensors:
        index, label = element["index"], element["label"]
        box, flip = tf.gather(tables["box"], index), tf.gather(tables["flip"], index)
        cropped = crop_and_flip(element["jpeg"], box, flip, scenario.size["side"])
        return {"index": index, "label": label, "image": cropped}

    return (work,)


def two_views(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """PC-2."""

    def work(element: Tensors) -> Tensors:
        index, side = element["index"], scenario.size["side"]
        views = {}
        for view in ("1", "2"):
            box = tf.gather(tables[f"box_{view}"], index)
            flip = tf.gather(tables[f"flip_{view}"], index)
            views[f"view_{view}"] = crop_and_flip(element["jpeg"], box, flip, side)
        return {"index": index, "label": element["label"], **views}

    return (work,)


def volume(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """CV-2."""
    edge = scenario.size["edge"]

    def crop(element: Tensors) -> Tensors:
        corner = tf.gather(tables["corner"], element["index"])
        return {**element, "volume": tf.slice(element["volume"], corner, [edge] * 3)}

    def normalise(element: Tensors) -> Tensors:
        voxels = tf.cast(element["volume"], tf.float32)
        centred = voxels - tf.reduce_mean(voxels)
        return {**element, "volume": centred / tf.math.reduce_std(centred)}

    return crop, normalise


def blocks(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """NLP-1, on batches of ragged rows: what stands at each place of all blocks, laid end to end.

    A document's span ends with the token that closes it.
    """
    del tables
    length = scenario.size["block"] + 1

    def pack(batch: Tensors) -> Tensors:
        documents_before = tf.cast(batch["lengths"].row_splits, tf.int32)
        tokens = tf.cast(batch["tokens"].flat_values, tf.int32)
        spans = tf.cast(batch["lengths"].flat_values, tf.int32) + 1
        starts = tf.concat([[0], tf.cumsum(spans)], 0)
        block_starts = tf.gather(starts, documents_before)
        places = tf.range(starts[-1])
        document = tf.searchsorted(starts, places, side="right") - 1
        block = tf.searchsorted(block_starts, places, side="right") - 1
        closes = tf.gather(starts, document + 1) == places + 1
        token = tf.gather(tokens, tf.minimum(places - document, tf.size(tokens) - 1))

        def rows(values: Any, padding: int) -> Any:
            ragged = tf.RaggedTensor.from_row_splits(values, block_starts, validate=False)
            return ragged.to_tensor(padding, shape=[None, length])

        padding_place = tf.range(length) - (block_starts[1:] - block_starts[:-1])[:, None]
        positions = rows(places - tf.gather(starts, document), 0)
        return {
            "index": batch["index"],
            "tokens": rows(tf.where(closes, END_OF_TEXT, token), END_OF_TEXT),
            "segment_ids": rows(document + 1 - tf.gather(documents_before, block), 0),
            "positions": tf.where(padding_place < 0, positions, padding_place),
        }

    def shift(batch: Tensors) -> Tensors:
        segments = batch["segment_ids"]
        same = (segments[:, :-1] == segments[:, 1:]) & (segments[:, 1:] > 0)
        return {
            "index": batch["index"],
            "inputs": batch["tokens"][:, :-1],
            "targets": batch["tokens"][:, 1:],
            "segment_ids": segments[:, :-1],
            "positions": batch["positions"][:, :-1],
            "loss_mask": tf.cast(same, tf.uint8),
        }

    return pack, shift


def sequences(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """NLP-2: with a mask of ones, which padding continues with zeros."""
    del tables

    def work(element: Tensors) -> Tensors:
        kept = tf.cast(element["tokens"][: scenario.size["longest"] - 2], tf.int32)
        tokens = tf.concat([[START_OF_TEXT], kept, [END_OF_TEXT]], 0)
        return {**element, "tokens": tokens, "attention_mask": tf.ones_like(tokens, tf.uint8)}

    return (work,)


PADDING: Mapping[str, Mapping[str, int]] = {"NLP-2": {"tokens": END_OF_TEXT}}
"""What ragged fields are padded with, where not with zeros."""

BATCH_WORK: Mapping[str, Factory] = {
    "TAB-1": standardise,
    "TAB-2": sparse,
    "DIST-1": standardise,
    "PR-1": scale_and_shift,
    "PR-2": scale_and_shift,
    "PC-1": chain,
    "NLP-1": blocks,
}
ELEMENT_WORK: Mapping[str, Factory] = {
    "CV-1": image,
    "CV-2": volume,
    "PC-2": two_views,
    "NLP-2": sequences,
}
