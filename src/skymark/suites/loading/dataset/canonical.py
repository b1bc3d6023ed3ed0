"""The canonical form of a dataset: memory-mapped columns, the origin of every format.

On disk a dataset is a directory with ``meta.json`` and a file or two per column. ``NAME.npy`` holds
elements of one shape; ``NAME.values.npy`` with ``NAME.offsets.npy`` holds one 1-D array per
element, of any length. Only NumPy is needed to read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError

Array = npt.NDArray[Any]
Element = dict[str, Any]
"""One example: ``index`` (int) and one NumPy array per column; scalars are 0-D arrays."""

Encoding = Literal["raw", "bytes", "flac", "jpeg", "mp4", "utf8", "wav"]


@dataclass(frozen=True)
class Column:
    """Name, dtype, shape and encoding of one column.

    `shape` is the shape of one element, or None for a ragged column, whose elements are 1-D.
    `encoding` says what the bytes of a ragged uint8 column are; ``raw`` columns are plain arrays,
    and ``bytes`` are opaque.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    encoding: Encoding = "raw"

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Column:
        """Return the column that an entry of ``meta.json`` describes."""
        shape = described["shape"]
        return cls(**{**described, "shape": None if shape is None else tuple(shape)})

    @property
    def is_ragged(self) -> bool:
        """Whether elements of this column differ in length."""
        return self.shape is None


class Dataset:
    """A canonical dataset, opened for random access. Picklable: workers reopen it."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        meta = self._read_meta()
        self.columns = tuple(Column.read(described) for described in meta["columns"])
        self.length: int = meta["length"]
        self.name: str = meta["name"]
        self.image_kinds: frozenset[str] = frozenset(meta.get("images", ()))
        """Kinds of imported images (`skymark.image_formats.image_kind`)."""
        self._arrays: dict[str, Array] = {}
        self._offsets: dict[str, list[int]] = {}
        for column in self.columns:
            self._open(column)

    def _open(self, column: Column) -> None:
        if column.is_ragged:
            self._arrays[column.name] = self._map(f"{column.name}.values.npy")
            self._offsets[column.name] = self._map(f"{column.name}.offsets.npy").tolist()
        else:
            self._arrays[column.name] = self._map(f"{column.name}.npy")

    def _read_meta(self) -> dict[str, Any]:
        path = self.directory / "meta.json"
        try:
            meta: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.directory} is no skymark dataset ({error}); remove it and run again"
            ) from error
        return meta

    def _map(self, name: str) -> Array:
        array: Array = np.load(self.directory / name, mmap_mode="r", allow_pickle=False)
        return array

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Element:
        element: Element = {"index": index}
        for column in self.columns:
            array = self._arrays[column.name]
            if column.is_ragged:
                offsets = self._offsets[column.name]
                element[column.name] = array[offsets[index] : offsets[index + 1]]
            else:
                element[column.name] = array[index]
        return element

    def __iter__(self) -> Iterator[Element]:
        return (self[index] for index in range(self.length))

    def column(self, name: str) -> Array:
        """Return a whole fixed-shape column, memory-mapped: ``[length, *shape]``."""
        return self._arrays[name]

    def __reduce__(self) -> tuple[type[Dataset], tuple[Path]]:
        return (type(self), (self.directory,))


def write_dataset(
    directory: Path,
    name: str,
    columns: Mapping[str, Array | Iterable[Array]],
    encodings: Mapping[str, Encoding] | None = None,
) -> Dataset:
    """Write columns as a canonical dataset and open it.

    Args:
        directory: made if absent.
        name: readable name of the data.
        columns: an array ``[n, *shape]`` for a fixed-shape column, or n 1-D arrays of one dtype
            for a ragged column, written one by one, so that they need not fit into memory.
        encodings: encodings of ragged uint8 columns other than ``raw``.

    Raises:
        DataError: the columns differ in length, a ragged column has several dtypes, or there are no
            columns.
    """
    directory.mkdir(parents=True, exist_ok=True)
    described: list[Column] = []
    lengths: dict[str, int] = {}
    for column_name, values in columns.items():
        encoding: Encoding = (encodings or {}).get(column_name, "raw")
        if isinstance(values, np.ndarray):
            np.save(directory / f"{column_name}.npy", values, allow_pickle=False)
            described.append(Column(column_name, values.dtype.str, values.shape[1:], encoding))
            lengths[column_name] = len(values)
        else:
            dtype, offsets = _write_ragged(directory / f"{column_name}.values.npy", values)
            np.save(directory / f"{column_name}.offsets.npy", offsets, allow_pickle=False)
            described.append(Column(column_name, dtype.str, None, encoding))
            lengths[column_name] = len(offsets) - 1
    if len(set(lengths.values())) != 1:
        raise DataError(f"the columns of {name!r} must have one length, but have {lengths}")
    meta = {
        "name": name,
        "length": next(iter(lengths.values())),
        "columns": [asdict(column) for column in described],
    }
    (directory / "meta.json").write_text(json.dumps(meta, indent=1))
    return Dataset(directory)


def _write_ragged(path: Path, pieces: Iterable[Array]) -> tuple[np.dtype[Any], Array]:
    """Write 1-D arrays end to end as one ``.npy`` file; return their dtype and offsets."""
    dtype: np.dtype[Any] | None = None
    offsets = [0]
    with path.open("wb") as file:

        def write_header() -> None:
            # The header has room for any length, so that it can be written again at the end.
            shape = {"shape": (offsets[-1],), "fortran_order": False}
            descr = np.lib.format.dtype_to_descr(dtype or np.dtype(np.uint8))
            np.lib.format.write_array_header_1_0(file, {"descr": descr, **shape})

        for piece in pieces:
            if dtype is None:
                dtype = piece.dtype
                write_header()
            if piece.dtype != dtype or piece.ndim != 1:
                raise DataError(
                    f"element {len(offsets) - 1} of {path.name} is {piece.dtype} of "
                    f"{piece.ndim} dimensions, where 1-D arrays of {dtype} were begun"
                )
            file.write(np.ascontiguousarray(piece).data)
            offsets.append(offsets[-1] + len(piece))
        file.seek(0)
        write_header()
    return dtype or np.dtype(np.uint8), np.array(offsets, np.int64)
