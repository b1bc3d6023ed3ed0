"""Keras's `fit` over each kind of data: python keras_fits.py KIND, and it prints the losses.

The program keeps to two cores. A step sleeps in a callback.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import keras
import numpy as np
import tensorflow as tf
from loops import JPEG, decode_image

BATCHES = 30
BATCH = 4
STEP_MS = 5.0
SLOW_MS = 10.0


def batch(number: int) -> tuple[Any, Any]:
    """Samples and targets, after a slow decode."""
    decode_image(SLOW_MS)
    return np.full((BATCH, 8), number / BATCHES, np.float32), np.ones((BATCH, 1), np.float32)


def tfdata() -> Any:
    """A serial map with operations alone."""
    content = tf.constant(JPEG)

    def decoded(number: Any) -> tuple[Any, Any, None]:
        # Each has bytes of its own behind it: TensorFlow would decode equal ones once.
        ends = (tf.strings.as_string(number * 100 + place) for place in range(8))
        pixels = [tf.io.decode_jpeg(tf.strings.join([content, end]))[0, 0, 0] for end in ends]
        rows = tf.cast(tf.stack([pixels] * BATCH), tf.float32) / 255.0
        return rows, tf.ones((BATCH, 1)), None  # no weights

    return tf.data.Dataset.range(BATCHES).map(decoded).prefetch(2)


def generator() -> Iterator[Any]:
    """A Python generator without an end."""
    while True:
        yield from map(batch, range(BATCHES))


class Rows(keras.utils.PyDataset):
    """Batches by their number."""

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return BATCHES

    def __getitem__(self, number: int) -> Any:
        """Return a batch."""
        return batch(number)


class Step(keras.callbacks.Callback):
    """A step of an accelerator: the host is idle."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sleep."""
        time.sleep(STEP_MS / 1e3)


KINDS: dict[str, Callable[[], Any]] = {
    "tf.data": tfdata,
    "generator": generator,
    "PyDataset": Rows,
    "PyDataset in processes": lambda: Rows(workers=2, use_multiprocessing=True),
}


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(16), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    data = KINDS[sys.argv[1]]()
    fit = model.fit(data, epochs=2, steps_per_epoch=BATCHES, verbose=0, callbacks=[Step()])
    print(fit.history["loss"])
