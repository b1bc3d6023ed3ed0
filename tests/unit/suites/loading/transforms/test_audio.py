"""Log-mel spectrograms of sounds whose spectrum is known."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sounds import speech_like, wav_bytes
from skymark.suites.loading.transforms.audio import (
    BANDS,
    FRAME,
    SAMPLE_RATE,
    decode_wav,
    filters,
    fit,
    fit_behind,
    htk_bands,
    htk_hertz,
    htk_mel,
    log_power,
    mel_bands,
    power_spectrogram,
    slaney_hertz,
    slaney_mel,
)


def sine(hertz: float, seconds: float = 0.5):
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return np.sin(2 * np.pi * hertz * time).astype(np.float32)


def test_wav_files_decode_to_what_was_encoded():
    samples = np.array([0, 1, -32768, 32767], np.int16)
    assert np.array_equal(decode_wav(wav_bytes(samples)), samples / np.float32(32768))


def test_another_sample_rate_is_refused():
    with pytest.raises(DataError, match="8000"):
        decode_wav(wav_bytes(np.zeros(100, np.int16), sample_rate=8000))


@pytest.mark.parametrize("cut", [10, 43])
def test_a_file_that_ends_in_its_header_is_refused(cut):
    with pytest.raises(DataError, match="PCM WAV"):
        decode_wav(wav_bytes(np.zeros(100, np.int16))[:cut])


def test_a_truncated_file_is_refused():
    with pytest.raises(DataError, match="truncated"):
        decode_wav(wav_bytes(np.zeros(100, np.int16))[:-50])


def test_sounds_are_cut_or_padded():
    assert fit(np.ones(3, np.float32), 5).tolist() == [1, 1, 1, 0, 0]
    assert fit(np.ones(9, np.float32), 5).tolist() == [1] * 5
    assert fit_behind(np.ones(3, np.float32), 5).tolist() == [0, 0, 1, 1, 1]


def test_a_tone_has_its_power_at_its_frequency():
    power = power_spectrogram(sine(1000))
    assert power.shape == (1 + (8000 - FRAME) // 160, FRAME // 2 + 1)
    assert np.all(power.argmax(axis=1) == round(1000 / (SAMPLE_RATE / FRAME)))
    # A windowed sine of amplitude 1 has a peak of (sum of the window / 2)² = (FRAME / 4)².
    assert power.max() == pytest.approx((FRAME / 4) ** 2, rel=1e-3)


def test_slaneys_scale_has_its_published_fixed_points():
    hertz = np.array([0.0, 200 / 3, 1000.0, 6400.0])
    assert np.allclose(slaney_mel(hertz), [0, 1, 15, 42])
    assert np.allclose(slaney_hertz(slaney_mel(hertz)), hertz)


def test_the_htk_scale_has_1000_mel_at_1000_hertz():
    assert htk_mel(np.array([1000.0]))[0] == pytest.approx(1000, abs=0.1)
    assert np.allclose(htk_hertz(htk_mel(np.array([0.0, 440.0, 8000.0]))), [0, 440, 8000])


def test_filters_have_equal_area():
    area = filters(slaney_mel, slaney_hertz).sum(axis=0) * (SAMPLE_RATE / FRAME)
    assert area.shape == (BANDS,)
    # The narrow low filters fall between the bins; the wide ones show the area.
    assert np.allclose(area[40:], 1, atol=0.1)


def test_bands_are_the_matrix_product_with_the_filters():
    power = np.random.default_rng(1).random((7, FRAME // 2 + 1), np.float32)
    for bands, scale in (
        (mel_bands, (slaney_mel, slaney_hertz)),
        (htk_bands, (htk_mel, htk_hertz)),
    ):
        assert np.allclose(bands(power), (power @ filters(*scale)).T, rtol=1e-5)


def test_a_higher_tone_lies_in_a_higher_band():
    low, high = (mel_bands(power_spectrogram(sine(hertz))).mean(axis=1) for hertz in (300, 3000))
    assert low.shape == (BANDS,)
    assert low.argmax() < high.argmax()


def test_silence_has_the_power_of_the_floor():
    assert np.allclose(log_power(np.zeros((2, 2), np.float32)), -10)


def test_synthetic_sounds_are_full_scale_neither_clipped_nor_silent():
    samples = decode_wav(speech_like(np.random.default_rng(1), 3.0))
    assert len(samples) == 3 * SAMPLE_RATE
    assert 0.2 < np.abs(samples).max() < 1
    assert 0.02 < samples.std() < 0.5
