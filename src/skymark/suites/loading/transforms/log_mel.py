"""Stages of log-mel spectrograms, with the mistakes in them that the oracle knows."""

from __future__ import annotations

from functools import partial

import numpy as np

from skymark.suites.loading.scenario import Stage
from skymark.suites.loading.transforms import audio
from skymark.suites.loading.transforms.field import on

WRONG_BANDS = (40, 64, 128)
"""Other usual numbers of mel bands."""


def log_mel_stages(field: str) -> tuple[Stage, ...]:
    """Return the stages from samples to decibels / 10: spectrogram, mel bands, logarithm.

    Args:
        field: holds the samples ``[n]``, and the bands ``[BANDS, frames]`` afterwards.
    """
    natural = on(field, lambda bands: audio.log_power(bands) * np.float32(np.log(10)))
    fewer = {
        f"{count} bands, not {audio.BANDS}": on(field, partial(audio.few_bands, bands=count))
        for count in WRONG_BANDS
    }
    return (
        Stage("spectrogram", on(field, audio.power_spectrogram)),
        Stage(
            "mel",
            on(field, audio.mel_bands),
            {"the HTK scale, not Slaney's": on(field, audio.htk_bands), **fewer},
        ),
        Stage(
            "log",
            on(field, audio.log_power),
            {"the natural logarithm, not the decimal one": natural},
        ),
    )
