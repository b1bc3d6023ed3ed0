"""Serialise one field of an element, and name the file or object that holds it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from skymark.suites.loading.dataset.canonical import Column


def extension(column: Column) -> str:
    """Return the file name ending of a column's bytes."""
    endings = {"bytes": "bin", "jpeg": "jpg", "raw": "npy", "utf8": "txt"}
    return endings.get(column.encoding, column.encoding)


def element_path(index: int, column: Column) -> str:
    """Return where one element's column lies below the storage directory, or on a server."""
    return f"{index // 1000:04d}/{index:08d}.{column.name}.{extension(column)}"


def to_bytes(column: Column, value: Any) -> bytes:
    """Serialise one field: its own bytes when encoded, else the ``.npy`` format."""
    if column.encoding != "raw":
        return bytes(np.asarray(value))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(value, order="C"), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_bytes(column: Column, data: bytes | memoryview) -> Any:
    """Read `to_bytes` back without a copy: uint8 ``[length]`` if encoded, else the array.

    Of the ``.npy`` header only the length is read, bytes 8 and 9 of format 1.0: the column knows
    the rest, and to parse it takes twenty times as long as to make the array.
    """
    if column.encoding != "raw":
        return np.frombuffer(data, np.uint8)
    begin = 10 + int.from_bytes(data[8:10], "little")
    values = np.frombuffer(data, column.dtype, offset=begin)
    return values if column.shape is None else values.reshape(column.shape)
