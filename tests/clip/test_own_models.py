"""Models of every kind agree with their library used by hand, and say all of it in the record."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skymark.model.errors import ChangedSincePlanError, DataError  # noqa: E402
from skymark.suites.clip.encoding.loading import load_model  # noqa: E402
from skymark.suites.clip.encoding.states import STATE_KEYS, state_in  # noqa: E402
from skymark.suites.clip.models.choosing import chosen_models  # noqa: E402
from skymark.suites.clip.models.own_weights import AS_THEY_ARE, with_families  # noqa: E402
from skymark.suites.clip.pixels.preprocessing import decoded  # noqa: E402
from skymark.suites.clip.reading.opening import open_split  # noqa: E402
from skymark.suites.clip.specification import PixelOptions  # noqa: E402
from tests.clip.conftest import ARCHITECTURES  # noqa: E402
from tests.clip.drawing import CLASSES, TEMPLATES  # noqa: E402

SIGLIP_PIXELS = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "resize_mode": "squash",
    "interpolation": "bilinear",
}
OWN_PYTHON = """
import open_clip
import torch
from torchvision.transforms import Compose, Normalize, Resize, ToTensor


class Own:
    def __init__(self, steps):
        self.network = open_clip.create_model("tiny-ViT", pretrained={weights!r}).eval()
        self.words = open_clip.get_tokenizer("tiny-ViT")
        self.preprocess = steps

    def encode_image(self, images):
        return self.network.encode_image(images)

    def encode_text(self, texts):
        return self.network.encode_text(self.words(texts))


def load():
    return Own(Compose([Resize((32, 32)), ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)]))


def in_floats():
    steps = Compose([ToTensor(), Resize((32, 32), antialias=True)])
    return Own(lambda image: steps(image) * 2 - 1)


def without_texts():
    return torch.nn.Linear(1, 1)
