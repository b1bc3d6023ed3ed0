"""The oracle refuses other images, labels, texts and features than the data set's own."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skymark.suites.clip import scoring  # noqa: E402
from skymark.suites.clip.encoding.encoder import Encoder  # noqa: E402
from skymark.suites.clip.encoding.loading import preprocessing_of  # noqa: E402
from skymark.suites.clip.oracle.verdict import (  # noqa: E402
    Refused,
    ScoredSplit,
    check_labels,
)
from skymark.suites.clip.pixels.building import ensure_map  # noqa: E402


def test_pixels_of_other_images_make_the_cell_invalid(bench):
    bench.result()
    (directory,) = (bench.cache / "clip" / "pixels").glob("shapes*/")
    index = json.loads((directory / "pixels.json").read_text())
    pixels = np.memmap(directory / "pixels.u8", np.uint8, mode="r+", shape=tuple(index["shape"]))
    pixels[:] = pixels[::-1].copy()
    pixels.flush()
    index["checksums"] = [zlib.crc32(image.copy().data) for image in pixels]
    (directory / "pixels.json").write_text(json.dumps(index))
    result = bench.result()
    assert not result.verification.passed
    assert result.verification.cause.kind == "wrong-images"


def test_labels_of_another_set_make_the_cell_invalid(bench):
    bench.result()
    (index,) = (bench.cache / "clip" / "samples").glob("*.json")
    found = json.loads(index.read_text())
    found["labels"] = [(label + 1) % 6 for label in found["labels"]]
    index.write_text(json.dumps(found))
    result = bench.result()
    assert result.verification.cause.kind == "wrong-labels"


def test_an_ignored_language_makes_the_cell_invalid(bench, tmp_path, monkeypatch):
    import shutil

    place = tmp_path / "shapes"
    shutil.copytree(bench.root / "sets" / "shapes", place)
    (place / "classnames.fr.txt").write_text("cercle\ncarré\ncroix\nbarre\npoint\ncadre\n")
    (place / "zeroshot_classification_templates.fr.txt").write_text("une photo de {c}\n")
    right = scoring.prompts_for

    def english(self, specification, opened):
        return right(specification.model_copy(update={"language": "en"}), opened)

    monkeypatch.setattr(scoring.Scorer, "check", english)
    result = bench.result(address=place, language="fr")
    assert result.verification.cause.kind == "wrong-texts"


def test_a_wrong_activation_makes_the_features_wrong(bench, monkeypatch):
    from open_clip.transformer import QuickGELU

    images = Encoder.images

    def with_quick_gelu(self, pixels):
        kept = [block.mlp.gelu for block in self.network.visual.transformer.resblocks]
        for block in self.network.visual.transformer.resblocks:
            block.mlp.gelu = QuickGELU()
        found = images(self, pixels)
        for block, one in zip(self.network.visual.transformer.resblocks, kept, strict=True):
            block.mlp.gelu = one
        return found

    monkeypatch.setattr(Encoder, "images", with_quick_gelu)
    result = bench.result()
    assert result.verification.cause.kind == "wrong-features"


def test_a_missing_image_is_refused(bench):
    specification = bench.specification()
    scorer = scoring.Scorer(bench.cache)
    opened = scorer.opened(specification)
    (split,) = opened.splits
    pixels = ensure_map(bench.cache, split, preprocessing_of(specification.model))
    scored = ScoredSplit(split, pixels, torch.ones(59, 32))
    with pytest.raises(Refused, match=r"\b59\b.*\bshapes\b.*\b60\b") as refused:
        check_labels(scored, random.Random(0), set())
    assert refused.value.cause.kind == "missing-images"


def test_features_that_are_not_finite_make_the_cell_invalid(bench, monkeypatch):
    texts = Encoder.texts
    monkeypatch.setattr(Encoder, "texts", lambda self, one: texts(self, one) * float("nan"))
    result = bench.result()
    assert result.verification.cause.kind == "not-finite"


def test_a_file_that_says_another_activation_than_ran_makes_the_cell_invalid(bench):
    """Plans refuse such a file; this one came to the worker all the same."""
    state = torch.load(bench.root / "tiny-ViT.pt", weights_only=True)
    for quick in (False, True):
        torch.save({"state_dict": state, "args": {"quick_gelu": quick}}, bench.root / "says.pt")
        result = bench.result(model=bench.model("tiny-ViT", "says"))
        assert result.verification.passed is not quick
    assert result.verification.cause.kind == "wrong-activation"
