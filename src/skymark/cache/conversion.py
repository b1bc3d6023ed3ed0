"""Conversion of a data set: to sharded Parquet for streaming, or an Arrow directory.

Parquet is compressed and read in row groups, from any position: for streaming, for data larger
than the disk, and for any library. ``load_from_disk`` of `datasets` maps an Arrow directory into
memory: it is larger, starts at once and reads at random, but only `datasets` reads it.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.request import urlopen

from skymark.cache.building import CONTENT, build_entry
from skymark.cache.recipe import UNLOCKED, Recipe, run_builder
from skymark.cache.sharing import unlocked, using
from skymark.cache.sources import (
    TIMEOUT_S,
    SourceFile,
    hub_file,
    is_local,
    look_at,
    reached,
    require_unchanged,
)
from skymark.model.errors import CacheError, DataError, UsageError
from skymark.model.sizes import size_text
from skymark.parquet_pages import largest_dictionary
from skymark.plain_files import LARGEST_FILE_BYTES

BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Survey:
    """The common schema and the size of the rows of several files."""

    schema: Any
    """Arrow schema that fits all rows; numbers are widened where needed."""
    rows: int
    held_bytes: int
    """In memory, as Arrow batches."""


def batches(files: Sequence[Path], kind: str, field: str | None) -> Iterator[Any]:
    """Yield the rows of files as record batches, in order.

    Raises:
        DataError: a file is not what its name says, or has no such field.
    """
    for file in files:
        try:
            yield from _batches_of(file, kind, field)
        except (ValueError, OSError, TypeError) as error:  # pyarrow's errors are ValueErrors, too
            raise DataError(f"{file} cannot be read as {kind}: {error}; mend it") from error


def survey(files: Sequence[Path], kind: str, field: str | None) -> Survey:
    """Read the rows of files once, and return their common schema and their size.

    Raises:
        DataError: they have no common types, or there are none.
    """
    import pyarrow as pa

    schema, rows, held_bytes = None, 0, 0
    for batch in batches(files, kind, field):
        own = batch.schema
        if schema is not None and own != schema:
            try:
                own = pa.unify_schemas([schema, own], promote_options="permissive")
            except pa.ArrowInvalid as error:
                raise DataError(f"{files[0]}: its rows have no common types ({error})") from error
        schema, rows, held_bytes = own, rows + batch.num_rows, held_bytes + batch.nbytes
    if not rows:
        raise DataError(f"{files[0]} has no rows")
    return Survey(schema, rows, held_bytes)


def _batches_of(file: Path, kind: str, field: str | None) -> Iterator[Any]:
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(file) as opened, file.open("rb") as pages:
            for number in range(opened.num_row_groups):
                each = largest_dictionary(opened.metadata, number, pages, None, LARGEST_FILE_BYTES)
                count = max(1, min(BATCH_ROWS, LARGEST_FILE_BYTES // max(1, each)))
                yield from opened.iter_batches(count, row_groups=[number])
    elif kind == "csv":
        from pyarrow import csv

        tabs = csv.ParseOptions(delimiter="\t" if file.suffix == ".tsv" else ",")
        with csv.open_csv(file, parse_options=tabs) as opened:
            yield from opened
    else:
        rows = _json_rows(file, field)
        while part := list(islice(rows, BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(part)


def _json_rows(file: Path, field: str | None) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file: one a line, a list of them, or those below a key."""
    if field is None:
        with file.open(encoding="utf-8") as opened:
            if _is_object(opened.readline()) and opened.readline().strip():
                opened.seek(0)
                yield from (json.loads(line) for line in opened if line.strip())
                return
    whole = json.loads(file.read_text("utf-8"))
    if field is not None:
        if not isinstance(whole, dict) or field not in whole:
            there = ", ".join(whole) if isinstance(whole, dict) else "none: it is a list"
            raise ValueError(f"it has no field {field!r}; it has {there}")
        whole = whole[field]
    if isinstance(whole, dict):
        keys = [key for key, value in whole.items() if _holds_rows(value)]
        if keys:
            raise ValueError(f"it is one object; name the key of its rows: --field {keys[0]}")
        whole = [whole]
    yield from whole


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


