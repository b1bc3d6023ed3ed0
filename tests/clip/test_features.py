"""Features are kept: used for the same model, preprocessing and images, and for nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from skymark.suites.clip.specification import FileEntry, LinearProbe, PixelOptions  # noqa: E402

PROBE = LinearProbe(train_split="train", val_split=None, epochs=2)


@pytest.fixture
def kept(bench, tmp_path):
    """The features of one classified set, in a directory; with the result."""
    place = tmp_path / "features"
    return place, bench.result(runner=bench.runner(place))


def elsewhere(bench, tmp_path):
    """The same checkpoints and sets on another machine: with an empty cache."""
    return dataclasses.replace(bench, cache=tmp_path / "another")


@pytest.fixture
def prompts(tmp_path):
    """A file of other prompts."""
    file = tmp_path / "prompts.json"
    file.write_text(json.dumps({"shapes": ["one {c} on paper"]}))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return FileEntry(path=str(file), sha256=digest, entry="shapes")


def test_features_are_kept_for_other_programs(kept):
    place, result = kept
    (file,) = place.iterdir()
    assert load_file(file)["features"].shape == (result.metrics["images"], 32)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("zeroshot_classification", {}),
        ("zeroshot_classification", {"prompts": True}),
        ("linear_probe", {"linear_probe": PROBE}),
        ("linear_probe", {"linear_probe": PROBE.model_copy(update={"fewshot_k": 2})}),
    ],
)
def test_another_run_on_the_same_images_encodes_none_of_them(
    bench, kept, prompts, tmp_path, task, settings
):
    place, first = kept
    given = {**settings, "prompt_file": prompts} if settings.pop("prompts", None) else settings
    other = elsewhere(bench, tmp_path)
    plain = bench.result("shapes", task, **given)
    again = other.result("shapes", task, runner=other.runner(place), **given)
    assert again.verification.passed, again.verification.cause
    train = 40 if task == "linear_probe" else 0
    assert sum(again.samples["images"]) == train, "the test images' features are kept"
    for name in ("score", "mean_per_class_recall", "lp_acc1"):
        assert again.metrics.get(name) == plain.metrics.get(name)
    if not train:
        assert again.conditions["images_digest"] == first.conditions["images_digest"]
        assert not list((other.cache / "clip" / "pixels").glob("*/pixels.u8")), "none is decoded"


OTHERS = {
    "precision": {"precision": "bf16"},
    "weights": {"architecture": "tiny-ViT-wide"},
    "preprocessing": {},
}


@pytest.mark.parametrize("what", OTHERS)
def test_features_of_another_kind_are_not_used(bench, kept, what):
    place, _ = kept
    given = dict(OTHERS[what])
    if what == "preprocessing":
        pixels = PixelOptions(mean=(0.1, 0.2, 0.3))
        given["model"] = bench.model().model_copy(update={"pixels": pixels})
    result = bench.result(runner=bench.runner(place), **given)
    assert result.verification.passed, result.verification.cause
    assert sum(result.samples["images"]) == 60
    assert len(list(place.iterdir())) == 2


def test_features_of_another_precision_are_named(bench, kept, capsys):
    place, _ = kept
    bench.result(runner=bench.runner(place), precision="bf16")
    assert "another precision (fp32)" in capsys.readouterr().out


def test_features_of_other_images_are_not_used(bench, kept, tmp_path):
    place, _ = kept
    other = tmp_path / "sets" / "shapes"
    shutil.copytree(bench.root / "sets" / "shapes", other)
    shutil.rmtree(other / "test")
    shutil.copytree(other / "train", other / "test")
    result = bench.result(runner=bench.runner(place), address=other)
    assert sum(result.samples["images"]) == 40


@pytest.mark.parametrize("how", ["cut", "changed", "foreign"])
def test_damaged_features_are_named_and_computed_anew(bench, kept, capsys, how):
    place, first = kept
    (file,) = place.iterdir()
    data = bytearray(file.read_bytes())
    if how == "changed":
        data[-5] ^= 1
    file.write_bytes(data[: len(data) // 2] if how == "cut" else b"x" if how == "foreign" else data)
    again = bench.result(runner=bench.runner(place))
    assert str(file) in capsys.readouterr().out
    assert sum(again.samples["images"]) == 60
    assert again.metrics["acc1"] == first.metrics["acc1"]
    third = bench.result(runner=bench.runner(place))
    assert sum(third.samples["images"]) == 0, "the file is whole again"
