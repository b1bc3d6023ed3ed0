"""Files of the Hub brought to this disk, each once, for as long as they are converted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.cache.file_locks import unlocked
from skymark.cache.hub import reached
from skymark.cache.recipe import Recipe
from skymark.cache.sources import Source, hub_file


@contextmanager
def fetched_from_hub(recipe: Recipe, directory: Path) -> Iterator[Recipe]:
    """Fetch the files of a recipe that are on the Hub, and yield it with their copies as sources.

    They are fetched at the commit that was looked at, and not into the Hub's cache: what is made of
    them is kept, and they go.

    Args:
        recipe: whose other sources stay as they are.
        directory: on the disk that has room.

    Raises:
        DataError: one cannot be fetched.
    """
    if all(hub_file(one.address) is None for one in recipe.sources):
        yield recipe
        return
    with tempfile.TemporaryDirectory(dir=directory, prefix=".hub-") as scratch:
        sources = tuple(_fetched(one, Path(scratch)) for one in recipe.sources)
        yield recipe.model_copy(update={"sources": sources})


def _fetched(source: Source, scratch: Path) -> Source:
    file = hub_file(source.address)
    if file is None:
        return source
    name, _, path = file
    with reached(source.address), unlocked(scratch):
        from huggingface_hub import hf_hub_download

        place = hf_hub_download(
            name, path, repo_type="dataset", revision=source.version, local_dir=scratch / name
        )
    return source.model_copy(update={"address": place})
