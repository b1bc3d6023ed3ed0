"""FLAC files decode to what was encoded, and stretches lie where they were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sounds import flac_bytes, speech
from skymark.suites.loading.transforms.audio import (
    HOP,
    decode_flac,
    stretch,
    stretch_from_hop,
    unscaled_flac,
)

SAMPLES = speech(np.random.default_rng(1), 1.5)
RAMP = np.arange(1_000, dtype=np.float32)


def test_flac_loses_nothing_and_takes_less_than_the_samples() -> None:
    file = flac_bytes(SAMPLES)
    assert np.array_equal(decode_flac(file), SAMPLES / np.float32(32768))
    assert len(file) < 0.8 * SAMPLES.nbytes


def test_unscaled_samples_are_those_of_16_bits() -> None:
    assert np.array_equal(unscaled_flac(flac_bytes(SAMPLES)), SAMPLES.astype(np.float32))


@pytest.mark.parametrize("cut", [0, 4, 30])
def test_a_file_that_ends_in_its_header_is_refused(cut: int) -> None:
    with pytest.raises(DataError, match="FLAC"):
        decode_flac(flac_bytes(SAMPLES)[:cut])


def test_a_truncated_file_is_refused() -> None:
    file = flac_bytes(SAMPLES)
    with pytest.raises(DataError, match="no whole FLAC"):
        decode_flac(file[: len(file) // 2])


def test_a_file_of_another_rate_is_refused() -> None:
    with pytest.raises(DataError, match="8000"):
        decode_flac(flac_bytes(SAMPLES, sample_rate=8_000))


def test_a_stretch_begins_at_the_drawn_sample() -> None:
    assert stretch(RAMP, 0.5, 100).tolist() == RAMP[450:550].tolist()
    assert stretch(RAMP, 0.5, 100, later=1).tolist() == RAMP[451:551].tolist()
    assert stretch_from_hop(RAMP, 0.5, 100)[0] == 450 // HOP * HOP


@pytest.mark.parametrize(("share", "later"), [(0.0, -1), (0.9999, 1)])
def test_a_stretch_stays_within_the_sound(share: float, later: int) -> None:
    assert np.array_equal(stretch(RAMP, share, 100, later), stretch(RAMP, share, 100))


def test_a_sound_that_is_too_short_is_followed_by_silence() -> None:
    assert stretch(RAMP[:3] + 1, 0.7, 5).tolist() == [1, 2, 3, 0, 0]
