"""Verdict on a cell: checks of its images, labels, texts, activation and features.

The expected values come from the data set's own files and open_clip's own transform and encoders,
not from caches or shortened texts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skymark.model.base import digest_of
from skymark.model.record import Cause, Verification
from skymark.suites.clip.encoding.encoder import Encoder, captions_of
from skymark.suites.clip.encoding.loading import activations_of
from skymark.suites.clip.models.own_weights import QUICK, activation_in
from skymark.suites.clip.pixels.preprocessing import PixelMap, UndecodedPixels
from skymark.suites.clip.reading.opening import OpenedSplit, reread
from skymark.suites.clip.specification import CAPTIONING, ClipSpecification, Precision


@dataclass(frozen=True)
class ScoredSplit:
    """Images of one split, and their features."""

    opened: OpenedSplit
    pixels: PixelMap | UndecodedPixels
    features: Any
    """Float32 of shape (images, dimensions); for captioning, the captions written."""


@dataclass(frozen=True)
class Scored:
    """Images and texts of a scored cell."""

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
        """Digests for the record; equal digests mean the same images and texts."""
        contents = [one.opened.samples.content_digest for one in self.splits]
        found = {
            "elements_digest": digest_of(contents)[:16],
            "images_digest": digest_of([one.pixels.images_digest for one in self.splits])[:16],
            "labels_digest": digest_of([one.opened.samples.labels_digest for one in self.splits])[
                :16
            ],
        }
        if self.texts:
            found["texts_digest"] = digest_of(list(self.texts))[:16]
        return found


SAMPLE = 8
"""Images of each split whose pixels are compared."""
ENCODED = 2
"""Images and texts whose features are compared; each needs a pass through an encoder."""
TOLERANCES: dict[Precision, float] = {"fp32": 1e-4, "amp": 3e-2, "bf16": 3e-2, "fp16": 5e-3}
"""Largest difference of features of length 1. Seen: about half of it."""


class Refused(Exception):  # noqa: N818 -- a verdict, not an error
    """A finding that makes a cell invalid."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.cause = Cause(kind=kind, message=message)


def verify(
    specification: ClipSpecification,
    scored: Scored,
    encoder: Encoder,
    expected_texts: Sequence[str],
    seed: int,
    read_again: set[str],
) -> Verification:
    """Check a scored cell, and return the verdict.

    Args:
        specification: of the cell.
        scored: images and texts of the cell.
        encoder: that made the features.
        expected_texts: prompts or captions, from the data set's files.
        seed: of the sample.
        read_again: shards that were read again for earlier cells, and are not once more; gets
            this cell's.
    """
    generator = random.Random(seed)
    tolerance = TOLERANCES[specification.precision]
    compared = 0
    cause = None
    difference = 0.0
    try:
        check_activation(specification, encoder)
        for split in scored.splits:
            check_labels(split, generator, read_again)
            compared += check_pixels(split, encoder, generator)
            if specification.task == CAPTIONING:
                check_captions(split, encoder, generator)
            else:
                found = check_features(split, encoder, generator, tolerance)
                difference = max(difference, found)
        if expected_texts or scored.texts:
            check_texts(scored, expected_texts)
            if specification.task != CAPTIONING:
                found = check_text_features(scored, encoder, generator, tolerance)
                difference = max(difference, found)
    except Refused as refused:
        cause = refused.cause
    return Verification(
        passed=cause is None,
        cause=cause,
        verified_elements=sum(len(one.features) for one in scored.splits) + len(scored.texts),
        compared_elements=compared,
        counts={"texts": len(scored.texts)},
        fields=("image", "label", "text"),
        tolerance=tolerance,
        max_difference=difference,
    )


def check_activation(specification: ClipSpecification, encoder: Encoder) -> None:
    """Refuse a network without the activation of its weights' training."""
    import open_clip

    model = specification.model
    quick: bool | None = None
    if model.library == "open_clip" and model.weights.file is not None:
        told = activation_in(model)
        quick = None if told is None else told.quick
    elif model.weights.tag is not None:
        tagged = open_clip.get_pretrained_cfg(model.architecture, model.weights.tag)
        quick = bool(tagged.get("quick_gelu", False))
    found = activations_of(encoder.network)
    if quick is not None and quick != (found.get(QUICK, 0) > 0):
        raise Refused(
            "wrong-activation",
            f"{model.reference} ran with {found}, which its weights were not trained with",
        )


