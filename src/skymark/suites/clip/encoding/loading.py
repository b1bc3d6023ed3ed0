"""Loading of open_clip models: the checks come before the weights, the weights before any data."""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from skymark.model.base import digest_of
from skymark.model.errors import DataError, UnknownNameError
from skymark.suites.clip.encoding.activation import check_tag
from skymark.suites.clip.encoding.blank_weights import blank_weights, still_blank
from skymark.suites.clip.encoding.libraries import provide_transformers
from skymark.suites.clip.pixels.preprocessing import Preprocessing
from skymark.suites.clip.specification import OPEN_CLIP_DEFAULT, Model

TOKENIZER_FIELDS = ("context_length", "hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs")
"""Of a text tower's configuration: all that open_clip makes a tokenizer from."""
RUNS_CODE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
RUNS_NO_CODE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Variables by which `torch.load` takes its default for ``weights_only``."""
_TOKENIZERS: dict[str, Any] = {}
"""By what they are made from: each reads a vocabulary, and remembers words."""


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, in fp32, with what belongs to it."""

    specification: Model
    network: Any
    tokenizer: Any
    preprocessing: Preprocessing
    device: Any
    """`torch.device`."""
    seed: int

    @cached_property
    def random_state(self) -> Any:
        """State of torch's generator after random weights were drawn: linear probes go on there."""
        import open_clip
        import torch

        log = logging.getLogger()
        level = log.level
        log.setLevel(logging.ERROR)  # open_clip warns of a model without weights
        try:
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(self.seed)
                open_clip.create_model(
                    self.specification.architecture, load_weights=False, pretrained_text=False
                )
                return torch.get_rng_state()
        finally:
            log.setLevel(level)


def configuration_of(architecture: str) -> dict[str, Any]:
    """Return open_clip's configuration of an architecture.

    Raises:
        UnknownNameError: there is none.
    """
    import open_clip

    found: dict[str, Any] | None = open_clip.get_model_config(architecture)
    if found is None:
        raise UnknownNameError("architecture", architecture, open_clip.list_models())
    return found


def preprocessing_of(model: Model) -> Preprocessing:
    """Return a model's preprocessing without loading it.

    Raises:
        UnknownNameError: there is no such architecture or tag.
        UsageError: the tag's weights were trained with another activation.
    """
    from dataclasses import asdict

    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    configuration = configuration_of(model.architecture)
    tagged = check_tag(model, configuration) or family_settings(model)
    settings = merge_preprocess_dict(asdict(PreprocessCfg()), tagged)
    settings["size"] = configuration["vision_cfg"].get("image_size", 224)
    return Preprocessing.of(_canonical(settings))


def family_settings(model: Model) -> dict[str, Any]:
    """Return open_clip's settings of the tag whose preprocessing a file takes, {} for its default.

    Raises:
        UnknownNameError: open_clip has no such tag of the architecture.
    """
    import open_clip

    tag = model.weights.preprocessing_of
    if tag in {None, OPEN_CLIP_DEFAULT}:
        return {}
    found: dict[str, Any] = open_clip.get_pretrained_cfg(model.architecture, tag)
    if not found:
        known = open_clip.list_pretrained_tags_by_model(model.architecture)
        raise UnknownNameError(f"weights of {model.architecture}", str(tag), known)
    return found


def load_model(model: Model, device: Any, seed: int) -> LoadedModel:
    """Load a model with its weights onto a device.

    Weights that are pickled are read with ``weights_only=True``, in every attempt of open_clip's:
    it makes another without that argument, where the first one ends in a TypeError.

    Raises:
        DataError: the file is another than planned, damaged, or of another architecture.
        UnknownNameError: there is no such architecture or tag.
        UsageError: the tag's weights were trained with another activation.
    """
    import open_clip
    import torch

    os.environ.pop(RUNS_CODE, None)
    os.environ[RUNS_NO_CODE] = "1"
    configuration = configuration_of(model.architecture)
    check_tag(model, configuration)
    weights = model.weights
    if weights.file is not None:
        check_file(Path(weights.file), weights.sha256)
    if configuration["text_cfg"].get("hf_model_name"):
        provide_transformers()
    # The generator's state must not depend on what ran before in this process.
    torch.manual_seed(seed)
    logging.getLogger().setLevel(logging.WARNING)
    try:
        with blank_weights():
            network = open_clip.create_model(
                model.architecture,
                pretrained=weights.tag or weights.file,
                weights_only=True,
                force_preprocess_cfg=family_settings(model),
            )
    except (RuntimeError, KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise DataError(_reason(model, error)) from error
    except Exception as error:
        # Errors of unpickling have no common base; what else goes wrong is no matter of weights.
        if type(error).__name__ not in {"UnpicklingError", "SafetensorError"}:
            raise
        raise DataError(_reason(model, error)) from error
    if blank := still_blank(network):
        raise DataError(
            f"{weights.tag or weights.file} has no values for {', '.join(blank)} of "
            f"{model.architecture}, which would be random; use another architecture"
        )
    preprocessing = Preprocessing.of(_canonical(network.visual.preprocess_cfg))
    return LoadedModel(
        specification=model,
        network=network.eval().requires_grad_(requires_grad=False).to(device),
        tokenizer=_tokenizer_of(model.architecture, configuration["text_cfg"]),
        preprocessing=preprocessing,
        device=device,
        seed=seed,
    )


def _tokenizer_of(architecture: str, text: dict[str, Any]) -> Any:
    """Return open_clip's tokenizer of an architecture; architectures with the same one share it."""
    import open_clip

    settings = {name: text.get(name) for name in TOKENIZER_FIELDS}
    # Where a name has this in it, open_clip goes by the name.
    key = digest_of([settings, architecture if "siglip" in architecture.lower() else None])
    if key not in _TOKENIZERS:
        _TOKENIZERS[key] = open_clip.get_tokenizer(architecture)
    return _TOKENIZERS[key]


def check_file(file: Path, sha256: str | None) -> None:
    """Refuse a file of weights that is not the one that was planned.

    Raises:
        DataError: it is missing, empty or another.
    """
    if not file.is_file() or file.stat().st_size == 0:
        raise DataError(f"{file} is missing or has 0 bytes; give a file of weights")
    found = _digest_of(file, file.stat().st_mtime_ns)
    if found != sha256:
        raise DataError(
            f"{file} has the SHA-256 digest {found[:16]}…, and the plan {str(sha256)[:16]}…: "
            "it was changed since; plan again"
        )


@cache
def _digest_of(file: Path, modified_ns: int) -> str:
    """Return the SHA-256 hex digest of a file as it is since a time; many cells ask for it."""
    del modified_ns
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _reason(model: Model, error: Exception) -> str:
    """Say what is wrong with weights, in a line."""
    weights = model.weights.tag or model.weights.file
    text = " ".join(str(error).split())
    short = text if len(text) < 400 else f"{text[:400]}…"
    if "size mismatch" in text or "Missing key" in text or "Unexpected key" in text:
        return f"{weights} holds weights of another architecture than {model.architecture}: {short}"
    return f"{weights} cannot be loaded as {model.architecture}: {short}"


def _canonical(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of preprocessing in one form: models give the size in several."""
    size = settings["size"]
    if not isinstance(size, int):
        height, width = size
        size = int(height) if height == width else (int(height), int(width))
    mean, std = (tuple(settings[name]) for name in ("mean", "std"))
    return {**settings, "size": size, "mean": mean, "std": std}
