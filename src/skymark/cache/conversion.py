"""Conversion of a data set: to sharded Parquet for streaming, or an Arrow directory.

Parquet is compressed and read in row groups, from any place in it: for streaming, for data larger
than the disk, and for any library. An Arrow directory is what ``load_from_disk`` maps into memory:
larger, read at once and at random, by `datasets` alone.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.request import urlopen

from skymark.cache.building import MB, build_once, explained_if_full
from skymark.cache.hub_files import fetched_from_hub
from skymark.cache.manifest import CONTENT, CacheManifest, digests_of, is_whole, write_manifest
from skymark.cache.recipe import Recipe
from skymark.cache.rows import batches, schema_of
from skymark.cache.sharing import using
from skymark.cache.sources import TIMEOUT_S, Source, changes, is_web, look_at
from skymark.model.errors import CacheError, DataError, UsageError

CONVERTED = "converted"
"""Folder of the cache's root that the entries lie in."""
GROUP_BYTES = 8 << 20
"""Of a row group in memory: what a stream must fetch before its first row, and holds per worker."""
SHARD_BYTES = 128 << 20
"""Of a shard in memory."""
LEAST_SHARDS = 8
"""Workers of a stream share whole shards out among them, so a small data set has some, too."""
LEAST_ROWS = 100
"""Of a shard."""

Form = Literal["parquet", "arrow"]

SAVE = """\
import json, sys
from datasets import load_dataset
call = json.loads(sys.argv[1])
found = load_dataset(call["kind"], data_files=call["data_files"], **call["options"])
found.save_to_disk(sys.argv[2])
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
        recipe: of the data set.
        stack: keeps the converted data from being removed until it is closed.
        form: to convert to.
        shards: files of each split; None for a number that fits its size.
        announce: told what is done.

    Raises:
        UsageError: it is of a kind that is not converted.
        DataError: it cannot be read.
        CacheError: it cannot be written, or changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    if recipe.kind not in {"json", "csv", "parquet"}:
        raise UsageError(
            f"{recipe.kind or 'what a command prepares'} is not converted: tar shards stream as "
            "they are; choose --cache-policy shared or prebuilt"
        )
    entry = converted_entry(root, recipe, form)
    stack.enter_context(using(entry, announce))

    def make(part: Path) -> None:
        announce(f"converting {recipe.data_set} to {form} in {entry}")
        content = part / CONTENT
        content.mkdir()
        with fetched_from_hub(recipe, part) as here:
            if form == "arrow":
                _save_arrow(here, content)
            else:
                for split in here.data_files:
                    _write_parquet(here, split, content, shards)
        if changed := changes(recipe.sources):
            raise CacheError(f"{changed[0]} while it was converted; convert it again")
        manifest = CacheManifest(
            data_set=recipe.data_set,
            fingerprint=recipe.fingerprint,
            policy="parquet",
            sources=recipe.sources,
            versions=_versions(),
            built_at=datetime.now(UTC),
            sealed=True,
            snippet=snippet_after(entry, form, tuple(recipe.data_files)),
            files=digests_of(content),
        )
        write_manifest(part, manifest)

    needed = None if recipe.source_bytes is None else 2 * recipe.source_bytes
    with explained_if_full(entry):
        build_once(entry, make, is_whole=is_whole, needed_bytes=needed, announce=announce)
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


def _write_parquet(recipe: Recipe, split: str, directory: Path, shards: int | None) -> None:
    """Write the rows of one split, in order, as shards; all but the last are of equal length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sources = [one for one in recipe.sources if one.split == split]
    assert recipe.kind is not None
    with _on_disk(sources) as files:
        schema = schema_of(files, recipe.kind, recipe.field)
        rows, held_bytes = 0, 0
        for batch in batches(files, recipe.kind, recipe.field):
            rows, held_bytes = rows + batch.num_rows, held_bytes + batch.nbytes
        count = shards or _shards_for(rows, held_bytes)
        group_rows = max(1, min(rows, rows * GROUP_BYTES // max(held_bytes, 1)))
        in_shard = math.ceil(rows / count)
        number, written = 0, 0
        waiting = schema.empty_table()
        for batch in batches(files, recipe.kind, recipe.field):
            waiting = pa.concat_tables([waiting, _fitted(batch, schema)])
            while waiting.num_rows >= in_shard or (
                waiting.num_rows and written + waiting.num_rows == rows
            ):
                path = directory / f"{split}-{number:05d}-of-{count:05d}.parquet"
                part = waiting.slice(0, in_shard)
                pq.write_table(part, path, row_group_size=min(group_rows, in_shard))
                waiting = waiting.slice(in_shard)
                number, written = number + 1, written + part.num_rows
    found = sum(pq.read_metadata(path).num_rows for path in directory.glob(f"{split}-*.parquet"))
    if found != rows:
        raise DataError(f"{found} of {rows} rows of {split} were written; is the source changing?")


def _fitted(batch: object, schema: object) -> object:
    """Return a batch as a table of a schema; columns that it lacks are null."""
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
        done = subprocess.run(
            [recipe.python, "-c", SAVE, json.dumps(recipe.call), str(directory)],
            env={**os.environ, "HF_DATASETS_CACHE": scratch},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if done.returncode:
        raise CacheError(f"`datasets` could not save {recipe.data_set}: {done.stderr[-500:]}")


@contextmanager
def _on_disk(sources: list[Source]) -> Iterator[list[Path]]:
    """Bring what is on the web to this disk for a while; each is read once."""
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for number, source in enumerate(sources):
            if not is_web(source.address):
                files.append(Path(source.address))
                continue
            file = Path(scratch) / f"{number}-{source.name}"
            with urlopen(source.address, timeout=TIMEOUT_S) as answer, file.open("wb") as out:  # noqa: S310
                shutil.copyfileobj(answer, out)
            if source.size_bytes not in {None, file.stat().st_size}:
                raise CacheError(
                    f"{file.stat().st_size / MB:,.1f} MB of {source.address} came, of "
                    f"{(source.size_bytes or 0) / MB:,.1f}; run again"
                )
            files.append(file)
        yield files


def _versions() -> dict[str, str]:
    import pyarrow as pa

    return {"pyarrow": pa.__version__}
