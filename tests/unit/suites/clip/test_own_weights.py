"""Files of weights: their family's preprocessing, and the activation that is known of them."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import zipfile

import pytest

from skymark.model.errors import UsageError
from skymark.suites.clip.models.choosing import chosen_models, registry
from skymark.suites.clip.models.own_weights import families_of, with_families
from skymark.suites.clip.specification import ClipSpecification

ARCHITECTURES = registry().architectures
SEVERAL_WAYS = {"ViT-L-14": "laion2b_s32b_b82k", "ViT-H-14-quickgelu": "dfn5b"}


@pytest.fixture
def weights(tmp_path):
    """A function that writes a file of weights without a word on it, or with some content."""

    def write(name="mine.pt", content=b"tensors"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


def chosen(architecture, path, *tags):
    (found,) = with_families(chosen_models([f"{architecture}:{path}"]), tags)
    return found


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"archive/{name.replace('__', '/').replace('_pkl', '.pkl')}", content)
    return file.getvalue()


def safetensors(**metadata):
    header = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(header)) + header


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_file_takes_the_preprocessing_of_the_tags_of_its_architecture(architecture, weights):
    known, path = ARCHITECTURES[architecture], weights()
    if architecture in SEVERAL_WAYS:
        with pytest.raises(UsageError, match=f"{SEVERAL_WAYS[architecture]}.*--preprocessing-of"):
            chosen(architecture, path)
        return
    found = chosen(architecture, path)
    tag = found.model.weights.preprocessing_of
    taken = registry().default_preprocessing if tag is None else known.preprocessing(tag)
    assert list(families_of(known)) in ([taken], [])
    assert taken in found.notes[0]


def test_51_architectures_have_another_preprocessing_than_the_default(weights):
    path = weights()
    others = set(ARCHITECTURES) - set(SEVERAL_WAYS)
    taken = {one: chosen(one, path).model.weights.preprocessing_of for one in others}
    assert sum(tag is not None for tag in taken.values()) == 51
    assert taken["ViT-B-16-SigLIP"] == "webli"
    assert taken["ViT-B-32"] is None


@pytest.mark.parametrize(
    ("architecture", "tag"),
    [
        *SEVERAL_WAYS.items(),
        ("ViT-L-14", "datacomp_xl_s13b_b90k"),
        ("ViT-B-16-SigLIP", "default"),
    ],
)
def test_a_tag_that_is_named_decides(architecture, tag, weights):
    found = chosen(architecture, weights(), tag.upper().replace("_", "-"))
    assert found.model.weights.preprocessing_of == tag
    assert f" tag {tag}: " in found.notes[0]


def test_a_tag_that_no_file_can_be_of_is_refused(weights):
    with pytest.raises(UsageError, match=r"openai: .*\bwebli, default"):
        chosen("ViT-B-16-SigLIP", weights(), "openai")
    with pytest.raises(UsageError, match="different preprocessing"):
        chosen("ViT-L-14", weights(), "laion2b_s32b_b82k", "laion400m_e31")
    with pytest.raises(UsageError, match="leave it out"):
        with_families(chosen_models(["ViT-B-32:laion2b_s34b_b79k"]), ["openai"])


def test_the_published_file_of_a_tag_is_known_by_its_digest(weights, monkeypatch):
    path = weights()
    digest = chosen_models([f"RN50:{path}"])[0].model.weights.sha256
    monkeypatch.setitem(ARCHITECTURES["ViT-L-14"].digests, "laion2b_s32b_b82k", digest)
    found = chosen("ViT-L-14", path)
    assert found.model.weights.preprocessing_of == "laion2b_s32b_b82k"
    monkeypatch.setitem(ARCHITECTURES["ViT-L-14"].digests, "openai", digest)
    with pytest.raises(UsageError, match=r"\bopenai\b.* QuickGELU"):
        chosen("ViT-L-14", path)


def test_cells_of_tags_have_the_content_that_they_had(planned):
    (one,) = planned()
    assert set(one.cell.specification["model"]["weights"]) == {"tag", "file", "sha256"}
    assert "skip_damaged" not in one.cell.specification
    assert ClipSpecification.of(one.cell).skip_damaged is False


def test_the_plan_has_the_preprocessing_of_a_file(planned, weights):
    (one,) = planned(models=(f"ViT-B-16-SigLIP:{weights()}",))
    assert one.cell.specification["model"]["weights"]["preprocessing_of"] == "webli"
    assert "squash bicubic, mean 0.5 0.5 0.5" in one.notes[0]
    (other,) = planned(models=(f"ViT-B-16-SigLIP:{weights()}",), preprocessing_of=("default",))
    assert one.cell.hash != other.cell.hash


QUICK = {
    "its name": ("ViT-B-32-quickgelu-ft.pt", b"tensors"),
    "a tag in its name": ("my_openai-ft.pt", b"tensors"),
    "a name in a pickle": (
        "a.pt",
        zipped(data_pkl=pickle.dumps({"name": "x-model_ViT-B-32-quickgelu-lr"})),
    ),
    "a truth value": ("a.pt", zipped(data_pkl=pickle.dumps({"args": {"force_quick_gelu": True}}))),
    "an old pickle": ("a.pt", pickle.dumps({"quick_gelu": True}, protocol=2)),
    "a newer one": ("a.pt", pickle.dumps({"quick_gelu": True}, protocol=5)),
    "an activation": ("a.bin", zipped(data_pkl=pickle.dumps({"hidden_act": "quick_gelu"}))),
    "safetensors": ("a.safetensors", safetensors(config='{"quick_gelu": true}')),
    "TorchScript": ("a.pt", zipped(**{"code____torch__.py": "torch.sigmoid(torch.mul(x, 1.702))"})),
}
PLAIN = {
    "a truth value": ("a.pt", zipped(data_pkl=pickle.dumps({"quick_gelu": False}))),
    "safetensors": ("a.safetensors", safetensors(config='{"quick_gelu": false}')),
    "a tag in its name": ("laion2b_s34b_b79k-ft.pt", b"tensors"),
}


@pytest.mark.parametrize("case", QUICK)
def test_weights_that_say_quickgelu_are_refused_under_a_name_with_gelu(case, weights):
    name, content = QUICK[case]
    path = weights(name, content)
    with pytest.raises(UsageError, match=f"QuickGELU.* GELU;.*-quickgelu:{path}"):
        chosen("ViT-B-32", path)
    assert len(chosen("ViT-B-32-quickgelu", path).notes) == 1


@pytest.mark.parametrize("case", PLAIN)
def test_weights_that_say_gelu_are_refused_under_a_name_with_quickgelu(case, weights):
    name, content = PLAIN[case]
    path = weights(name, content)
    with pytest.raises(UsageError, match=f" GELU.* QuickGELU;.* ViT-B-32:{path}"):
        chosen("ViT-B-32-quickgelu", path)
    assert len(chosen("ViT-B-32", path).notes) == 1


@pytest.mark.parametrize(
    "content", [b"tensors", zipped(data_pkl=pickle.dumps({"force_quick_gelu": False}))]
)
def test_weights_that_say_nothing_are_told_as_such_where_there_are_two_forms(content, weights):
    path = weights(content=content)
    for architecture, end in (
        ("RN50", "need RN50-quickgelu, .*all tags .*RN50"),
        ("RN50-quickgelu", "need RN50$"),
        ("ViT-B-32", "need .*-32-quickgelu$"),
    ):
        _, note = chosen(architecture, path).notes
        assert "activation" in note
        assert re.search(end, note)
    assert len(chosen("convnext_base", path).notes) == 1, "it has one form alone"


def test_a_tag_that_is_named_says_the_activation_too(weights):
    path = weights()
    with pytest.raises(UsageError, match=r"--preprocessing-of openai .*QuickGELU"):
        chosen("ViT-B-32", path, "openai")
    assert len(chosen("ViT-B-32-quickgelu", path, "openai").notes) == 1
    named = weights("vit-openai-soup.pt")
    assert chosen("ViT-B-32", named, "laion2b_s34b_b79k").notes, "what is said counts over a name"


def test_files_that_open_clip_writes_beside_weights_say_it(weights):
    path = weights("run/checkpoints/epoch_1.pt")
    parameters = path.parent.parent / "params.txt"
    parameters.write_text("force_quick_gelu: True\nmodel: ViT-B-32\n")
    with pytest.raises(UsageError, match=f"{parameters} says"):
        chosen("ViT-B-32", path)
    parameters.write_text("force_quick_gelu: False\nmodel: ViT-B-32\n")
    assert len(chosen("ViT-B-32", path).notes) == 1
    fetched = weights("hub/open_clip_pytorch_model.bin")
    (fetched.parent / "open_clip_config.json").write_text('{"model_cfg": {"quick_gelu": true}}')
    with pytest.raises(UsageError, match=r"open_clip_config\.json says"):
        chosen("ViT-B-32", fetched)


def test_files_that_open_clip_writes_beside_weights_say_their_preprocessing(weights):
    fetched = weights("hub/open_clip_model.safetensors")
    config = fetched.parent / "open_clip_config.json"
    said = {"resize_mode": "shortest", "interpolation": "bicubic", "mean": [0.5] * 3}
    text = {"model_cfg": {}, "preprocess_cfg": said | {"std": [0.5] * 3}}
    config.write_text(json.dumps(text))
    found = chosen("ViT-L-14", fetched)
    assert found.model.weights.preprocessing_of == "laion2b_s32b_b82k"
    assert f"{config} says" in found.notes[0]
    config.write_text(json.dumps({"preprocess_cfg": said | {"std": [0.1] * 3}}))
    with pytest.raises(UsageError, match=r"std 0\.1\b.*ViT-L-14"):
        chosen("ViT-L-14", fetched)
    assert chosen("ViT-L-14", fetched, "default").model.weights.preprocessing_of == "default"

    path = weights("run/checkpoints/epoch_1.pt")
    parameters = path.parent.parent / "params.txt"
    parameters.write_text("model: ViT-L-14\npretrained: laion2b_s32b_b82k\nimage_mean: None\n")
    assert chosen("ViT-L-14", path).model.weights.preprocessing_of == "laion2b_s32b_b82k"
    parameters.write_text("model: ViT-B-16-SigLIP\npretrained: \n")
    assert chosen("ViT-B-16-SigLIP", path).model.weights.preprocessing_of is None
    parameters.write_text("model: ViT-L-14\npretrained: ./other.pt\n")
    with pytest.raises(UsageError, match="Name the tag"):
        chosen("ViT-L-14", path)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04", b"\x80", b"\xff" * 9, bytes(8) + b"{", zipped()]
)
def test_a_damaged_file_says_nothing_and_is_left_to_its_loading(content, weights):
    assert len(chosen("ViT-B-32", weights(content=content)).notes) == 2


def test_options_replace_the_preprocessing_of_every_model(planned, weights):
    given = {"image_mean": (0.4, 0.5, 0.6), "resize": "longest", "image_size": 336}
    for model in (f"ViT-B-16-SigLIP:{weights()}", "ViT-B-32:laion2b_s34b_b79k"):
        (one,) = planned(models=(model,), **given)
        (plain,) = planned(models=(model,))
        pixels = ClipSpecification.of(one.cell).model.pixels
        assert pixels.given == {"mean": (0.4, 0.5, 0.6), "resize_mode": "longest", "size": 336}
        assert any("--image-mean --resize --image-size" in note for note in one.notes)
        assert one.cell.hash != plain.cell.hash


def test_four_options_decide_between_the_ways_of_an_architecture(planned, weights):
    half = (0.5, 0.5, 0.5)
    given = {"image_mean": half, "image_std": half, "resize": "squash"}
    model = f"ViT-L-14:{weights()}"
    with pytest.raises(UsageError, match="different ones"):
        planned(models=(model,), **given)
    (one,) = planned(models=(model,), interpolation="bicubic", **given)
    assert ClipSpecification.of(one.cell).model.weights.preprocessing_of is None


@pytest.mark.parametrize(
    "given",
    [
        {"image_mean": (0.5,)},
        {"image_mean": (123.7, 116.3, 103.5)},  # of 8-bit pixels
        {"image_std": (0, 1, 1)},
        {"image_std": (58.4, 57.1, 57.4)},
        {"image_size": 0},
    ],
)
def test_preprocessing_that_makes_no_sense_is_refused(planned, given):
    with pytest.raises(UsageError, match="--image-"):
        planned(**given)


def test_a_model_with_preprocessing_of_its_own_kind_takes_no_options(planned, weights):
    file = weights("own.py", b"def load(): ...")
    with pytest.raises(UsageError, match="of its own"):
        planned(models=(f"{file}:load",), image_size=48)