@contextmanager
def brought_here(recipe: Recipe, directory: Path) -> Iterator[Recipe]:
    """Bring the sources of a recipe to this disk for a while, and yield it with the copies.

    Each is read once. Files of the Hub come at the commit that was looked at, and not into the
    Hub's cache: what is made of them is kept, and they go.

    Args:
        recipe: of the data set; sources of this disk stay where they are.
        directory: on the disk that has room.

    Raises:
        DataError: one cannot be fetched.
        CacheError: one did not come whole.
    """
    if all(is_local(source) for source in recipe.sources):
        yield recipe
        return
    with tempfile.TemporaryDirectory(dir=directory, prefix=".fetched-") as scratch:
        numbered = enumerate(recipe.sources)
        sources = tuple(_brought(source, Path(scratch, str(number))) for number, source in numbered)
        yield recipe.model_copy(update={"sources": sources})


def _brought(source: SourceFile, folder: Path) -> SourceFile:
    if is_local(source):
        return source
    folder.mkdir()
    if (file := hub_file(source.address)) is not None:
        name, _, path = file
        with reached(source.address), unlocked(folder):
            from huggingface_hub import hf_hub_download

            place = hf_hub_download(
                name, path, repo_type="dataset", revision=source.version, local_dir=folder
            )
        return source.model_copy(update={"address": place})
    copy = folder / source.name
    with urlopen(source.address, timeout=TIMEOUT_S) as answer, copy.open("wb") as out:  # noqa: S310
        shutil.copyfileobj(answer, out)
    size_bytes = copy.stat().st_size
    if source.size_bytes not in {None, size_bytes}:
        raise CacheError(
            f"{size_text(size_bytes)} of {source.address} came, of "
            f"{size_text(source.size_bytes or 0)}; run again"
        )
    return source.model_copy(update={"address": str(copy)})


CONVERTED = "converted"
"""Folder of the entries below the cache's root."""
GROWTH = 2.0
"""Most disk space of a conversion, as a multiple of the size of its sources."""
HUB_GROWTH = 3.0
"""Like `GROWTH`, for files of the Hub: the download, the file that is read, and the result.
Assumed, not measured: each is as large as the sources."""
GROUP_BYTES = 8 << 20
"""Size of a row group in memory: a stream fetches one before its first row, and holds one per
worker."""
SHARD_BYTES = 128 << 20
"""Size of a shard in memory."""
LEAST_SHARDS = 8
"""Workers of a stream divide whole shards among them, so a small data set also has several."""
LEAST_ROWS = 100
"""Rows of the smallest shard."""

Form = Literal["parquet", "arrow"]

SAVE = f"""\
{UNLOCKED}
import json, sys
from datasets import load_dataset
call = json.loads(sys.argv[1])
data_set = load_dataset(call["kind"], data_files=call["data_files"], **call["options"])
data_set.save_to_disk(sys.argv[2])
"""


def converted_entry(root: Path, recipe: Recipe, form: Form = "parquet") -> Path:
    """Return the directory of a converted data set, there or not."""
    plain = recipe.model_copy(update={"versions": {}, "python": "python"})
    return root.resolve() / CONVERTED / f"{plain.name}-{form}"


