"""Recipes: how a library, or a command of the user's, builds the cache of a data set."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pydantic import Field

from skymark.cache.building import CachedFile, CacheManifest
from skymark.cache.location import folder_of
from skymark.cache.sources import KINDS, SourceFile, hub_file, kind_of, look_at_all, total_bytes
from skymark.machine.children import run_tied
from skymark.model.base import Frozen, digest_of
from skymark.model.errors import CacheError, UsageError

LOG_TAIL_LINES = 12
CHAIN = ("The above exception was", "During handling of the above")
"""Lines of Python between the tracebacks of a chain."""
LONGEST_NAME = 60
LIBRARIES = {"json": "datasets", "csv": "datasets", "parquet": "datasets", "tar": "webdataset"}
"""Library that reads a kind of data."""

ASK_VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
UNLOCKED = """\
import fcntl
fcntl.flock = lambda *_: None
"""
"""Beginning of a builder's program: its directory is its own, and not every file system locks."""
BUILD_LIMIT_S = 6 * 3600.0
"""Default limit on the time of a build."""
LOAD = {
    "datasets": f"""\
{UNLOCKED}
import json, sys
from datasets import load_dataset
call = json.loads(sys.argv[1])
load_dataset(call["kind"], data_files=call["data_files"], **call["options"])
""",
    "webdataset": """\
import json, os, sys
import webdataset
call = json.loads(sys.argv[1])
files = webdataset.WebDataset(
    call["urls"], shardshuffle=False, empty_check=False, cache_dir=os.environ["WDS_CACHE"]
)
for _ in files:
    pass
""",
}
"""Programs that let a library fill its own cache, called with JSON."""


class Recipe(Frozen):
    """A data set and the way its cache is built. Making a recipe uses no network."""

    sources: tuple[SourceFile, ...] = ()
    field: str | None = None
    """Key of a JSON file that holds the rows."""
    prepare: tuple[str, ...] = ()
    """A command of the user's that fills the caches which its variables name."""
    python: str = "python"
    """Interpreter that has the library."""
    limit_s: float = BUILD_LIMIT_S
    """Longest time of a build."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of the library."""

    @property
    def kind(self) -> str | None:
        """The kind of data; None for data that only the user's command reads."""
        return kind_of(self.sources) if self.sources else None

    @property
    def library(self) -> str | None:
        """The library for this kind of data; None without one."""
        return None if self.kind is None or self.prepare else LIBRARIES[self.kind]

    @property
    def data_set(self) -> str:
        """A name of the data set, fit for a file's name."""
        first = self.sources[0].name if self.sources else " ".join(self.prepare)
        if self.sources and (file := hub_file(self.sources[0].address)) is not None:
            return re.sub(r"[^A-Za-z0-9_-]+", "_", file[0])[:LONGEST_NAME]
        stem = re.sub(r"\.(tar|json|jsonl|ndjson|csv|tsv|parquet)$", "", first)
        more = f"-and-{len(self.sources) - 1}-more" if len(self.sources) > 1 else ""
        return re.sub(r"[^A-Za-z0-9_-]+", "_", f"{stem[:LONGEST_NAME]}{more}").strip("_") or "data"

    @property
    def folder(self) -> str:
        """The name of the folder for its shards."""
        return folder_of([source.address for source in self.sources])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 hex digest of sources, options and library versions."""
        sources = [[source.address, source.split, source.version] for source in self.sources]
        return digest_of([sources, self.field, list(self.prepare), self.versions])

    @property
    def name(self) -> str:
        """The name of the cache's directory."""
        return f"{self.data_set}-{self.fingerprint[:16]}"

    @property
    def known_bytes(self) -> int:
        """Total size of the sources with a known size."""
        return sum(source.size_bytes or 0 for source in self.sources)

    @property
    def source_bytes(self) -> int | None:
        """Total size of all sources; None if the size of any is unknown."""
        return total_bytes(self.sources)

    @property
    def call(self) -> dict[str, object]:
        """The arguments of the library's own call."""
        if self.library == "webdataset":
            return {"urls": [source.address for source in self.sources]}
        options = {} if self.field is None else {"field": self.field}
        return {"kind": self.kind, "data_files": self.data_files, "options": options}

    @property
    def data_files(self) -> dict[str, list[str]]:
        """The addresses by split."""
        files: dict[str, list[str]] = {}
        for source in self.sources:
            files.setdefault(source.split, []).append(source.address)
        return files

    @property
    def snippet(self) -> str:
        """The call that reads the data set, for the user's program."""
        if self.library is None:
            return ""
        if self.library == "webdataset":
            return f"webdataset.WebDataset({self.call['urls']!r}, shardshuffle=100)"
        field = "" if self.field is None else f", field={self.field!r}"
        return f"load_dataset({self.kind!r}, data_files={self.data_files!r}{field})"

    def manifest(
        self, files: dict[str, CachedFile], versions: dict[str, str], *, sealed: bool
    ) -> CacheManifest:
        """Return the manifest of a cache built just now.

        Args:
            files: of its content.
            versions: of the libraries that built it.
            sealed: whether nobody may write to it any more.
        """
        return CacheManifest(
            data_set=self.data_set,
            fingerprint=self.fingerprint,
            sources=self.sources,
            versions=versions,
            built_at=datetime.now(UTC),
            sealed=sealed,
            files=files,
        )

    def fill(self, variables: Mapping[str, str]) -> None:
        """Fill the caches named by variables, with the library or the user's command.

        Raises:
            CacheError: it failed; the message has the end of its output.
        """
        if self.prepare:
            command = list(self.prepare)
        else:
            assert self.library is not None
            command = [self.python, "-c", LOAD[self.library], json.dumps(self.call)]
        failure = f"the cache of {self.data_set} could not be built"
        run_builder(command, variables, failure, self.limit_s)


