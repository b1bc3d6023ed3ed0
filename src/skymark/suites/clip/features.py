"""Image features on disk, computed once for a model, its preprocessing and the images.

A file is in the safetensors format, so other programs can take the embeddings: the tensor
``features`` (float32, a row per image in the data set's order), and the facts as metadata. Workers
have no keys of a bucket: they read and write a directory of the cache. Features in a bucket are
fetched before workers start, and stored when they have ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.base import digest_of
from skymark.model.errors import StoreError, UsageError
from skymark.model.record import Cell
from skymark.plain_files import write_whole
from skymark.suites.clip.reading.fetching import splits_of
from skymark.suites.clip.reading.opening import slug_of
from skymark.suites.clip.specification import ClipSpecification

if TYPE_CHECKING:
    from skymark.store.kinds import Store
    from skymark.suites.clip.pixels.preprocessing import Preprocessing
    from skymark.suites.clip.reading.opening import OpenedSplit

ADDRESS = "://"
SUFFIX = ".safetensors"
UNSAFE = re.compile(r"[^\w.+-]")


def checked_address(address: str) -> str:
    """Return the address of a bucket or a mounted directory for features.

    Raises:
        UsageError: it names no such store.
    """
    from skymark.store.kinds import kind_of  # workers have no clients of stores

    if not kind_of(address).address.startswith(("s3://", "file://")):
        raise UsageError(f"--features {address}: give a directory or s3://BUCKET/PREFIX")
    if not address.rstrip("/").partition(ADDRESS)[2].partition("/")[2]:
        raise UsageError(f"--features {address} needs a prefix, such as {address}/features")
    return address.rstrip("/")


def features_directory(place: str, cache: Path) -> Path:
    """Return the directory that workers read and write: the user's own, or one of the cache."""
    if ADDRESS not in place:
        return Path(place)
    return cache / "clip" / "features" / digest_of(place)[:16]


def beginning_of(slug: str, model: str) -> str:
    """Return the beginning of the names of files with a split's features of a model.

    Args:
        slug: of the split.
        model: name of the architecture.
    """
    return f"{slug}.{UNSAFE.sub('_', model)[:100]}."