def convert(
    root: Path,
    recipe: Recipe,
    stack: ExitStack,
    *,
    form: Form = "parquet",
    shards: int | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Convert a data set, if no process has, and return the directory of its files.

    Args:
        root: directory of the caches.
        recipe: recipe of the data set.
        stack: protects the converted data from removal until it is closed.
        form: file format of the result.
        shards: files of each split; None for a number that fits its size.
        announce: callback for messages about progress.

    Raises:
        UsageError: skymark does not convert data of this kind.
        DataError: the data set cannot be read.
        CacheError: it cannot be written, or changed meanwhile.
        StorageFullError: the disk has too little free space.
    """
    if recipe.kind not in {"json", "csv", "parquet"}:
        raise UsageError(
            f"skymark does not convert {recipe.kind or 'command-prepared'} data (tar shards stream "
            "as they are); choose --cache-policy shared or prebuilt"
        )
    entry = converted_entry(root, recipe, form)
    stack.enter_context(using(entry, announce))

    def fill(content: Path) -> None:
        announce(f"converting {recipe.data_set} to {form} in {entry}")
        with brought_here(recipe, content.parent) as here:
            if form == "arrow":
                _save_arrow(here, content)
            else:
                for split in here.data_files:
                    _write_parquet(here, split, content, shards, announce)
        require_unchanged(recipe.sources)

    described = partial(recipe.manifest, versions={"pyarrow": version("pyarrow")}, sealed=True)
    of_hub = any(hub_file(source.address) is not None for source in recipe.sources)
    needed_bytes = int((HUB_GROWTH if of_hub else GROWTH) * recipe.known_bytes)
    build_entry(entry, fill, described, needed_bytes=needed_bytes, announce=announce)
    return entry / CONTENT


def converted_recipe(recipe: Recipe, directory: Path) -> Recipe:
    """Return the recipe of a converted data set."""
    sources = tuple(
        look_at(f"{split}={path}")
        for split in recipe.data_files
        for path in sorted(directory.glob(f"{split}-*.parquet"))
    )
    return recipe.model_copy(update={"sources": sources, "field": None})


def snippet_after(entry: Path, form: Form, splits: Sequence[str]) -> str:
    """Return the call that reads the splits of a converted data set."""
    place = entry / CONTENT
    if form == "arrow":
        return f"load_from_disk({str(place)!r})"
    files = {split: str(place / f"{split}-*.parquet") for split in splits}
    return f"load_dataset('parquet', data_files={files!r}, streaming=True)"


def _write_parquet(
    recipe: Recipe,
    split: str,
    directory: Path,
    shards: int | None,
    announce: Callable[[str], None],
) -> None:
    """Write the rows of one split, in order, as shards whose lengths differ by one at most.

    No shard is empty: with fewer rows than shards, each row is a shard. PyArrow's `write_dataset`
    fills one file after another, so it cannot divide rows evenly.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [Path(address) for address in recipe.data_files[split]]
    assert recipe.kind is not None
    surveyed = survey(files, recipe.kind, recipe.field)
    schema, rows = surveyed.schema, surveyed.rows
    count = min(rows, shards or _shards_for(rows, surveyed.held_bytes))
    if shards is not None and count < shards:
        announce(f"{split} has {rows} rows: {count} files in place of {shards}")
    group_rows = max(1, min(rows, rows * GROUP_BYTES // max(surveyed.held_bytes, 1)))
    ends = [rows * number // count for number in range(count + 1)]
    digits = max(5, len(str(count)))  # as many in every name, so that names sort as shards do
    number = 0
    waiting = schema.empty_table()
    for batch in batches(files, recipe.kind, recipe.field):
        waiting = pa.concat_tables([waiting, _fitted(batch, schema)])
        while number < count and waiting.num_rows >= (length := ends[number + 1] - ends[number]):
            path = directory / f"{split}-{number:0{digits}d}-of-{count:0{digits}d}.parquet"
            pq.write_table(waiting.slice(0, length), path, row_group_size=group_rows)
            waiting, number = waiting.slice(length), number + 1
    there = sum(pq.read_metadata(path).num_rows for path in directory.glob(f"{split}-*.parquet"))
    if there != rows:
        raise DataError(f"{there} of {rows} rows of {split} were written; is the source changing?")


def _fitted(batch: object, schema: object) -> object:
    """Return a batch as a table of a schema; missing columns are null."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch])
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema  # type: ignore[attr-defined]
    ]
    return pa.table(columns, schema=schema)


def _shards_for(rows: int, held_bytes: int) -> int:
    by_size = math.ceil(held_bytes / SHARD_BYTES)
    return max(1, by_size, min(LEAST_SHARDS, rows // LEAST_ROWS))


def _save_arrow(recipe: Recipe, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        run_builder(
            [recipe.python, "-c", SAVE, json.dumps(recipe.call), str(directory)],
            {"HF_DATASETS_CACHE": scratch},
            f"`datasets` could not save {recipe.data_set}",
            recipe.limit_s,
        )
