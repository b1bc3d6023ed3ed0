"""MM-1, MM-2 and AU-1 do what they say, and the oracle knows their mistakes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.scenarios.au1_compressed_audio import CompressedAudio
from skymark.suites.loading.scenarios.mm_pairs import AudioTextPairs, ImageTextPairs
from skymark.suites.loading.work import Size

SCENARIOS = {
    "MM-1": ImageTextPairs(
        size=Size(elements=12, batch_size=4, values={"height": 60, "width": 80, "side": 32})
    ),
    "MM-2": AudioTextPairs(size=Size(elements=12, batch_size=4, values={"seconds": 0.5})),
    "AU-1": CompressedAudio(
        size=Size(elements=12, batch_size=4, values={"seconds": 1.0, "crop": 0.4, "classes": 5})
    ),
}
MISTAKES = [
    (name, place, mistake)
    for name, scenario in SCENARIOS.items()
    for place, stage in enumerate(scenario.stages())
    for mistake in stage.mistakes
]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return {name: scenario.generate(folder / name) for name, scenario in SCENARIOS.items()}


@pytest.mark.parametrize("cls", [ImageTextPairs, AudioTextPairs, CompressedAudio])
def test_every_variant_ends_with_a_short_batch(cls):
    for size in cls.variants.values():
        assert size.elements % size.batch_size


def test_an_image_text_pair_has_the_shapes_of_clip(datasets):
    element = SCENARIOS["MM-1"].transform(datasets["MM-1"][3], 0)
    assert (element["image"].dtype, element["image"].shape) == (np.float32, (32, 32, 3))
    assert (element["text"].dtype, element["text"].shape) == (np.int32, (77,))
    assert set(element) == {"index", "image", "text"}


def test_an_audio_text_pair_has_80_bands_and_a_column_per_10_ms(datasets):
    element = SCENARIOS["MM-2"].transform(datasets["MM-2"][3], 0)
    assert (element["mel"].dtype, element["mel"].shape) == (np.float32, (80, 48))
    assert (element["text"].dtype, element["text"].shape) == (np.int32, (77,))
    assert set(element) == {"index", "mel", "text"}


def test_a_compressed_sound_has_80_bands_and_a_column_per_10_ms_of_its_crop(datasets):
    element = SCENARIOS["AU-1"].transform(datasets["AU-1"][3], 0)
    assert (element["mel"].dtype, element["mel"].shape) == (np.float32, (80, 38))
    assert set(element) == {"index", "mel", "label"}


def test_seed_and_epoch_decide_where_a_compressed_sound_is_cut():
    scenario, indices = SCENARIOS["AU-1"], np.arange(12)
    other = dataclasses.replace(scenario, seed=scenario.seed + 1)
    starts = scenario.draw(1, indices)["start"]
    assert np.array_equal(scenario.draw(1, indices[::-1])["start"][::-1], starts)
    for drawn in (scenario.draw(2, indices), other.draw(1, indices)):
        assert not np.any(drawn["start"] == starts)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_reference_passes(datasets, name):
    oracle = Oracle(SCENARIOS[name], datasets[name])
    oracle.check(Content(0, oracle.reference.batch(0, np.arange(4))))
    assert oracle.verdict().passed, oracle.cause


@pytest.mark.parametrize(("name", "place", "mistake"), MISTAKES)
def test_a_known_mistake_is_named(datasets, name, place, mistake):
    oracle = Oracle(SCENARIOS[name], datasets[name])
    stages = list(SCENARIOS[name].stages())
    stages[place] = stages[place]._replace(apply=stages[place].mistakes[mistake])
    wrong = oracle.reference.batch(0, np.arange(4), stages=stages)
    oracle.check(Content(0, wrong))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage", oracle.cause
    assert mistake in oracle.cause.message
