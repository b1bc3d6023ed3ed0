"""What a cell was scored on: counts and digests, and a sample of it to be looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skymark.model.base import digest_of
from skymark.suites.clip.pixels.pixel_map import PixelMap
from skymark.suites.clip.reading.opening import OpenedSplit


@dataclass(frozen=True)
class ScoredSplit:
    """Images of one split as they went through the encoder."""

    opened: OpenedSplit
    pixels: PixelMap
    features: Any
    """Float32 of shape (images, dimensions)."""

    @property
    def images_digest(self) -> str:
        """SHA-256 hex digest of the checksums of all pixels in order."""
        return digest_of(list(self.pixels.index.checksums))


@dataclass(frozen=True)
class Scored:
    """All that a cell was scored on."""

    splits: tuple[ScoredSplit, ...]
    texts: Sequence[str] = field(default_factory=list)
    """Prompts or captions in order; none for a linear probe."""
    text_features: Any = None

    @property
    def images(self) -> int:
        """The number of images of all splits."""
        return sum(len(one.features) for one in self.splits)

    @property
    def conditions(self) -> dict[str, str]:
        """Digests for the record; two records with equal ones are of the same images and texts."""
        found = {
            "images_digest": digest_of([one.images_digest for one in self.splits])[:16],
            "labels_digest": digest_of([one.opened.samples.labels_digest for one in self.splits])[
                :16
            ],
        }
        if self.texts:
            found["texts_digest"] = digest_of(list(self.texts))[:16]
        return found
