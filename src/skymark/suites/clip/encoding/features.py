"""Image features on disk: computed once for a model, its preprocessing and the images.

A file is in the safetensors format, so other programs can take the embeddings: the tensor
``features`` (float32, a row per image in the data set's order), and the facts as metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.base import digest_of
from skymark.plain_files import write_whole
from skymark.suites.clip.features_store import SUFFIX, beginning_of

if TYPE_CHECKING:
    from skymark.suites.clip.pixels.preprocessing import Preprocessing
    from skymark.suites.clip.reading.opening import OpenedSplit
    from skymark.suites.clip.specification import ClipSpecification


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
