"""MM-2: audio–text pairs as speech models are trained on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset


@scenario
class AudioTextPairs(Scenario):
    """Turn sounds into log-mel spectrograms and tokenise their transcripts.

    ``mel`` float32 ``[80, T]``, one column per 10 ms, and ``text`` int32 ``[77]``.
    """

    id: ClassVar = "MM-2"
    title: ClassVar = "audio–text pairs: log-mel spectrogram, tokens"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=410, batch_size=8, values={"seconds": 2.0}),
        "medium": Size(elements=2_096, batch_size=32, values={"seconds": 10.0}),
        "large": Size(elements=10_000, batch_size=64, values={"seconds": 10.0}),
    }
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    in_double: ClassVar = True
    version: ClassVar = 2

    @property
    def columns(self) -> tuple[str, ...]:
        """A sound and its transcript."""
        return ("wav", "transcript")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``wav`` (PCM, 16 bits, 16 kHz) and ``transcript`` (UTF-8), ragged uint8."""
        from skymark.suites.loading.dataset.pairs import write_audio_text

        return write_audio_text(directory, self.size.elements, self.size["seconds"])

    def stages(self) -> tuple[Stage, ...]:
        """Decode; fit to length; power spectrogram; mel bands; logarithm; tokenise."""
        from skymark.suites.loading.transforms import audio
        from skymark.suites.loading.transforms.field import on
        from skymark.suites.loading.transforms.log_mel import log_mel_stages
        from skymark.suites.loading.transforms.text import tokenise_bytes

        length = int(self.size["seconds"] * audio.SAMPLE_RATE)
        in_front = on("mel", lambda samples: audio.fit_behind(samples, length))
        bare = on("transcript", lambda data: tokenise_bytes(data, delimited=False), into="text")
        return (
            Stage("decode", on("wav", audio.decode_wav, into="mel")),
            Stage(
                "fit",
                on("mel", lambda samples: audio.fit(samples, length)),
                {"silence is padded in front, not behind": in_front},
            ),
            *log_mel_stages("mel"),
            Stage(
                "tokenise",
                on("transcript", tokenise_bytes, into="text"),
                {"start and end tokens are missing": bare},
            ),
        )
