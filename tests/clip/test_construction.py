"""Networks are made without random weights, and are those that open_clip makes all the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from skymark.model.errors import DataError  # noqa: E402
from skymark.suites.clip.encoding import loading  # noqa: E402
from skymark.suites.clip.encoding.loading import (  # noqa: E402
    blank_weights,
    load_model,
    still_blank,
)
from tests.clip.conftest import TEXT, VISION  # noqa: E402

TIMM_NAMES = ("resnet18", "swin_tiny_patch4_window7_224", "eva02_tiny_patch14_224", "levit_128s")
"""Vision towers of timm: with statistics of batches, with tables of relative positions, with rotary
embeddings, and with indices of attention."""
COCA = {
    "embed_dim": 32,
    "custom_text": True,
    "vision_cfg": VISION
    | {"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
    "text_cfg": {**TEXT, "context_length": 76, "embed_cls": True, "output_tokens": True},
    "multimodal_cfg": {"context_length": 76, "width": 64, "heads": 2, "layers": 1},
}  # fmt: skip
HUB_TEXTS = {
    "roberta": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    | {"intermediate_size": 64, "vocab_size": 30, "max_position_embeddings": 40, "pad_token_id": 1},
    "mt5": {"d_model": 32, "num_layers": 2, "num_heads": 2, "d_ff": 64, "d_kv": 16}
    | {"vocab_size": 30, "pad_token_id": 0},
}
"""Configurations of the transformers library, which open_clip has text towers of."""
TIMM = "timm"
FORWARD = f"""
import sys, torch
from pathlib import Path
from skymark.suites.clip.encoding.libraries import COMPILER, OPTIONAL, import_open_clip, provide

root, how, out = sys.argv[1:]
if how == "late":
    import_open_clip()
import open_clip
open_clip.add_model_config(Path(root))
if how == "late":
    open_clip.create_model("without", load_weights=False)
    assert not {{COMPILER, *OPTIONAL}} & sys.modules.keys()
    for library in OPTIONAL:
        provide(library)
from torch._dynamo.utils import is_compile_supported
import torchvision
here = sys.modules["torchvision.ops.roi_align"]
assert here.is_compile_supported("cpu") == is_compile_supported("cpu")
tokens = torch.arange(40).reshape(2, 20) % 28 + 2
tokens[1, 9:] = 1
pixels = torch.arange(3 * 224 * 224.0).reshape(1, 3, 224, 224).sin()
features = {{}}
for architecture in {[*HUB_TEXTS, TIMM]}:
    torch.manual_seed(1)
    network = open_clip.create_model(architecture, load_weights=False, pretrained_text=False)
    encode = network.eval().encode_image if architecture == "{TIMM}" else network.eval().encode_text
    with torch.inference_mode():
        features[architecture] = encode(pixels if architecture == "{TIMM}" else tokens)
torch.save(features, out)
"""


def write_architecture(root, name, configuration):
    """Make an architecture known to open_clip."""
    import open_clip

    place = root / f"architectures-{name}"
    place.mkdir(exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(configuration))
    open_clip.add_model_config(place)
    return name


def hub_text(root, kind):
    """Write a text model as the hub has it, with a tokenizer of a few words; returns its tower."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    place = root / kind
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps({"model_type": kind, **HUB_TEXTS[kind]}))
    words = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", bos_token="<s>"
    ).save_pretrained(place)
    return {"hf_model_name": str(place), "hf_tokenizer_name": str(place), "context_length": 16}


def with_timm(tower):
    """Return the configuration of an architecture with a vision tower of timm."""
    vision = {"timm_model_name": tower, "timm_pool": "", "timm_proj": "linear"}
    vision |= {"image_size": 224, "timm_model_pretrained": False}
    return {"embed_dim": 32, "vision_cfg": vision, "text_cfg": TEXT}