def fetch_features(cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
    """Fetch the features that cells may use, from all their stores.

    Raises:
        StoreError: a store cannot be read.
    """
    for place, beginnings in _by_place(cells).items():
        directory = features_directory(place, cache)
        with closing(_store(place)) as store:
            for name, size in store.sizes().items():
                file = directory / name
                is_whole = file.exists() and file.stat().st_size == size
                if name.startswith(beginnings) and name.endswith(SUFFIX) and not is_whole:
                    announce(f"fetching {place}/{name}")
                    directory.mkdir(parents=True, exist_ok=True)
                    write_whole(file, store.get(name), durable=False)


def store_features(cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
    """Store new features of cells; a store that takes none is said, and stops nothing."""
    for place, beginnings in _by_place(cells).items():
        directory = features_directory(place, cache)
        try:
            with closing(_store(place)) as store:
                known = store.sizes()
                for file in sorted(directory.glob(f"*{SUFFIX}")):
                    is_new = known.get(file.name) != file.stat().st_size
                    if file.name.startswith(beginnings) and is_new:
                        store.put(file.name, file.read_bytes())
        except (StoreError, OSError) as error:
            announce(f"features in {directory} are not stored in {place}: {error}")


def _by_place(cells: Iterable[Cell]) -> dict[str, tuple[str, ...]]:
    """Return the beginnings of the names of cells' features, by the address of their store."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.reuse is not None and ADDRESS in cell.reuse:
            one = ClipSpecification.of(cell)
            for split in splits_of(one):
                name = beginning_of(slug_of(one.source, split), one.model.architecture)
                found.setdefault(cell.reuse, {})[name] = None
    return {place: tuple(names) for place, names in found.items()}


def _store(place: str) -> Store:
    from skymark.store.kinds import open_store

    address, _, name = place.rpartition("/")
    return open_store(address, name)


@dataclass(frozen=True)
class FeatureFacts:
    """Facts that decide the features of a split; features of other facts are never used."""

    weights: str
    """Digest of the weights."""
    model: str
    """Digest of the architecture and its options."""
    preprocessing: str
    """Digest of the whole preprocessing, normalisation included."""
    images: str
    """Digest of the encoded images in order."""
    precision: str
    settings: str
    """Other settings of the encoder."""
    libraries: str

    @classmethod
    def of(
        cls,
        specification: ClipSpecification,
        weights_digest: str,
        preprocessing: Preprocessing,
        opened: OpenedSplit,
    ) -> FeatureFacts:
        """Return the facts of a split for a cell's model."""
        from skymark.suites.clip.pixels.preprocessing import library_version

        model = specification.model
        own = [model.library, model.architecture, model.pixels.given]
        configuration = None if model.configuration is None else model.configuration.sha256
        libraries = ("torch", "open_clip_torch", "transformers")
        return cls(
            weights=weights_digest,
            model=digest_of([*own, configuration, specification.work_version])[:16],
            preprocessing=digest_of([preprocessing.key, preprocessing.normalisation])[:16],
            images=opened.samples.content_digest,
            precision=specification.precision,
            settings=f"compile={specification.compile} channels_last={specification.channels_last}",
            libraries=" ".join(f"{name}={library_version(name)}" for name in libraries),
        )

    @property
    def key(self) -> str:
        """Digest of all facts, for a file's name."""
        return digest_of(asdict(self))[:16]


@dataclass(frozen=True)
class StoredFeatures:
    """Features of a split from disk."""

    features: Any
    """Float32 of shape (images, dimensions)."""
    images_digest: str
    """Of the pixels that were encoded."""


class FeatureStore:
    """A directory of features, which several runs and machines may share."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say

    def get(self, facts: FeatureFacts, opened: OpenedSplit, model: str) -> StoredFeatures | None:
        """Return stored features; None if there are none, which are damaged or of other facts."""
        file = self._file(facts, opened, model)
        if not file.is_file():
            self._name_others(facts, file)
            return None
        try:
            found = _read(file, facts, len(opened.samples))
        except (OSError, ValueError) as error:
            self._say(f"features in {file} are not used: {error}; they are computed anew")
            return None
        self._say(f"features of {opened.slug} are taken from {file}")
        return found

    def put(
        self,
        facts: FeatureFacts,
        opened: OpenedSplit,
        model: str,
        features: StoredFeatures,
    ) -> None:
        """Keep features; a full or read-only disk is said, and stops nothing."""
        from safetensors.torch import save  # type: ignore[import-not-found,unused-ignore]

        tensor = features.features.contiguous()
        metadata = {**asdict(facts), "images_digest": features.images_digest}
        metadata["content"] = _digest_of(tensor)
        file = self._file(facts, opened, model)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, save({"features": tensor}, metadata), durable=False)
        except OSError as error:
            self._say(f"features are not kept in {file}: {error.strerror or error}")

    def _file(self, facts: FeatureFacts, opened: OpenedSplit, model: str) -> Path:
        return self._directory / f"{beginning_of(opened.slug, model)}{facts.key}{SUFFIX}"

    def _name_others(self, facts: FeatureFacts, file: Path) -> None:
        """Say which features of the same data set and model are left aside, and why."""
        prefix = file.name.removesuffix(f"{facts.key}{SUFFIX}")
        for other in sorted(self._directory.glob(f"*{SUFFIX}")):
            if other.name.startswith(prefix):
                try:
                    fault = ", ".join(_differing(_metadata(other), facts))
                except (OSError, ValueError) as error:
                    fault = str(error)
                self._say(f"features in {other} are not used: {fault}")


def _metadata(file: Path) -> dict[str, str]:
    from safetensors import (  # type: ignore[import-not-found,unused-ignore]
        SafetensorError,
        safe_open,
    )

    try:
        with safe_open(file, "pt") as opened:
            return dict(opened.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"they are damaged ({error})") from error


def _differing(metadata: dict[str, str], facts: FeatureFacts) -> list[str]:
    """Return the facts that differ, in words."""
    return [
        f"they have another {name} ({metadata.get(name, 'unknown')})"
        for name, value in asdict(facts).items()
        if metadata.get(name) != value
    ]


def _read(file: Path, facts: FeatureFacts, images: int) -> StoredFeatures:
    """Return the features of a file.

    Raises:
        OSError: it may not be read.
        ValueError: it is damaged, or of other facts.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    metadata = _metadata(file)
    if differing := _differing(metadata, facts):
        raise ValueError(", ".join(differing))
    try:
        tensor = load_file(file)["features"]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"they are damaged ({error})") from error
    if len(tensor) != images or _digest_of(tensor) != metadata.get("content"):
        raise ValueError("they are damaged: the content has another digest")
    return StoredFeatures(tensor, metadata.get("images_digest", ""))


def _digest_of(tensor: Any) -> str:
    """Return the BLAKE2b digest (RFC 7693) of a tensor's shape and values, as hex."""
    digest = blake2b(str((tuple(tensor.shape), str(tensor.dtype))).encode(), digest_size=16)
    digest.update(tensor.numpy().data)
    return digest.hexdigest()