def recipe_of(
    sources: tuple[str, ...],
    *,
    field: str | None = None,
    prepare: tuple[str, ...] = (),
    python: str = "python",
    limit_s: float = BUILD_LIMIT_S,
    needs_library: bool = True,
    look: Callable[[str], tuple[SourceFile, ...]] = look_at_all,
) -> Recipe:
    """Inspect the sources and the library that reads them, and return the recipe.

    Args:
        sources: ``ADDRESS`` or ``SPLIT=ADDRESS``.
        field: key of the rows in a JSON file.
        prepare: a command that fills the caches, in place of the library's own call.
        python: interpreter with the library.
        limit_s: longest time of a build.
        needs_library: whether the library builds anything.
        look: function that inspects a source, which may have several files.

    Raises:
        UsageError: the kind of data is unknown, and there is no command.
        CacheError: a source, the interpreter or the library is missing.
    """
    if not sources and not prepare:
        raise UsageError("name the data set's files, or a command that fetches it with --prepare")
    looked = tuple(source for text in sources for source in look(text))
    recipe = Recipe(sources=looked, field=field, prepare=prepare, python=python, limit_s=limit_s)
    if prepare:
        if shutil.which(prepare[0]) is None:
            raise UsageError(f"--prepare {prepare[0]!r}: there is no such command")
        return recipe
    if recipe.kind is None:
        raise UsageError(
            f"{looked[0].address}: skymark knows {', '.join(sorted(KINDS))}; give --prepare, a "
            "command of your own that loads it"
        )
    if field is not None and recipe.kind != "json":
        raise UsageError(f"--field {field}: only JSON has one, and this is {recipe.kind}")
    if not needs_library:
        return recipe
    library = LIBRARIES[recipe.kind]
    version = version_of(library, python)
    return recipe.model_copy(update={"versions": {library: version}})


def version_of(library: str, python: str) -> str:
    """Return the version of a library in an interpreter's environment.

    Raises:
        CacheError: it has none, or cannot be started.
    """
    try:
        done = subprocess.run(
            [python, "-c", ASK_VERSION, library], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise CacheError(f"{python} cannot be started ({error.strerror}); give --python") from error
    if done.returncode:
        raise CacheError(
            f"{python} has no {library}, which builds the cache; give the interpreter that your "
            "program runs in with --python"
        )
    return done.stdout.strip()


def run_builder(
    command: Sequence[str], variables: Mapping[str, str], failure: str, limit_s: float
) -> None:
    """Run a program that builds a cache, and end it with this process.

    Args:
        command: the program with its arguments.
        variables: environment variables to add to this process's.
        failure: beginning of the message if it fails.
        limit_s: longest time of the program.

    Raises:
        CacheError: it failed or took too long; the message has the exceptions of a traceback, else
            the end of its output.
    """
    try:
        done = run_tied(command, {**os.environ, **variables}, limit_s=limit_s)
    except subprocess.TimeoutExpired as error:
        raise CacheError(
            f"{failure}: `{Path(command[0]).name}` was ended after {limit_s:g} s; give it "
            "more time with --build-limit"
        ) from error
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        causes = "\nbecause of ".join(exceptions_in(lines))
        told = causes or "\n".join(lines[-LOG_TAIL_LINES:])
        raise CacheError(
            f"{failure}: `{Path(command[0]).name}` ended with status {done.returncode}\n{told}"
        )


def exceptions_in(lines: Iterable[str]) -> list[str]:
    """Return the exceptions of Python's last chain of tracebacks, each one before its cause."""
    exceptions: list[list[str]] = []
    inside = after = False
    for line in lines:
        if line.startswith("Traceback (most recent call last):"):
            inside, after = True, False
        elif inside and not line.startswith(" "):
            exceptions.append([line])
            inside, after = False, True
        elif after and line and not line.startswith(CHAIN):
            exceptions[-1].append(line)  # a message of several lines
        else:
            after = after and bool(line)
    return ["\n".join(exception) for exception in reversed(exceptions)]
