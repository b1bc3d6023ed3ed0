"""Scenarios' work by TensorFlow's own operators, as steps of a graph.

Each factory takes the scenario and its random parameters and returns the steps of the work. A step
maps a dict of tensors, either of one element or of a batch (`Operators.on_batches`). Random
parameters are tables ``[elements, ...]``, held in variables because they change with the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from skymark.suites.loading.operators import Draw, OperatorTable, drawn_as_they_are

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Tensors = dict[str, Any]
Step = Callable[[Tensors], Tensors]
Tables = Mapping[str, Any]
Factory = Callable[[Any, Tables], tuple[Step, ...]]


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    steps: Factory
    on_batches: bool = False
    """Whether they map batches, for work too small to be worth a call per element."""
    draw: Draw = drawn_as_they_are


OPERATORS = OperatorTable(Operators)


@OPERATORS.work("TAB-1", "DIST-1", on_batches=True)
def standardise(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Subtract the features' means and divide by their deviations."""
    from skymark.suites.loading.dataset.tabular import feature_moments

    del tables
    mean, deviation = feature_moments(scenario.size["features"])
    return (lambda batch: {**batch, "features": (batch["features"] - mean) / deviation},)


@OPERATORS.work("MIX-1", "PR-1", "PR-2", "PR-4", on_batches=True)
def scale_and_shift(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Multiply by the drawn factor, then add the drawn amount."""
    import tensorflow as tf

    del scenario

    def scale(batch: Tensors) -> Tensors:
        drawn = tf.gather(tables["scale"], batch["index"])[:, None]
        return {**batch, "features": batch["features"] * drawn}

    def shift(batch: Tensors) -> Tensors:
        drawn = tf.gather(tables["shift"], batch["index"])[:, None]
        return {**batch, "features": batch["features"] + drawn}

    return scale, shift


@OPERATORS.work("PR-5", on_batches=True)
def centre(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Map [0, 1) to [-1, 1)."""
    del scenario, tables
    return (lambda batch: {**batch, "features": 2 * batch["features"] - 1},)


@OPERATORS.work("TAB-2", on_batches=True)
def sparse(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Take the logarithm of the counts and hash the categories."""
    import tensorflow as tf

    from skymark.suites.loading.dataset.tabular import CARDINALITIES, table_sizes
    from skymark.suites.loading.transforms import numeric

    del tables
    keys = tf.constant(numeric.feature_keys(len(CARDINALITIES)))
    rows = tf.constant(table_sizes(scenario.size["largest_table"]))

    def folded(ids: Any) -> Any:
        return tf.bitwise.bitwise_xor(ids, tf.bitwise.right_shift(ids, tf.constant(33, tf.uint64)))

    def log(batch: Tensors) -> Tensors:
        counts = tf.cast(tf.maximum(batch["dense"], 0), tf.float32)
        return {**batch, "dense": tf.math.log1p(counts)}

    def hashing(batch: Tensors) -> Tensors:
        ids = tf.bitcast(batch["categorical"], tf.uint64) + keys
        for mixer in numeric.MIXERS:
            ids = folded(ids) * mixer
        return {**batch, "categorical": tf.cast(folded(ids) % rows, tf.int32)}

    return log, hashing


@OPERATORS.work("PC-1", on_batches=True)
def chain(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Apply the chain's links, one step each."""
    import tensorflow as tf

    from skymark.suites.loading.transforms import numeric

    del tables

    def inverse_root(power: Any) -> Any:
        return tf.where(power > 0, tf.math.rsqrt(power), 1 / numeric.LEVEL)

    def level(values: Any) -> Any:
        power = tf.reduce_mean(values * values, -1, keepdims=True)
        return values * numeric.LEVEL * inverse_root(power)

    links: Mapping[str, Callable[[Any], Any]] = {
        "scale": lambda x: x * numeric.GAIN,
        "fold": lambda x: tf.abs(x) - numeric.THRESHOLD,
        "rotate": lambda x: tf.roll(x, -numeric.PLACES, axis=-1),
        "bend": lambda x: x + tf.sin(x) * numeric.BEND,
        "level": level,
    }

    def step(link: Callable[[Any], Any]) -> Step:
        return lambda batch: {**batch, "values": link(batch["values"])}

    names = islice(cycle(numeric.LINKS), int(scenario.axes["depth"]))
    return tuple(step(links[name]) for name in names)


SMALL_SIDE, SMALL_BOX = 40, 8
"""Pixels. A part of a JPEG file that is decoded alone has other chroma at its edges, which shows in
boxes smaller than this; images of larger sides have none."""
JPEG_KINDS = frozenset({"JPEG", "grey JPEG", "CMYK JPEG", "MPO"})


def any_image(dataset: Dataset) -> dict[str, Array]:
    """Return a table of that name where images are small or not all JPEG; none where they are."""
    import numpy as np

    smallest = min(dataset.column(name).min() for name in ("height", "width"))
    is_plain = dataset.image_kinds <= JPEG_KINDS and smallest >= SMALL_SIDE
    return {} if is_plain else {any_image.__name__: np.array(1, np.uint8)}


def decoded_box(data: Any, box: Any, tables: Tables) -> Any:
    """Decode the drawn box of an image, the first of several, to RGB; of JPEG only the box."""
    import tensorflow as tf

    exact = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}

    def cut(whole: Any) -> Any:
        return tf.slice(whole, [box[0], box[1], 0], [box[2], box[3], 3])

    def part() -> Any:
        return tf.io.decode_and_crop_jpeg(data, box, **exact)

    if any_image.__name__ not in tables:
        return part()
    is_small = tf.reduce_min(box[2:]) < SMALL_BOX
    return tf.cond(
        tf.io.is_jpeg(data),
        lambda: tf.cond(is_small, lambda: cut(tf.io.decode_jpeg(data, **exact)), part),
        lambda: cut(tf.io.decode_image(data, channels=3, expand_animations=False)),
    )


def crop_and_flip(data: Any, box: Any, flip: Any, side: int, tables: Tables) -> Any:
    """Decode only the drawn box, resize it, mirror it where drawn, and normalise."""
    import tensorflow as tf

    from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

    pixels = decoded_box(data, box, tables)
    resized = tf.image.resize(pixels, (side, side), antialias=True) / 255
    mirrored = tf.cond(flip, lambda: tf.image.flip_left_right(resized), lambda: resized)
    return (mirrored - IMAGENET_MEAN) / IMAGENET_DEVIATION


def box_and_flip(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return each element's crop in pixels and whether it is mirrored."""
    drawn = {"box": scenario.boxes(epoch, dataset), "flip": scenario.table(epoch)["flip"]}
    return drawn | any_image(dataset)


@OPERATORS.work("CV-1", "CV-6", draw=box_and_flip)
def image(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Crop, flip and normalise an image."""
    import tensorflow as tf

    def work(element: Tensors) -> Tensors:
        index, label = element["index"], element["label"]
        box, flip = tf.gather(tables["box"], index), tf.gather(tables["flip"], index)
        cropped = crop_and_flip(element["jpeg"], box, flip, scenario.size["side"], tables)
        return {"index": index, "label": label, "image": cropped}

    return (work,)


def boxes_and_flips(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the crop of each view in pixels and whether it is mirrored."""
    box_1, box_2 = scenario.boxes(epoch, dataset)
    table = scenario.table(epoch)
    flips = {name: table[name] for name in ("flip_1", "flip_2")}
    return {"box_1": box_1, "box_2": box_2, **flips, **any_image(dataset)}


@OPERATORS.work("PC-2", draw=boxes_and_flips)
def two_views(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Make two views of an image."""
    import tensorflow as tf

    def work(element: Tensors) -> Tensors:
        index, side = element["index"], scenario.size["side"]
        views = {}
        for view in ("1", "2"):
            box = tf.gather(tables[f"box_{view}"], index)
            flip = tf.gather(tables[f"flip_{view}"], index)
            views[f"view_{view}"] = crop_and_flip(element["jpeg"], box, flip, side, tables)
        return {"index": index, "label": element["label"], **views}

    return (work,)


def corner(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the first voxel of each element's crop."""
    return {"corner": scenario.corners(epoch, dataset)}


@OPERATORS.work("CV-2", draw=corner)
def volume(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Cut the drawn cube out and take its z-score."""
    import tensorflow as tf

    edge = scenario.size["edge"]

    def crop(element: Tensors) -> Tensors:
        first = tf.gather(tables["corner"], element["index"])
        return {**element, "volume": tf.slice(element["volume"], first, [edge] * 3)}

    def normalise(element: Tensors) -> Tensors:
        voxels = tf.cast(element["volume"], tf.float32)
        centred = voxels - tf.reduce_mean(voxels)
        return {**element, "volume": centred / tf.math.reduce_std(centred)}

    return crop, normalise


@OPERATORS.work("NLP-1", on_batches=True)
def blocks(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Lay the documents of ragged rows end to end, block by block, and shift.

    A document's span ends with the token that closes it.
    """
    import tensorflow as tf

    from skymark.suites.loading.dataset.text import END_OF_TEXT

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


@OPERATORS.work("NLP-2")
def sequences(scenario: Any, tables: Tables) -> tuple[Step, ...]:
    """Truncate and delimit a text; add a mask of ones, which padding continues with zeros."""
    import tensorflow as tf

    from skymark.suites.loading.dataset.text import END_OF_TEXT, START_OF_TEXT

    del tables

    def work(element: Tensors) -> Tensors:
        kept = tf.cast(element["tokens"][: scenario.size["longest"] - 2], tf.int32)
        tokens = tf.concat([[START_OF_TEXT], kept, [END_OF_TEXT]], 0)
        return {**element, "tokens": tokens, "attention_mask": tf.ones_like(tokens, tf.uint8)}

    return (work,)