"""


def chosen(name, pixels=AS_THEY_ARE):
    (found,) = with_families(chosen_models([str(name)]), [], pixels)
    return found.model


def images_of(bench, transform):
    """Return the tensors of all test images by a transform of the library itself."""
    specification = bench.specification()
    samples = open_split(specification.source, "test", specification.task, bench.cache).samples
    images = torch.stack([transform(decoded(samples.read(n), "")) for n in range(len(samples))])
    return images, torch.tensor(samples.labels)


def accuracy_of(bench, encode_image, encode_text, transform):
    """Return acc1 as a user of the library computes it."""
    unit = torch.nn.functional.normalize
    with torch.inference_mode():
        prompts = [[one.format(c=name) for one in TEMPLATES] for name in CLASSES]
        weights = [unit(unit(encode_text(one), dim=-1).mean(0), dim=0) for one in prompts]
        images, labels = images_of(bench, transform)
        logits = unit(encode_image(images), dim=-1) @ torch.stack(weights).T
    return float((logits.argmax(dim=1) == labels).float().mean())


def accuracy_by_open_clip(bench, name, **options):
    import open_clip

    network, _, transform = open_clip.create_model_and_transforms(name, **options)
    network.eval()
    tokenizer = open_clip.get_tokenizer(name)
    return accuracy_of(
        bench, network.encode_image, lambda texts: network.encode_text(tokenizer(texts)), transform
    )


def scored(bench, model):
    result = bench.result(model=model)
    assert result.verification.passed, result.verification.cause
    assert result.conditions["weights_digest"] != "unknown"
    assert result.conditions["tokenizer"]
    return result


@pytest.fixture
def folder(bench, tmp_path):
    """A folder as open_clip saves it for the hub."""
    place = tmp_path / "mine"
    place.mkdir()
    shutil.copy(bench.root / "tiny-ViT.pt", place / "open_clip_pytorch_model.bin")
    content = {"model_cfg": ARCHITECTURES["tiny-ViT"], "preprocess_cfg": SIGLIP_PIXELS}
    (place / "open_clip_config.json").write_text(json.dumps(content))
    return place


def test_a_folder_of_open_clip_has_its_own_preprocessing(bench, folder):
    result = scored(bench, chosen(f"local-dir:{folder}"))
    expected = accuracy_by_open_clip(bench, f"local-dir:{folder}")
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)
    assert result.conditions["preprocessing"] == "squash bilinear 32x32"
    assert result.conditions["normalisation"] == "mean 0.5 0.5 0.5, std 0.5 0.5 0.5"
    weights = (folder / "open_clip_pytorch_model.bin").read_bytes()
    assert result.conditions["weights_digest"] == hashlib.sha256(weights).hexdigest()


@pytest.fixture
def repository(folder, tmp_path, monkeypatch):
    """The folder on a hub of this machine; returns its name."""
    from huggingface_hub import constants

    from tests.hub_server import serving

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    with serving() as running:
        endpoint = f"http://127.0.0.1:{running.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, endpoint)
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        running.datasets["owner/mine"] = {"main": files}
        yield "owner/mine"


def test_a_repository_of_the_hub_has_its_own_preprocessing(bench, folder, repository):
    result = scored(bench, chosen(f"hf-hub:{repository}"))
    expected = accuracy_by_open_clip(bench, f"hf-hub:{repository}")
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)
    assert result.conditions["preprocessing"] == "squash bilinear 32x32"
    weights = (folder / "open_clip_pytorch_model.bin").read_bytes()
    assert result.conditions["weights_digest"] == hashlib.sha256(weights).hexdigest()


def test_a_repository_that_is_not_there_is_named(bench, repository):
    with pytest.raises(DataError, match="hf-hub:owner/absent"):
        bench.result(model=chosen("hf-hub:owner/absent"))


def test_a_folder_that_changed_since_the_plan_is_refused(bench, folder):
    model = chosen(f"local-dir:{folder}")
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": ARCHITECTURES["tiny-ViT"]})
    )
    with pytest.raises(ChangedSincePlanError, match=str(folder)):
        bench.result(model=model)


def test_an_architecture_of_the_user_s_own_is_built_from_its_file(bench, tmp_path):
    file = tmp_path / "own-ViT.json"
    file.write_text(json.dumps(ARCHITECTURES["tiny-ViT"]))
    result = scored(bench, chosen(f"{file}:{bench.root / 'tiny-ViT.pt'}"))
    assert result.metrics["acc1"] == bench.result().metrics["acc1"]


def test_a_tower_of_variable_resolution_is_scored_at_the_size_of_its_architecture(bench, tmp_path):
    import open_clip
    from timm.models import register_model
    from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg

    @register_model
    def tiny_naflexvit(pretrained=False, **options):
        del pretrained, options
        settings = {"embed_dim": 32, "depth": 1, "num_heads": 2, "patch_size": 8}
        network = NaFlexVit(cfg=NaFlexVitCfg(**settings, global_pool="avg", fc_norm=True))
        network.default_cfg = {}
        return network

    vision = {"timm_model_name": "tiny_naflexvit", "timm_pool": "avg", "image_size": 32}
    file, weights = tmp_path / "own-naflex.json", tmp_path / "own.pt"
    file.write_text(json.dumps({**ARCHITECTURES["tiny-ViT"], "vision_cfg": vision}))
    open_clip.add_model_config(file)
    torch.manual_seed(3)
    torch.save(open_clip.create_model("own-naflex").state_dict(), weights)
    result = scored(bench, chosen(f"{file}:{weights}"))
    expected = accuracy_by_open_clip(bench, "own-naflex", pretrained=str(weights))
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)


def test_patches_of_variable_resolution_are_refused():
    from transformers import Siglip2ImageProcessor

    from skymark.suites.clip.encoding.other_models import preprocessing_of_processor

    processor = Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    with pytest.raises(DataError, match="fixed resolution"):
        preprocessing_of_processor(processor, "transformers:google/siglip2-base-patch16-naflex")


def test_the_user_s_own_preprocessing_replaces_a_model_s(bench, folder):
    pixels = PixelOptions(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), resize_mode="longest", size=48)
    result = scored(bench, chosen(f"local-dir:{folder}", pixels))
    expected = accuracy_by_open_clip(
        bench,
        f"local-dir:{folder}",
        force_image_size=48,
        image_mean=pixels.mean,
        image_std=pixels.std,
        image_resize_mode="longest",
    )
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)
    assert result.conditions["preprocessing"] == "longest bilinear 48x48"
    assert "--image-mean" in result.conditions["preprocessing_of"]


@pytest.mark.parametrize("function", ["load", "in_floats"])
def test_a_python_function_gives_a_model(bench, tmp_path, function):
    file = tmp_path / "my_model.py"
    file.write_text(OWN_PYTHON.format(weights=str(bench.root / "tiny-ViT.pt")))
    result = scored(bench, chosen(f"{file}:{function}"))
    made: dict[str, object] = {}
    exec(compile(file.read_text(), file, "exec"), made)
    own = made[function]()
    expected = accuracy_of(bench, own.encode_image, own.encode_text, own.preprocess)
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)
    assert result.conditions["preprocessing"] == f"my_model.py:{function} 32x32"


def test_a_python_function_without_a_part_is_refused(bench, tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text(OWN_PYTHON.format(weights="none"))
    with pytest.raises(DataError, match=r"encode_image\b.*\bencode_text\b.*\bpreprocess\b"):
        bench.result(model=chosen(f"{file}:without_texts"))


WRAPPED = {
    "parallel": lambda state: {f"module.{name}": value for name, value in state.items()},
    "compiled": lambda state: {f"_orig_mod.{name}": value for name, value in state.items()},
    "both": lambda state: {f"module._orig_mod.{name}": value for name, value in state.items()},
    "training": lambda state: {
        "epoch": 3,
        "state_dict": {f"module.{name}": value for name, value in state.items()},
        "optimizer": {"state": {0: {"step": torch.ones(1)}}},
    },
    "a field model": lambda state: {"model": state, "optimizer": {}},
}


@pytest.mark.parametrize("how", WRAPPED)
def test_a_training_checkpoint_gives_its_weights(bench, tmp_path, how):
    state = torch.load(bench.root / "tiny-ViT.pt", weights_only=True)
    torch.save(WRAPPED[how](state), tmp_path / "trained.pt")
    loaded = load_model(bench.model_of("tiny-ViT", tmp_path / "trained.pt"), torch.device("cpu"), 0)
    for name, value in loaded.network.state_dict().items():
        assert torch.equal(value, state[name]) or name == "attn_mask"


@pytest.mark.parametrize(
    ("field", "name"), [(STATE_KEYS[0], "it's $(touch ran)"), (STATE_KEYS[-1], "trained")]
)
def test_objects_beside_weights_are_named_with_the_line_that_saves_weights_alone(
    bench, tmp_path, field, name
):
    state = torch.load(bench.root / "tiny-ViT.pt", weights_only=True)
    content = {field: state, "args": argparse.Namespace(lr=1), "best": np.float64(0.5)}
    torch.save(content, tmp_path / f"{name}.pt")
    with pytest.raises(DataError, match=r"argparse\.Namespace.*numpy.*python -c") as refused:
        state_in(tmp_path / f"{name}.pt")
    line = str(refused.value).partition("alone: python ")[2]
    own = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_")}
    pasted = f"{sys.executable} {line}"
    subprocess.run(["/bin/sh", "-c", pasted], cwd=tmp_path, check=True, env=own)
    again = state_in(tmp_path / f"{name}-weights.pt")
    assert again.keys() == state.keys()
    assert not (tmp_path / "ran").exists()


class Archived(torch.nn.Module):
    """A part of a model whose code would be run by loading an archive of TorchScript."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(2, 3)
        self.row = torch.nn.Parameter(torch.arange(6.0).half().view(2, 3).T)
        self.register_buffer("input_resolution", torch.tensor(224))

    def forward(self, x):
        return self.line(x) * 1.702


