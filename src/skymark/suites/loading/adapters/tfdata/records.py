"""Raw elements as TensorFlow reads them: TFRecord files, memory, files, or through Python.

An element is a dict of tensors: encoded columns are strings (bytes), all others numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
from skymark.suites.loading.dataset.files import element_path
from skymark.suites.loading.dataset.tabular import ComputedDataset

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob

Tensors = dict[str, Any]
Read = Callable[[Any], Tensors]
"""Turns a key (a serialised record, or an index) into a raw element."""

RECORD_FILES = 8
VECTORISED = frozenset({"tfrecord", "memory", "computed"})
"""Formats whose `Read` takes a batch of keys as well."""
THROUGH_PYTHON = frozenset({"tar", "parquet", "http"})
"""Formats that TensorFlow has no reader for."""
NUMBERS = {"<f4": tf.float32, "<u2": tf.int64, "<i4": tf.int64, "<i8": tf.int64}
"""Columns stored as numbers in a record; all others are stored as bytes."""


def write_records(dataset: Dataset, directory: Path) -> None:
    """Write `tf.train.Example` records, element by element in turns to `RECORD_FILES` files."""
    paths = [directory / f"{number:05d}.tfrecord" for number in range(RECORD_FILES)]
    writers = [tf.io.TFRecordWriter(str(path)) for path in paths]
    for index, element in enumerate(dataset):
        features = {
            column.name: _feature(column, element[column.name]) for column in dataset.columns
        }
        features["index"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[index]))
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writers[index % RECORD_FILES].write(example.SerializeToString())
    for writer in writers:
        writer.close()


def _feature(column: Column, value: Any) -> Any:
    stored = None if column.encoding != "raw" else NUMBERS.get(column.dtype)
    flat = np.asarray(value).reshape(-1)
    if stored is None:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[flat.tobytes()]))
    if stored == tf.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=flat))


def source(job: LoadingJob) -> Read:
    """Return the function that reads raw elements in the job's format."""
    if job.format == "tfrecord":
        return _records(job.dataset.columns)
    if job.format == "memory":
        return _memory(job.dataset)
    if isinstance(job.dataset, ComputedDataset):
        return _computed(job.dataset)
    if job.format == "files":
        return _files(job.storage, job.dataset)
    return _through_python(job)


def _records(columns: Sequence[Column]) -> Read:
    features = {"index": tf.io.FixedLenFeature([], tf.int64)}
    for column in columns:
        stored = NUMBERS.get(column.dtype)
        if column.encoding != "raw" or stored is None:
            features[column.name] = tf.io.FixedLenFeature([], tf.string)
        elif column.shape is None:
            features[column.name] = tf.io.RaggedFeature(stored, row_splits_dtype=tf.int64)
        else:
            features[column.name] = tf.io.FixedLenFeature(column.shape, stored)

    def read(records: Any) -> Tensors:
        fields: Tensors = tf.io.parse_example(records, features)
        return fields | {column.name: decoded(column, fields[column.name]) for column in columns}

    return read


def decoded(column: Column, value: Any) -> Any:
    """Return a column's values in its own dtype, from numbers or from the bytes of an array."""
    if column.encoding != "raw":
        return value
    dtype = tf.as_dtype(np.dtype(column.dtype))
    if value.dtype != tf.string:
        return tf.cast(value, dtype)
    values = tf.io.decode_raw(value, dtype)
    if column.shape is None:
        return values
    return tf.reshape(values, tf.concat([tf.shape(value), column.shape], 0))


def _memory(dataset: Dataset) -> Read:
    """Hold every column as one tensor; elements are gathered."""
    columns: Tensors = {}
    for column in dataset.columns:
        if not column.is_ragged:
            columns[column.name] = tf.constant(dataset.column(column.name))
            continue
        pieces = [element[column.name] for element in dataset]
        if column.encoding != "raw":
            columns[column.name] = tf.constant([piece.tobytes() for piece in pieces])
        else:
            lengths = [len(piece) for piece in pieces]
            columns[column.name] = tf.RaggedTensor.from_row_lengths(np.concatenate(pieces), lengths)
    return lambda index: {
        "index": index,
        **{name: tf.gather(values, index) for name, values in columns.items()},
    }


def _computed(dataset: ComputedDataset) -> Read:
    """Compute the elements of a batch of indices in Python, at once."""

    def rows(given: dict[str, Any]) -> dict[str, Any]:
        return {**given, **dataset.rows(given["index"])}

    like = rows({"index": np.zeros(1, np.int64)})
    return lambda indices: in_python(rows, {"index": indices}, like)


def _files(directory: Path, dataset: Dataset) -> Read:
    """Read one file per column; scalar columns are known from the listing."""
    listed = {c.name: tf.constant(dataset.column(c.name)) for c in dataset.columns if c.shape == ()}
    columns = [column for column in dataset.columns if column.name not in listed]
    paths = {
        column.name: tf.constant(
            [f"{directory}/{element_path(index, column)}" for index in range(len(dataset))]
        )
        for column in columns
    }

    def read(index: Any) -> Tensors:
        element = {"index": index} | {name: values[index] for name, values in listed.items()}
        for column in columns:
            data = tf.io.read_file(paths[column.name][index])
            raw = column.encoding == "raw"
            element[column.name] = decoded(column, _without_header(data)) if raw else data
        return element

    return read


def _without_header(data: Any) -> Any:
    """Return the values of a file in NumPy's format, version 1.0: 10 bytes and a header first."""
    header = tf.cast(tf.io.decode_raw(tf.strings.substr(data, 8, 2), tf.uint16)[0], tf.int32)
    return tf.strings.substr(data, 10 + header, tf.strings.length(data))


def _through_python(job: LoadingJob) -> Read:
    """Read in a format that TensorFlow has no reader for."""
    reader, columns = job.reader(), job.dataset.columns

    def fields(key: Element) -> Element:
        element = reader[int(key["index"])]
        encoded = {c.name: bytes(element[c.name]) for c in columns if c.encoding != "raw"}
        return element | encoded

    like = fields({"index": 0})

    def read(index: Any) -> Tensors:
        element = in_python(fields, {"index": index}, like)
        for column in columns:
            if column.shape is not None:
                element[column.name].set_shape(column.shape)
        return element

    return read


def in_python(
    function: Callable[[Any], Mapping[str, Any]], inputs: Tensors, like: Mapping[str, Any]
) -> Tensors:
    """Call a Python function on arrays; Python's lock is held meanwhile.

    Args:
        function: takes and returns a dict of arrays; strings are uint8 ``[length]``.
        inputs: tensors.
        like: example of a result, for names, dtypes and numbers of dimensions.
    """

    def call(*values: Any) -> list[Any]:
        arrays = (np.frombuffer(v, np.uint8) if isinstance(v, bytes) else v for v in values)
        result = function(dict(zip(inputs, arrays, strict=True)))
        return [result[name] for name in like]

    dtypes = [tf.string if isinstance(v, bytes) else np.asarray(v).dtype for v in like.values()]
    outputs = tf.numpy_function(call, list(inputs.values()), dtypes, stateful=False)
    for output, value in zip(outputs, like.values(), strict=True):
        output.set_shape([None] * np.ndim(value))
    return dict(zip(like, outputs, strict=True))