def check_labels(split: ScoredSplit, generator: random.Random, read_again: set[str]) -> None:
    """Read a random shard again, or a whole folder, and refuse other positions or labels."""
    opened, count = split.opened, len(split.features)
    if not count == len(split.pixels) == len(opened.samples):
        raise Refused(
            "missing-images",
            f"{count} images were scored, and {opened.source.name} has {len(opened.samples)}",
        )
    number = generator.randrange(len(opened.samples.files))
    key = f"{opened.identity} {number}"
    if key in read_again:
        return
    again, where = reread(opened, number)
    if again != where:
        raise Refused(
            "wrong-labels",
            f"{opened.samples.files[number].path} holds other images or labels than were scored",
        )
    read_again.add(key)


def check_pixels(split: ScoredSplit, encoder: Encoder, generator: random.Random) -> int:
    """Compare a sample of the encoder's input with open_clip's own transform, bit for bit."""
    import torch

    chosen = generator.sample(range(len(split.pixels)), min(SAMPLE, len(split.pixels)))
    for number in chosen:
        got, reference = _inputs(split, encoder, number)
        if not torch.equal(got, reference):
            raise Refused(
                "wrong-images",
                f"{split.opened.samples.name_of(number)} was scored with other pixels than "
                "open_clip's transform gives",
            )
    return len(chosen)


def check_features(
    split: ScoredSplit, encoder: Encoder, generator: random.Random, tolerance: float
) -> float:
    """Encode a few images again with open_clip alone; returns the largest difference."""
    import torch

    if not bool(torch.isfinite(split.features).all()):
        raise Refused("not-finite", "features of images are not finite; use another precision")
    chosen = generator.sample(range(len(split.pixels)), min(ENCODED, len(split.pixels)))
    tensors = torch.stack([_inputs(split, encoder, number)[1] for number in chosen])
    again = encoder.plain_image_features(tensors)
    return _checked("images", split.features[chosen], again, tolerance)


def check_captions(split: ScoredSplit, encoder: Encoder, generator: random.Random) -> None:
    """Write the captions of a random batch again from open_clip's own pixels.

    The batch is whole, because other sums of another batch could change a caption.
    """
    import torch

    sizes = encoder.work.image_batches
    batch = generator.randrange(len(sizes))
    begin = sum(sizes[:batch])
    numbers = range(begin, begin + sizes[batch])
    tensors = torch.stack([_inputs(split, encoder, number)[1] for number in numbers])
    again = captions_of(encoder.caption_tokens(tensors))
    for number, text in zip(numbers, again, strict=True):
        if split.features[number] != text:
            name = split.opened.samples.name_of(number)
            raise Refused(
                "wrong-captions",
                f"{name} was scored with the caption {split.features[number]!r}, and open_clip "
                f"writes {text!r}",
            )


def check_texts(scored: Scored, expected: Sequence[str]) -> None:
    """Refuse other prompts or captions than the data set has."""
    if list(scored.texts) != list(expected):
        raise Refused("wrong-texts", _text_difference(scored.texts, expected))


def check_text_features(
    scored: Scored, encoder: Encoder, generator: random.Random, tolerance: float
) -> float:
    """Encode a few texts again in full length; returns the largest difference."""
    import torch

    if not bool(torch.isfinite(scored.text_features).all()):
        raise Refused("not-finite", "features of texts are not finite; use another precision")
    chosen = generator.sample(range(len(scored.texts)), min(ENCODED, len(scored.texts)))
    again = encoder.plain_text_features([scored.texts[number] for number in chosen])
    return _checked("texts", scored.text_features[chosen], again, tolerance)


def _inputs(split: ScoredSplit, encoder: Encoder, number: int) -> tuple[Any, Any]:
    """Return the encoder's input for an image, and open_clip's own."""
    import torch

    samples = split.opened.samples
    pixels = torch.from_numpy(split.pixels.read(number, number + 1)).to(encoder.device)
    got = encoder.image_tensor(pixels)[0]
    reference = encoder.loaded.preprocessing.reference(
        samples.read(number), samples.name_of(number)
    )
    return got, reference.to(encoder.device, encoder.dtype)


def _checked(what: str, features: Any, again: Any, tolerance: float) -> float:
    import torch

    unit = torch.nn.functional.normalize
    difference = float((unit(features, dim=-1) - unit(again, dim=-1)).abs().max())
    if difference > tolerance:
        raise Refused(
            "wrong-features",
            f"features of {what} differ by {difference:.2g} from open_clip's own, and "
            f"{tolerance:.2g} is allowed",
        )
    return difference


def _text_difference(found: Sequence[str], expected: Sequence[str]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} texts were encoded, and the data set has {len(expected)}"
    one, other = next(pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1])
    return f"the text {one!r} was encoded, and the data set has {other!r}"