@pytest.mark.filterwarnings("ignore")  # PyTorch advises against TorchScript
def test_an_archive_of_torchscript_gives_its_state_and_runs_nothing(tmp_path, monkeypatch):
    network = Archived()
    torch.jit.save(torch.jit.script(network), tmp_path / "archive.pt")
    monkeypatch.setattr(torch.jit, "load", None)
    found = state_in(tmp_path / "archive.pt")
    expected = {name: one for name, one in network.state_dict().items() if "resol" not in name}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], one) for name, one in expected.items())


@pytest.mark.filterwarnings("ignore")  # PyTorch advises against TorchScript
def test_an_archive_of_a_whole_model_is_scored(bench, tmp_path):
    import open_clip

    network = open_clip.create_model("tiny-ViT", pretrained=str(bench.root / "tiny-ViT.pt"))
    traced = torch.jit.trace_module(
        network.eval(),
        {
            "encode_image": torch.zeros(1, 3, 32, 32),
            "encode_text": torch.zeros(1, 77, dtype=torch.long),
        },
        check_trace=False,
    )
    torch.jit.save(traced, tmp_path / "archive.pt")
    result = scored(bench, bench.model_of("tiny-ViT", tmp_path / "archive.pt"))
    assert result.metrics["acc1"] == bench.result().metrics["acc1"]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def hub_folder(request, tmp_path_factory):
    """A small model of transformers with its tokenizer and processor, as it saves them."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    place = tmp_path_factory.mktemp(request.param)
    words = sorted({word for text in [*CLASSES, *TEMPLATES] for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", "<eos>", *words])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        model_max_length=16,
    ).save_pretrained(place)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(vocabulary), "max_position_embeddings": 16}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    torch.manual_seed(3)
    if request.param == "clip":
        text |= {"eos_token_id": 2, "projection_dim": 16}
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
        network = transformers.CLIPModel(config)
        processor = transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        )
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config=vision)
        network = transformers.SiglipModel(config)
        processor = transformers.SiglipImageProcessor(size={"height": 32, "width": 32})
    network.save_pretrained(place)
    processor.save_pretrained(place)
    return place


def test_a_model_of_transformers_agrees_with_the_library_used_by_hand(bench, hub_folder):
    import transformers

    result = scored(bench, chosen(f"transformers:{hub_folder}"))
    network = transformers.AutoModel.from_pretrained(hub_folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(hub_folder)
    processor = transformers.AutoImageProcessor.from_pretrained(hub_folder)

    def encode_text(texts):
        inputs = tokenizer(texts, padding="max_length", truncation=True, return_tensors="pt")
        return network.get_text_features(**inputs).pooler_output

    expected = accuracy_of(
        bench,
        lambda images: network.get_image_features(pixel_values=images).pooler_output,
        encode_text,
        lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0],
    )
    assert result.metrics["acc1"] == pytest.approx(expected, abs=1e-6)
    assert "ImageProcessor 32x32" in result.conditions["preprocessing"]
    (pixels,) = (bench.cache / "clip" / "pixels").glob("*/pixels.json")
    assert json.loads(pixels.read_text())["dtype"] == "uint8", "8-bit pixels are enough"


def test_code_of_a_repository_does_not_run(bench, hub_folder, tmp_path):
    place = tmp_path / "remote"
    shutil.copytree(hub_folder, place)
    config = json.loads((place / "config.json").read_text())
    config |= {"model_type": "unheard_of", "auto_map": {"AutoModel": "own.Own"}}
    (place / "config.json").write_text(json.dumps(config))
    (place / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(DataError, match="cannot be loaded"):
        bench.result(model=chosen(f"transformers:{place}"))
    assert not (tmp_path / "ran").exists()
