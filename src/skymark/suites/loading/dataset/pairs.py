"""Synthetic pairs: photographs with captions, speech-like sounds with transcripts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.images import photographs
from skymark.suites.loading.dataset.sounds import speech_like


def _words(text: str) -> list[str]:
    return text.split()


ADJECTIVES = _words(
    "small large young old red green blue yellow white black brown wooden metal bright dark quiet "
    "crowded empty wet dry snowy sunny cloudy tall short narrow wide busy calm colorful striped "
    "spotted shiny rusty broken modern antique fresh sliced frozen"
)
NOUNS = _words(
    "man woman child boy girl group dog cat horse elephant bird sheep cow zebra giraffe bear bus "
    "train truck car bicycle motorcycle airplane boat street road field beach mountain river lake "
    "forest park garden kitchen table chair couch bed window door mirror clock lamp plate bowl "
    "pizza sandwich cake apple banana orange bottle cup glass knife fork spoon phone laptop book "
    "umbrella backpack skateboard surfboard snowboard frisbee kite ball racket bench fence sign"
)
VERBS = _words(
    "standing sitting walking running riding holding looking lying flying eating playing waiting "
    "jumping carrying reading talking sleeping climbing driving crossing"
)
PLACES = _words("near on under behind beside above across inside between against")
WORDS = tuple(dict.fromkeys(["a", "the", "and", "with", *ADJECTIVES, *NOUNS, *VERBS, *PLACES]))


def caption(random: np.random.Generator) -> str:
    """Write one caption of about ten words, as those of COCO have."""

    def thing() -> str:
        article = ("a", "the")[int(random.integers(2))]
        described = f"{random.choice(ADJECTIVES)} " if random.random() < 0.6 else ""
        return f"{article} {described}{random.choice(NOUNS)}"

    text = f"{thing()} {random.choice(VERBS)} {random.choice(PLACES)} {thing()}"
    while random.random() < 0.35 and len(text) < 100:
        text += f" and {thing()} {random.choice(PLACES)} {thing()}"
    return f"{text[0].upper()}{text[1:]}."


def captions(random: np.random.Generator, count: int) -> list[npt.NDArray[np.uint8]]:
    """Write captions, each the UTF-8 bytes uint8 ``[length]``."""
    return [np.frombuffer(caption(random).encode(), np.uint8) for _ in range(count)]


GENERATOR_SEED = 20_240_619


def write_image_text(directory: Path, elements: int, height: int, width: int) -> Dataset:
    """Write columns ``jpeg`` and ``caption``, both ragged uint8, the caption in UTF-8."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    files, _, _ = photographs(random, elements, height, width)
    return write_dataset(
        directory,
        "photographs with captions",
        {"jpeg": files, "caption": captions(random, elements)},
        {"jpeg": "jpeg", "caption": "utf8"},
    )


def write_audio_text(directory: Path, elements: int, seconds: float) -> Dataset:
    """Write columns ``wav`` and ``transcript``, both ragged uint8.

    A sound lasts from half of `seconds` to all of it.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    lengths = random.uniform(0.5 * seconds, seconds, elements)
    return write_dataset(
        directory,
        "sounds with transcripts",
        {
            "wav": [speech_like(random, float(length)) for length in lengths],
            "transcript": captions(random, elements),
        },
        {"wav": "wav", "transcript": "utf8"},
    )
