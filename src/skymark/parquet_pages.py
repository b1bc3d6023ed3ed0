"""Sizes of the pages of a Parquet file, by their headers, before a reader decompresses one.

A page is decompressed as a whole, so that a file of some kilobytes can take gigabytes. PyArrow
shows sizes of whole column chunks only, as the file itself claims them. The headers are Thrift's
compact protocol (https://github.com/apache/parquet-format, ``parquet.thrift``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, NamedTuple

from skymark.model.errors import DataError
from skymark.model.sizes import size_text

HEADER_BYTES = (1 << 12, 1 << 20)
"""Read of a header: most are far smaller, and one with statistics may be larger."""
VALUE_BYTES = 8
"""Of a number in memory; runs of one number take next to nothing in a page."""
DICTIONARY = 2
BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, STRUCT = {1, 2}, 3, {4, 5, 6}, 7, 8, 12
"""Types of a field in the compact protocol; no header has a list or a map."""
DEEPEST = 4
"""Structs in one another: a header, its kind, the statistics."""


class Page(NamedTuple):
    """The header of a page."""

    kind: int
    size_bytes: int
    """Decompressed."""
    stored_bytes: int
    values: int


def largest_dictionary(
    metadata: Any, group: int, file: BinaryIO, columns: Collection[str] | None, largest_bytes: int
) -> int:
    """Return the size of the largest dictionary of a row group, of which each row may take all.

    Args:
        metadata: of PyArrow.
        group: its number.
        file: the Parquet file.
        columns: that are to be read; None for all.
        largest_bytes: of a page, decompressed.

    Raises:
        DataError: a page is larger, or its header cannot be read.
    """
    found, rows = 0, metadata.row_group(group)
    for number in range(rows.num_columns):
        chunk, path = rows.column(number), metadata.schema.column(number).path
        name = path.partition(".")[0]
        if columns is not None and path not in columns and name not in columns:
            continue
        is_list = metadata.schema.column(number).max_repetition_level > 0
        try:
            pages = list(_pages(chunk, file))
        except (IndexError, ValueError) as error:
            raise DataError(f"column {path!r} has a damaged page; copy the file again") from error
        for page in pages:
            held = page.values * VALUE_BYTES if is_list else 0
            if page.size_bytes < 0 or max(page.size_bytes, held) > largest_bytes:
                raise DataError(
                    f"column {path!r} has a page of {size_text(max(page.size_bytes, held))}, "
                    f"decompressed, and {size_text(largest_bytes)} are the most; write it with "
                    "smaller pages, or remove the value"
                )
            if page.kind == DICTIONARY:
                found = max(found, page.size_bytes)
    return found


def _pages(chunk: Any, file: BinaryIO) -> Iterator[Page]:
    """Yield the pages of a column chunk, in the order that a reader takes them."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < at:
        at = chunk.dictionary_page_offset
    end, left = at + chunk.total_compressed_size, chunk.num_values
    while at < end and left > 0:
        page, length = _page_at(file, at)
        yield page
        at += length + max(0, page.stored_bytes)
        if page.kind != DICTIONARY:
            left -= page.values


def _page_at(file: BinaryIO, at: int) -> tuple[Page, int]:
    for size in HEADER_BYTES:
        file.seek(at)
        data = file.read(size)
        try:
            fields, length = _struct(data, 0)
            break
        except IndexError:
            if len(data) < size or size == HEADER_BYTES[-1]:
                raise
    of_kind: dict[int, Any] = next((fields[one] for one in (5, 7, 8) if one in fields), {})
    try:
        return Page(fields[1], fields[2], fields[3], of_kind.get(1, 0)), length
    except (KeyError, AttributeError) as error:
        raise ValueError("it is no page") from error


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct; returns its fields by number and the position behind it."""
    if depth > DEEPEST:
        raise ValueError("it is no page")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        fields[number], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in BOOLEANS:
        return kind == 1, at
    if kind in INTEGERS:
        return _integer(data, at)
    if kind == BINARY:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise IndexError
        return None, at + length
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in {BYTE, DOUBLE}:
        return None, at + (1 if kind == BYTE else 8)
    raise ValueError("it is no page")


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("it is no page")
