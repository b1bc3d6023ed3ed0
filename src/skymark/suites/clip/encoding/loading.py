"""Loading of models: first the checks, then the weights, then any data."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from skymark.model.base import digest_of
from skymark.model.errors import (
    ChangedSincePlanError,
    DataError,
    UnknownNameError,
    UsageError,
)
from skymark.suites.clip.encoding.libraries import provide
from skymark.suites.clip.encoding.other_models import (
    forget_other_models,
    other_model,
    state_digest,
)
from skymark.suites.clip.encoding.states import StateReader
from skymark.suites.clip.models.choosing import NO_CAPTIONS, configuration_in, digest_of_folder
from skymark.suites.clip.models.own_weights import HUB_CONFIGURATION
from skymark.suites.clip.names import LISTING
from skymark.suites.clip.pixels.preprocessing import Preprocessing
from skymark.suites.clip.specification import OPEN_CLIP_DEFAULT, Model


def blank_weights() -> AbstractContextManager[Any]:
    """Return a context that fills tensors with NaN in place of random numbers.

    Other values, such as masks and positions that no checkpoint has, are computed as usual.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Blank(TorchDispatchMode):  # type: ignore[misc]  # torch is not installed here
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            draws = torch.Tag.nondeterministic_seeded in function.tags
            in_place = str(function.overloadpacket).endswith("_")
            if draws and in_place and args[0].is_floating_point():
                return args[0].fill_(float("nan"))
            return function(*args, **(kwargs or {}))

    return Blank()


def still_blank(network: Any) -> list[str]:
    """Return the names of tensors with NaN that no checkpoint has filled; empty if all is well.

    open_clip refuses a checkpoint that leaves a parameter unfilled.
    """
    import torch

    given = {id(one) for one in network.state_dict(keep_vars=True).values()}
    return [
        f"{place}.{name}".lstrip(".")
        for place, module in network.named_modules()
        for name, one in {**vars(module), **dict(module.named_buffers(recurse=False))}.items()
        if isinstance(one, torch.Tensor) and id(one) not in given
        if one.is_floating_point() and bool(one.isnan().any())
    ]


def provide_captions(loaded: LoadedModel) -> None:
    """Show the transformers library to a CoCa model, which writes captions with it.

    Raises:
        DataError: the model writes no captions.
    """
    if not hasattr(loaded.network, "generate"):
        raise DataError(f"{loaded.specification.reference} {NO_CAPTIONS}")
    provide("transformers")


def check_tag(model: Model, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return open_clip's settings of a tag, {} for a file of weights.

    Raises:
        UnknownNameError: open_clip has no such tag of the architecture.
        UsageError: the tag's weights do not fit the architecture's activation.
    """
    tag = model.weights.tag
    if tag is None:
        return {}
    found = _settings_of_tag(model.architecture, tag)
    has, wants = (bool(one.get("quick_gelu", False)) for one in (configuration, found))
    if has != wants:
        plain = model.architecture.removesuffix("-quickgelu")
        better = f"{plain}-quickgelu" if wants else plain
        raise UsageError(
            f"{model.architecture}:{tag} would be scored with the wrong activation: its weights "
            f"were trained {'with' if wants else 'without'} QuickGELU; use {better}:{tag}"
        )
    return found


def _settings_of_tag(architecture: str, tag: str) -> dict[str, Any]:
    """Return open_clip's settings of a tag.

    Raises:
        UnknownNameError: the architecture has no such tag.
    """
    import open_clip

    found: dict[str, Any] = open_clip.get_pretrained_cfg(architecture, tag)
    if not found:
        known = open_clip.list_pretrained_tags_by_model(architecture)
        raise UnknownNameError(f"weights of {architecture}", tag, known)
    return found


def activations_of(network: Any) -> dict[str, int]:
    """Count the layers of each kind of GELU in a network."""
    names = Counter(
        type(module).__name__.removesuffix("Activation") for module in network.modules()
    )
    return {name: count for name, count in sorted(names.items()) if name.endswith("GELU")}


def tokenizer_title(tokenizer: Any) -> str:
    """Return the kind of a tokenizer and its number of positions, for the record's conditions."""
    kind = getattr(tokenizer, "title", type(tokenizer).__name__)
    length = getattr(tokenizer, "context_length", None)
    return kind if length is None else f"{kind}, {length} positions"


TOKENIZER_FIELDS = ("context_length", "hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs")
"""Fields of a text tower's configuration that decide open_clip's tokenizer."""
RUNS_CODE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
RUNS_NO_CODE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Variables that set the default of ``weights_only`` for `torch.load`."""
_TOKENIZERS: dict[str, Any] = {}
"""Tokenizers by digest of their settings; each reads a vocabulary and remembers words."""


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device, in fp32, with its tokenizer and preprocessing."""

    specification: Model
    network: Any
    tokenizer: Any
    preprocessing: Preprocessing
    device: Any
    """`torch.device`."""
    seed: int
    weights_digest: str | None = None
    """SHA-256 hex digest of the file or folder of weights, or of the state that Python made."""

    @cached_property
    def random_state(self) -> Any:
        """State of torch's generator after it drew random weights; linear probes start there."""
        import open_clip
        import torch

        log = logging.getLogger()
        level = log.level
        log.setLevel(logging.ERROR)  # open_clip warns of a model without weights
        try:
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(self.seed)
                if self.specification.library == "open_clip":
                    open_clip.create_model(
                        self.specification.open_clip_name, load_weights=False, pretrained_text=False
                    )
                return torch.get_rng_state()
        finally:
            log.setLevel(level)


def configuration_of(model: Model) -> dict[str, Any]:
    """Return the configuration of a model that open_clip builds; registers the user's own.

    Raises:
        DataError: a folder's or repository's configuration cannot be read.
        UnknownNameError: open_clip does not have the architecture.
    """
    import open_clip

    if model.configuration is not None:
        check_file(Path(model.configuration.path), model.configuration.sha256)
        open_clip.add_model_config(model.configuration.path)
        own = configuration_in(Path(model.configuration.path))
        if open_clip.get_model_config(model.architecture) != own:
            raise DataError(
                f"another file has an architecture {model.architecture}; rename "
                f"{model.configuration.path}"
            )
    found: dict[str, Any] | None
    try:
        found = open_clip.get_model_config(model.open_clip_name)
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"{model.reference} has no configuration: {error}") from error
    if found is None:
        known = open_clip.list_models()
        raise UnknownNameError("architecture", model.architecture, known, listing=LISTING["model"])
    return found


