"""Survey open_clip's models: write their sizes and tags into the file for plans.

    python -m tests.open_clip_models

Runs in the clip suite's venv, with models on the ``meta`` device, which has shapes and no values.
Text models of the transformers library are counted by their published configurations.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skymark.suites.clip.models.choosing import normalisation_of, writes_captions

ROOT = Path(__file__).parents[1]
FILE = ROOT / "src" / "skymark" / "suites" / "clip" / "models" / "open_clip.json"

HUB_TEXTS: dict[str, tuple[int, int]] = {
    "roberta-base": (125_000_000, 86_000_000),
    "xlm-roberta-base": (278_000_000, 86_000_000),
    "xlm-roberta-large": (560_000_000, 303_000_000),
    "google/mt5-base": (277_000_000, 85_000_000),
    "google/mt5-xl": (1_670_000_000, 1_158_000_000),
    "facebook/nllb-200-distilled-600M": (414_000_000, 151_000_000),
    "facebook/nllb-200-distilled-1.3B": (766_000_000, 504_000_000),
}
"""Parameters of text encoders, with and without embeddings, from the vocabulary, width and layers
of their published configurations."""
DIGEST = re.compile(r"(?<=[/-])([0-9a-f]{64}|[0-9a-f]{8})(?=/|\.pth?$)")
"""SHA-256 digest in the address of a file of weights: a folder (OpenAI), or behind the name."""
WIDEST_TEXT_FLOATS = 8192
"""Values of one position in the widest layer of such an encoder."""


class _Live:
    """Peak memory and floating-point operations of a forward pass."""

    def __init__(self, parameters: set[int]) -> None:
        self._parameters = parameters
        self.peak_bytes = 0

    def run(self, call: Callable[[], Any]) -> int:
        """Run a forward pass and return its floating-point operations."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves
        from torch.utils.flop_counter import FlopCounterMode

        live = self

        class Watch(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                del types
                result = function(*args, **(kwargs or {}))
                live.note(
                    leaf
                    for leaf in tree_leaves((args, kwargs, result))
                    if isinstance(leaf, torch.Tensor)
                )
                return result

        with torch.inference_mode(), FlopCounterMode(display=False) as counter, Watch():
            call()
        return int(counter.get_total_flops())

    def note(self, tensors: Any) -> None:
        """Count the tensors of one operation, without the model's parameters, as live at once."""
        seen = {
            tensor.data_ptr() if tensor.device.type != "meta" else id(tensor): tensor
            for tensor in tensors
            if id(tensor) not in self._parameters
        }
        held = sum(tensor.numel() * tensor.element_size() for tensor in seen.values())
        self.peak_bytes = max(self.peak_bytes, held)


def surveyed(architecture: str) -> dict[str, int]:
    """Return the sizes of an architecture for one image and one text in fp32.

    Raises:
        Exception: open_clip or timm cannot build it.
    """
    import open_clip
    import torch

    configuration = open_clip.get_model_config(architecture)
    if text_model := configuration["text_cfg"].get("hf_model_name"):
        return _with_hub_text(configuration, text_model)
    with torch.device("meta"):
        model = open_clip.create_model(
            architecture, pretrained=None, pretrained_image=False, pretrained_text=False,
            require_pretrained=False, device="meta",
        )  # fmt: skip
    model.eval().requires_grad_(False)  # without gradients for the counter of operations
    visual = model.visual
    image_parameters = sum(one.numel() for one in visual.parameters())
    all_parameters = sum(one.numel() for one in model.parameters())
    size = visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    context = int(getattr(model, "context_length", 77))
    parameters = {id(one) for one in (*model.parameters(), *model.buffers())}
    image, text = _Live(parameters), _Live(parameters)
    image_flops = image.run(
        lambda: model.encode_image(torch.zeros(1, 3, height, width, device="meta"))
    )
    text_flops = text.run(
        lambda: model.encode_text(torch.zeros(1, context, dtype=torch.long, device="meta"))
    )
    return {
        "image_size": max(height, width),
        "context_length": context,
        "image_parameters": image_parameters,
        "text_parameters": all_parameters - image_parameters,
        "image_flops": image_flops,
        "text_flops": text_flops,
        "image_bytes": image.peak_bytes,
        "text_bytes": text.peak_bytes,
    }


def _with_hub_text(configuration: dict[str, Any], text_model: str) -> dict[str, int]:
    """Return the sizes of an architecture with a text encoder of transformers."""
    import torch
    from open_clip.model import _build_vision_tower

    with torch.device("meta"):
        visual = _build_vision_tower(
            configuration["embed_dim"],
            configuration["vision_cfg"],
            configuration.get("quick_gelu", False),
        )
    visual.eval().requires_grad_(False)
    size = configuration["vision_cfg"].get("image_size", 224)
    context = configuration["text_cfg"].get("context_length", 77)
    parameters, computing = HUB_TEXTS[text_model]
    image = _Live({id(one) for one in (*visual.parameters(), *visual.buffers())})
    image_flops = image.run(lambda: visual(torch.zeros(1, 3, size, size, device="meta")))
    return {
        "image_size": size,
        "context_length": context,
        "image_parameters": sum(one.numel() for one in visual.parameters()),
        "text_parameters": parameters,
        "image_flops": image_flops,
        "text_flops": 2 * computing * context,
        "image_bytes": image.peak_bytes,
        "text_bytes": context * WIDEST_TEXT_FLOATS * 4,
    }


def written() -> tuple[dict[str, Any], list[str]]:
    """Return the content of the file, and the architectures that failed, without sizes."""
    import open_clip
    from open_clip.pretrained import get_pretrained_cfg, list_pretrained_tags_by_model
    from open_clip.transform import PreprocessCfg

    default = asdict(PreprocessCfg())
    architectures: dict[str, Any] = {}
    problems: list[str] = []
    for name in sorted(open_clip.list_models()):
        configuration = open_clip.get_model_config(name)
        try:
            sizes = surveyed(name)
        except Exception as error:  # whatever a model's builder raises
            sizes = None
            problems.append(f"{name}: {error}")
        tags = list_pretrained_tags_by_model(name)
        architectures[name] = {
            "quick_gelu": bool(configuration.get("quick_gelu", False)),
            "sizes": sizes,
            "tags": {
                tag: bool(get_pretrained_cfg(name, tag).get("quick_gelu", False)) for tag in tags
            },
            "pixels": {
                tag: "{resize_mode} {interpolation}".format(**get_pretrained_cfg(name, tag))
                for tag in tags
            },
            "normalisation": {tag: normalised(get_pretrained_cfg(name, tag)) for tag in tags},
            "digests": {
                tag: digest for tag in tags if (digest := digest_in(get_pretrained_cfg(name, tag)))
            },
            **({"captions": True} if writes_captions(configuration) else {}),
        }
    content = {
        "open_clip": version("open_clip_torch"),
        "architectures": architectures,
        "default_preprocessing": "{resize_mode} {interpolation}, ".format(**default)
        + normalised(default),
    }
    return content, problems


def normalised(configuration: dict[str, Any]) -> str:
    """Return the normalisation of a tag's pixels in the record's form."""
    return normalisation_of(configuration["mean"], configuration["std"])


def digest_in(configuration: dict[str, Any]) -> str | None:
    """Return the start of a file's SHA-256 hex digest from its address; None without one."""
    found = DIGEST.search(configuration.get("url") or "")
    return None if found is None else found[1]


def main() -> None:
    """Write the file, in the suite's venv."""
    if find_spec("open_clip") is None:
        from skymark.cache.location import cache_directory
        from skymark.execute.venvs import Venvs
        from skymark.suites.clip.suite import VENV

        python = Venvs(cache_directory(), print).ensure(VENV).python
        paths = os.pathsep.join(map(str, (ROOT / "src", ROOT)))
        command = [str(python), "-m", "tests.open_clip_models"]
        os.execve(python, command, {**os.environ, "PYTHONPATH": paths})
    content, problems = written()
    FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
