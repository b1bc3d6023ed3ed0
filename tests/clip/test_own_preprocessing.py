"""Preprocessing of files of weights: open_clip's own for the tags of the architecture."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from skymark.model.errors import UsageError  # noqa: E402
from skymark.suites.clip.models.choosing import (  # noqa: E402
    activation_fits,
    chosen_models,
    pairs,
    registry,
)
from skymark.suites.clip.models.own_weights import with_families  # noqa: E402
from skymark.suites.clip.specification import Model, Weights  # noqa: E402

FIELDS = ("size", "mode", "mean", "std", "interpolation", "resize_mode", "fill_color")


@pytest.fixture
def weights(tmp_path):
    (tmp_path / "mine.pt").write_bytes(b"weights")
    return tmp_path / "mine.pt"


def of_open_clip(architecture, tag):
    """Return the settings that open_clip gives a tag, by its own tables and configurations."""
    import open_clip

    configuration = open_clip.get_model_config(architecture)
    found = open_clip.get_pretrained_cfg(architecture, tag)
    size = configuration["vision_cfg"].get("image_size", 224)
    plain = {"mode": "RGB", "fill_color": 0, "size": size}
    return plain | {name: found[name] for name in FIELDS if name in found}


def settings_of(model):
    from skymark.suites.clip.encoding.loading import preprocessing_of

    return {name: preprocessing_of(model).settings[name] for name in FIELDS}


def test_a_file_of_every_architecture_is_preprocessed_as_its_tags_are(weights):
    compared = 0
    for architecture, tag in pairs():
        try:
            (chosen,) = with_families(chosen_models([f"{architecture}:{weights}"]), [])
        except UsageError as error:
            assert tag in str(error)  # noqa: PT017 -- the others are compared
            (chosen,) = with_families(chosen_models([f"{architecture}:{weights}"]), [tag])
        assert settings_of(chosen.model) == of_open_clip(architecture, tag), (architecture, tag)
        compared += 1
    assert compared == 168


def test_a_file_of_an_architecture_whose_tags_do_not_fit_is_preprocessed_as_they_are(weights):
    for architecture, known in registry().architectures.items():
        if known.tags and not any(activation_fits(architecture, tag) for tag in known.tags):
            (chosen,) = with_families(chosen_models([f"{architecture}:{weights}"]), [])
            for tag in known.tags:
                assert settings_of(chosen.model) == of_open_clip(architecture, tag)


def test_a_file_without_a_family_has_open_clip_s_default(weights):
    import open_clip

    (chosen,) = with_families(chosen_models([f"ViT-S-32:{weights}"]), [])
    found = settings_of(chosen.model)
    assert (found["resize_mode"], found["interpolation"]) == ("shortest", "bicubic")
    assert found["mean"] == open_clip.OPENAI_DATASET_MEAN


def test_a_model_that_is_loaded_has_the_preprocessing_of_its_family(bench, monkeypatch):
    """The family is one of a small architecture, with the settings that SigLIP's have."""
    from open_clip import pretrained

    odd = pretrained._slpcfg()
    monkeypatch.setitem(pretrained._PRETRAINED, "tiny-ViT", {"odd": odd})
    plain = bench.model()
    own = Weights(**plain.weights.model_dump() | {"preprocessing_of": "odd"})
    usual, result = bench.result(), bench.result(model=Model(architecture="tiny-ViT", weights=own))
    assert result.verification.passed, result.verification.cause
    assert usual.conditions["preprocessing"] == "shortest bicubic 32x32"
    assert usual.conditions["preprocessing_of"] == "default"
    assert result.conditions["preprocessing"] == "squash bicubic 32x32"
    assert result.conditions["normalisation"] == "mean 0.5 0.5 0.5, std 0.5 0.5 0.5"
    assert result.conditions["preprocessing_of"] == "odd"
    assert usual.conditions["images_digest"] != result.conditions["images_digest"]
    assert usual.conditions["activation"] == "GELU"