def stated_preprocessing(model: Model) -> dict[str, Any]:
    """Return the preprocessing that a folder or repository states; {} for other weights."""
    if model.weights.folder is not None:
        file = Path(model.weights.folder) / HUB_CONFIGURATION
    elif model.weights.hub is not None:
        from open_clip.pretrained import download_pretrained_from_hf

        file = Path(download_pretrained_from_hf(model.weights.hub, filename=HUB_CONFIGURATION))
    else:
        return {}
    found: dict[str, Any] = json.loads(file.read_text("utf-8")).get("preprocess_cfg", {})
    return found


def preprocessing_of(model: Model) -> Preprocessing:
    """Return a model's preprocessing without loading it.

    Raises:
        UnknownNameError: open_clip has no such architecture or tag.
        UsageError: the tag's weights were trained with another activation.
    """
    from dataclasses import asdict

    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    if model.library != "open_clip":
        return other_model(model).preprocessing
    configuration = configuration_of(model)
    tagged = (
        check_tag(model, configuration) or family_settings(model) or stated_preprocessing(model)
    )
    settings = merge_preprocess_dict(asdict(PreprocessCfg()), tagged)
    settings["size"] = configuration["vision_cfg"].get("image_size", 224)
    return Preprocessing.of(_canonical({**settings, **model.pixels.given}))


def family_settings(model: Model) -> dict[str, Any]:
    """Return open_clip's settings of the tag for a file's preprocessing; {} for the default.

    Raises:
        UnknownNameError: open_clip has no such tag of the architecture.
    """
    tag = model.weights.preprocessing_of
    if tag is None or tag == OPEN_CLIP_DEFAULT:
        return {}
    return _settings_of_tag(model.architecture, tag)