def architecture_of(kind, root):
    """Return the name of an architecture of a kind, which open_clip knows from now on."""
    if kind == "coca":
        return write_architecture(root, "tiny-coca", COCA)
    if kind in HUB_TEXTS:
        text = hub_text(root, kind)
        configuration = {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": text}
        return write_architecture(root, f"tiny-{kind}", configuration)
    if kind in TIMM_NAMES:
        return write_architecture(root, f"timm-{kind}", with_timm(kind))
    return kind


def all_tensors(network):
    """Return the parameters, the buffers and the tensors that are neither, by name."""
    plain = {
        f"{place}.{name}": one
        for place, module in network.named_modules()
        for name, one in vars(module).items()
        if isinstance(one, torch.Tensor)
    }
    return {**dict(network.named_parameters()), **dict(network.named_buffers()), **plain}


def content_of(tensor):
    """Return all that a tensor is, NaN included: open_clip leaves one of CoCa's as memory was."""
    return tensor.dtype, tensor.shape, tensor.detach().contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    "kind",
    ["tiny-ViT", "tiny-RN", "tiny-custom", "ViT-S-32-alt", "RN50", "coca", *TIMM_NAMES, *HUB_TEXTS],
)
def test_a_network_is_that_of_open_clip_in_every_tensor_and_in_the_generator_after_it(
    bench, tmp_path, kind
):
    import open_clip

    architecture = architecture_of(kind, tmp_path)
    file = tmp_path / "weights.pt"
    torch.manual_seed(5)
    first = open_clip.create_model(architecture, load_weights=False, pretrained_text=False)
    torch.save(first.state_dict(), file)
    torch.manual_seed(9)
    expected = open_clip.create_model(architecture, pretrained=str(file))
    state = torch.get_rng_state()

    model = bench.model_of(architecture, file)
    torch.manual_seed(1234)
    loaded = load_model(model, torch.device("cpu"), seed=9)
    wanted, found = all_tensors(expected), all_tensors(loaded.network)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if content_of(found[name]) != content_of(wanted[name])] == []
    assert torch.equal(loaded.random_state, state), "a linear probe draws from there"
    assert loaded.tokenizer(["a b"]).shape == (1, loaded.tokenizer.context_length)


def test_architectures_share_a_tokenizer_where_open_clip_makes_the_same(bench, tmp_path):
    from open_clip import get_model_config

    short = {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": {**TEXT, "context_length": 16}}
    write_architecture(tmp_path, "tiny-short", short)
    tokenizers = {
        name: loading._tokenizer_of(name, get_model_config(name)["text_cfg"])
        for name in ("tiny-ViT", "tiny-RN", "tiny-short")
    }
    assert tokenizers["tiny-ViT"] is tokenizers["tiny-RN"]
    assert tokenizers["tiny-short"](["a cat"]).shape == (1, 16)
    assert tokenizers["tiny-ViT"](["a cat"]).shape == (1, 77)


def test_random_weights_are_not_drawn():
    with blank_weights():
        layer = torch.nn.Linear(4, 4)
        counted = torch.arange(4) * 2
    assert layer.weight.isnan().all()
    assert counted.tolist() == [0, 2, 4, 6]
    assert not torch.nn.Linear(4, 4).weight.isnan().any()


class WithNoise(torch.nn.Module):
    """A layer with random numbers that no checkpoint has."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("noise", torch.zeros(3).normal_(), persistent=False)
        self.register_buffer("mask", torch.full((3,), float("-inf")), persistent=False)


def test_a_tensor_that_no_checkpoint_gives_and_that_would_be_random_is_found():
    with blank_weights():
        network = torch.nn.Sequential(WithNoise())
    assert still_blank(network) == ["0.noise"]
    assert still_blank(torch.nn.Sequential(WithNoise())) == []


def test_a_model_with_such_a_tensor_is_refused(bench, monkeypatch):
    monkeypatch.setattr(loading, "still_blank", lambda network: ["visual.noise"])
    with pytest.raises(DataError, match=r"visual\.noise.*\btiny-ViT\b"):
        bench.result()


def test_what_only_some_towers_use_is_imported_for_them_alone_and_then_they_are_the_same(
    made, tmp_path
):
    place = tmp_path / "architectures"
    place.mkdir()
    texts = {"without": TEXT, **{kind: hub_text(tmp_path, kind) for kind in HUB_TEXTS}}
    for name, text in texts.items():
        configuration = {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": text}
        (place / f"{name}.json").write_text(json.dumps(configuration))
    (place / f"{TIMM}.json").write_text(json.dumps(with_timm(TIMM_NAMES[0])))
    features = {}
    for how in ("early", "late"):
        out = tmp_path / f"{how}.pt"
        command = [sys.executable, "-c", FORWARD, str(place), how, str(out)]
        subprocess.run(command, check=True, timeout=300)
        features[how] = torch.load(out)
    for kind in (*HUB_TEXTS, TIMM):
        assert torch.equal(features["early"][kind], features["late"][kind])
