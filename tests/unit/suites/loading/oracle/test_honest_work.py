"""Honest work that rounds otherwise than the reference passes; work left out does not."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.oracle.comparison import ArrayDifference
from skymark.suites.loading.oracle.content import UNIT_ROUNDOFF, gamma, rounding_tolerance
from skymark.suites.loading.scenarios.mm_pairs import AudioTextPairs
from skymark.suites.loading.scenarios.pc_pipelines import TransformChain
from skymark.suites.loading.transforms import audio
from skymark.suites.loading.work import Size

EPOCH = 1
INDICES = np.arange(24)


def cause_of(scenario, dataset, batch):
    oracle = Oracle(scenario, dataset)
    oracle.check(Content(EPOCH, batch))
    return oracle.cause


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    scenario = AudioTextPairs(size=Size(elements=24, batch_size=24, values={"seconds": 2.0}))
    return scenario, scenario.generate(tmp_path_factory.mktemp("sounds") / "set")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    return TransformChain(
        size=Size(elements=24, batch_size=24, values={"width": 64}), axes={"depth": 1}
    ).generate(tmp_path_factory.mktemp("vectors") / "set")


def log_mel(wav, dtype):
    """Compute a spectrogram by the complex transform and a product of matrices, of one type."""
    samples = audio.fit(audio.decode_wav(wav), 32_000).astype(dtype)
    frames = np.lib.stride_tricks.sliding_window_view(samples, audio.FRAME)[:: audio.HOP]
    window = np.hanning(audio.FRAME + 1)[:-1].astype(dtype)
    spectrum = np.fft.fft(frames * window, axis=1)[:, : audio.FRAME // 2 + 1]
    power = (spectrum.real**2 + spectrum.imag**2).astype(dtype)
    bands = power @ audio.filters(audio.slaney_mel, audio.slaney_hertz).astype(dtype)
    return np.log10(np.maximum(bands, dtype(1e-10))).T.astype(np.float32)


def test_the_reference_of_a_log_mel_is_that_of_double_precision(sounds):
    scenario, dataset = sounds
    batch = Oracle(scenario, dataset).reference.batch(EPOCH, INDICES)
    mel = np.stack([log_mel(dataset[index]["wav"], np.float64) for index in INDICES.tolist()])
    assert cause_of(scenario, dataset, {**batch, "mel": mel}) is None
    assert cause_of(scenario, dataset, batch) is None


def test_a_log_mel_in_single_precision_by_another_transform_passes(sounds):
    scenario, dataset = sounds
    batch = Oracle(scenario, dataset).reference.batch(EPOCH, INDICES)
    mel = np.stack([log_mel(dataset[index]["wav"], np.float32) for index in INDICES.tolist()])
    oracle = Oracle(scenario, dataset)
    oracle.check(Content(EPOCH, {**batch, "mel": mel}))
    assert oracle.cause is None
    assert 1e-5 < oracle.max_difference < oracle.max_tolerance


def test_a_spectrum_that_is_a_little_too_loud_does_not(sounds):
    scenario, dataset = sounds
    batch = Oracle(scenario, dataset).reference.batch(EPOCH, INDICES)
    fault = cause_of(scenario, dataset, {**batch, "mel": batch["mel"] + np.float32(1e-3)})
    assert fault is not None
    assert fault.kind == "content"


def folded_chain(values, depth, dtype):
    """Compute the chain with its rotations made one at the end, and scale folded into fold."""
    values, turns = values.astype(dtype), 0
    for place in range(depth):
        link = place % 5
        if link == 0:
            last = place == depth - 1
            values = values * dtype(1.5) if last else np.abs(values) - dtype(0.8 / 1.5)
        elif link == 1:
            values = values * dtype(1.5)
        elif link == 2:
            turns += 3
        elif link == 3:
            values = values + np.sin(values) * dtype(0.3)
        else:
            values = values / (np.linalg.norm(values) / dtype(np.sqrt(len(values)) * 2))
    return np.roll(values, -turns).astype(np.float32)


@pytest.mark.parametrize("depth", [1, 5, 10, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_algebraically_folded_chain_passes(vectors, depth, dtype):
    scenario = TransformChain(
        size=Size(elements=24, batch_size=24, values={"width": 64}), axes={"depth": depth}
    )
    batch = Oracle(scenario, vectors).reference.batch(EPOCH, INDICES)
    rows = [folded_chain(vectors[index]["values"], depth, dtype) for index in INDICES.tolist()]
    oracle = Oracle(scenario, vectors)
    oracle.check(Content(EPOCH, {**batch, "values": np.stack(rows)}))
    assert oracle.cause is None


def test_gamma_is_the_bound_of_a_product_of_rounding_errors():
    assert gamma(1) == pytest.approx(UNIT_ROUNDOFF)
    assert gamma(100) > (1 + UNIT_ROUNDOFF) ** 100 - 1


def test_a_tolerance_grows_with_the_magnitude_and_the_spread():
    want = np.array([[-4.0, np.inf, np.nan, 1.0]])
    assert rounding_tolerance(8, want)[:2] == (pytest.approx(4 * gamma(8)), None)
    spread = rounding_tolerance(8, want, ArrayDifference(0.5, 0.0, 0.25))
    assert spread[:2] == pytest.approx((2.0, 1.0), rel=1e-5)
    assert rounding_tolerance(8, np.zeros((2, 0))).largest == 0.0