def load_model(model: Model, device: Any, seed: int) -> LoadedModel:
    """Load a model with its weights onto a device.

    open_clip reads states by `StateReader`: its own reader would run what is in a pickle.

    Raises:
        DataError: the weights changed since the plan, are damaged, or fit another architecture.
        UnknownNameError: open_clip has no such architecture or tag.
        UsageError: the tag's weights were trained with another activation.
    """
    import open_clip
    import torch

    os.environ.pop(RUNS_CODE, None)
    os.environ[RUNS_NO_CODE] = "1"
    check_weights(model)
    if model.library != "open_clip":
        return _other(model, device, seed)
    configuration = configuration_of(model)
    check_tag(model, configuration)
    weights, pixels = model.weights, model.pixels
    reader = StateReader()
    if configuration["text_cfg"].get("hf_model_name"):
        provide("transformers")
    if configuration["vision_cfg"].get("timm_model_name"):
        provide("timm")
    # The generator's state must not depend on what ran before in this process.
    torch.manual_seed(seed)
    logging.getLogger().setLevel(logging.WARNING)
    try:
        with blank_weights(), reader.in_open_clip():
            network = open_clip.create_model(
                model.open_clip_name,
                pretrained=weights.tag or weights.file,
                require_pretrained=True,
                force_image_size=pixels.size,
                force_preprocess_cfg=family_settings(model) | pixels.given,
            )
    except (RuntimeError, KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise DataError(_reason(model, error)) from error
    except Exception as error:
        # Errors of unpickling have no common base class.
        if type(error).__name__ not in {"UnpicklingError", "SafetensorError"}:
            raise
        raise DataError(_reason(model, error)) from error
    if blank := still_blank(network):
        raise DataError(
            f"{weights.name} has no values for {', '.join(blank)} of "
            f"{model.architecture}, which would be random; use another architecture"
        )
    preprocessing = Preprocessing.of(_canonical(network.visual.preprocess_cfg))
    return LoadedModel(
        specification=model,
        network=network.eval().requires_grad_(requires_grad=False).to(device),
        tokenizer=_tokenizer_of(model.open_clip_name, configuration["text_cfg"]),
        preprocessing=preprocessing,
        device=device,
        seed=seed,
        weights_digest=weights.sha256 if weights.file is not None else reader.digest,
    )


def _other(model: Model, device: Any, seed: int) -> LoadedModel:
    """Load a model that open_clip does not build."""
    import torch

    torch.manual_seed(seed)
    other = other_model(model)
    forget_other_models()
    own = model.weights.sha256 if model.library == "transformers" else None
    return LoadedModel(
        specification=model,
        network=other.network.requires_grad_(requires_grad=False).to(device),
        tokenizer=other.tokenizer,
        preprocessing=other.preprocessing,
        device=device,
        seed=seed,
        weights_digest=own or state_digest(other.network),
    )


def _tokenizer_of(name: str, text: dict[str, Any]) -> Any:
    """Return open_clip's tokenizer of a model; equal tokenizers are shared."""
    import open_clip

    settings = {one: text.get(one) for one in TOKENIZER_FIELDS}
    # open_clip goes by the name if it contains this word, and by the folder for a tokenizer in it.
    own = "siglip" in name.lower() or ":" in name
    key = digest_of([settings, name if own else None])
    if key not in _TOKENIZERS:
        _TOKENIZERS[key] = open_clip.get_tokenizer(name)
    return _TOKENIZERS[key]


def check_weights(model: Model) -> None:
    """Refuse a file or folder of weights that differs from the plan's.

    Raises:
        ChangedSincePlanError: it is different.
        DataError: it is missing or empty.
    """
    weights = model.weights
    if weights.file is not None:
        check_file(Path(weights.file), weights.sha256)
    if weights.folder is not None:
        try:
            same = digest_of_folder(Path(weights.folder)) == weights.sha256
        except (OSError, UsageError) as error:
            raise DataError(f"{weights.folder} cannot be read: {error}") from error
        if not same:
            raise ChangedSincePlanError(weights.folder)


def check_file(file: Path, sha256: str | None) -> None:
    """Refuse a file of weights that differs from the plan's.

    Raises:
        ChangedSincePlanError: the file is different.
        DataError: the file is missing or empty.
    """
    if not file.is_file() or file.stat().st_size == 0:
        raise DataError(f"{file} is missing or has 0 bytes; give a file of weights")
    if _digest_of(file, file.stat().st_mtime_ns) != sha256:
        raise ChangedSincePlanError(file)


@cache
def _digest_of(file: Path, modified_ns: int) -> str:
    """Return the SHA-256 hex digest of a file, cached by its time of modification."""
    del modified_ns
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _reason(model: Model, error: Exception) -> str:
    """Return the fault of weights in one line."""
    weights = model.weights.name
    text = " ".join(str(error).split())
    short = text if len(text) < 400 else f"{text[:400]}…"
    if "size mismatch" in text or "Missing key" in text or "Unexpected key" in text:
        return f"{weights} holds weights of another architecture than {model.architecture}: {short}"
    return f"{weights} cannot be loaded as {model.architecture}: {short}"


def _canonical(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of preprocessing with the size in one form."""
    size = settings["size"]
    if not isinstance(size, int):
        height, width = size
        size = int(height) if height == width else (int(height), int(width))
    mean, std = (tuple(settings[name]) for name in ("mean", "std"))
    return {**settings, "size": size, "mean": mean, "std": std}
