"""Orders of an epoch's elements in tf.data: through a buffer, mixed from sources, or computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.element_streams import Mixture

SHUFFLE_BUFFER = 1000
"""Elements held while shuffling, as in the other libraries that shuffle a stream."""


def shuffle_buffer(job: LoadingJob) -> int:
    """Return the elements that are held while shuffling."""
    return int(job.options.get("shuffle_buffer", SHUFFLE_BUFFER))


def shuffled(job: LoadingJob, keys: Any, epoch: Any) -> Any:
    """Return a dataset of keys in an epoch's order, an int64 scalar."""
    if not job.shuffle:
        return keys
    return keys.shuffle(shuffle_buffer(job), seed=shuffle_seed(job, epoch))


def mixed(job: LoadingJob, mixture: Mixture, epoch: Any) -> Any:
    """Return indices of several sources, each repeated, mixed by their weights."""
    import tensorflow as tf

    seed = shuffle_seed(job, epoch)
    sources = [
        shuffled(job, tf.data.Dataset.range(*bounds), epoch).repeat() for bounds in mixture.bounds
    ]
    weights = list(mixture.weights)
    stream = tf.data.Dataset.sample_from_datasets(sources, weights, seed=seed)
    return stream.take(mixture.elements)


def permuted(job: LoadingJob, epoch: Any, begin: Any) -> Any:
    """Return indices from a place in an epoch's order on, each computed from its place."""
    import numpy as np
    import tensorflow as tf

    seed = tf.stack([shuffle_seed(job, epoch), np.int64(0)])
    total = len(job.dataset)
    return tf.data.Dataset.range(begin, total, output_type=tf.int64).map(
        lambda place: tf.random.experimental.index_shuffle(place, seed, np.int64(total - 1))
    )


def shuffle_seed(job: LoadingJob, epoch: Any) -> Any:
    """Return the seed of an epoch's shuffle, an int64 scalar."""
    import numpy as np
    import tensorflow as tf

    seed = tf.numpy_function(
        lambda number: np.int64(job.shuffle_seed(int(number))), [epoch], tf.int64
    )
    return tf.ensure_shape(seed, [])
