"""Models of transformers, and of the user's own Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from skymark.model.errors import DataError, LibraryAbsentError
from skymark.suites.clip.models.choosing import normalisation_of
from skymark.suites.clip.pixels.preprocessing import Preprocessing
from skymark.suites.clip.specification import Model

OWN_PARTS = ("encode_image", "encode_text", "preprocess")
"""What the object of a user's Python function must have."""
FEATURES = ("get_image_features", "get_text_features")
TRIAL = (64, 48)
"""Width and height of an image of noise that shows a preprocessing's shape and steps."""


@dataclass(frozen=True)
class OtherModel:
    """A model with its tokenizer and preprocessing."""

    network: Any
    """`torch.nn.Module` with `encode_image` and `encode_text`."""
    tokenizer: Callable[[list[str]], Any]
    """From texts to a tensor whose first dimension is the texts."""
    preprocessing: Preprocessing


def other_model(model: Model) -> OtherModel:
    """Return a model that open_clip does not build, on the host; the last one is remembered.

    Raises:
        DataError: it cannot be loaded, or lacks a part.
        LibraryAbsentError: transformers is not installed here.
    """
    return _of_transformers(model) if model.library == "transformers" else _of_python(model)


def forget_other_models() -> None:
    """Let the last model go."""
    _of_transformers.cache_clear()
    _of_python.cache_clear()


@lru_cache(maxsize=1)
def _of_transformers(model: Model) -> OtherModel:
    """Load a model of transformers; code of its repository never runs."""
    import torch

    try:
        import transformers
    except ModuleNotFoundError as error:
        raise LibraryAbsentError(
            "transformers is not installed here; run: pip install transformers"
        ) from error

    class Features(torch.nn.Module):  # type: ignore[misc]  # torch is not installed here
        """Features by transformers' own functions; tokens have a row per input of a text."""

        def __init__(self, network: Any, names: Sequence[str]) -> None:
            super().__init__()
            self.network = network
            self.names = names

        def encode_image(self, images: Any) -> Any:
            return _pooled(self.network.get_image_features(pixel_values=images))

        def encode_text(self, tokens: Any) -> Any:
            inputs = dict(zip(self.names, tokens.unbind(dim=1), strict=True))
            return _pooled(self.network.get_text_features(**inputs))

    given = {"trust_remote_code": False, "local_files_only": model.weights.folder is not None}
    source = model.weights.name
    try:
        # The record has the digest of the weights, and code of the Hub is never run.
        network, info = transformers.AutoModel.from_pretrained(  # nosec B615
            source, dtype=torch.float32, output_loading_info=True, **given
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **given)  # nosec B615
        processor = transformers.AutoImageProcessor.from_pretrained(source, **given)  # nosec B615
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise DataError(f"{model.reference} cannot be loaded: {_short(error)}") from error
    if missing := [name for name in FEATURES if not hasattr(network, name)]:
        raise DataError(
            f"{model.reference} is a {type(network).__name__} without {' and '.join(missing)}; "
            "name a model of images and texts"
        )
    if missing := sorted(info["missing_keys"]):
        raise DataError(f"{model.reference} has no values for {', '.join(missing[:5])}")
    positions = getattr(network.config.get_text_config(), "max_position_embeddings", None)
    length = min(filter(None, (positions, tokenizer.model_max_length)))

    def tokens_of(texts: Sequence[str]) -> Any:
        found = tokenizer(
            list(texts),
            padding="max_length",
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
        return torch.stack([found[name] for name in names], dim=1)

    names = list(tokenizer(["a"], return_tensors="pt"))
    network = Features(network.eval(), names)
    return OtherModel(network, tokens_of, preprocessing_of_processor(processor, model.reference))


def _pooled(features: Any) -> Any:
    """Return the features of transformers' output, which is a tensor in older versions."""
    return getattr(features, "pooler_output", features)


def preprocessing_of_processor(processor: Any, name: str) -> Preprocessing:
    """Return the preprocessing of transformers' image processor.

    Raises:
        DataError: its images are no tensors of three colours in one size.
    """

    def pixels(image: Any, **given: bool) -> Any:
        return processor(images=image, return_tensors="pt", **given)["pixel_values"][0]

    noise = _noise()
    whole = pixels(noise)
    if whole.ndim != 3 or len(whole) != 3:
        raise DataError(
            f"{name} takes images of shape {tuple(whole.shape)}, such as patches of variable "
            "resolution; name a checkpoint with a fixed resolution"
        )
    raw: dict[str, bool] = {"do_rescale": False, "do_normalize": False}
    plain = dict.fromkeys(("do_resize", "do_center_crop", "do_pad"), False)
    _, height, width = whole.shape
    ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    table = pixels(ramp, **plain).numpy().reshape(3, 256)
    cut = pixels(noise, **raw).numpy()
    is_exact = cut.min() >= 0 and np.array_equal(cut, cut.astype(np.uint8))
    if is_exact:
        values = np.stack([row[one] for row, one in zip(table, cut.astype(int), strict=True)])
        is_exact = np.array_equal(values, whole.numpy())
    settings = {name: str(value) for name, value in sorted(processor.to_dict().items())}
    return Preprocessing(
        settings={**settings, "transformers": version("transformers")},
        shape=(3, int(height), int(width)),
        title=f"{type(processor).__name__} {width}x{height}",
        normalisation=normalisation_of(processor.image_mean, processor.image_std)
        if processor.do_normalize
        else "none",
        resized=lambda image: pixels(image, **(raw if is_exact else {})).numpy(),
        transform=pixels,
        normalised=table.astype(np.float32) if is_exact else None,
    )


def _noise() -> Any:
    """Return an image of every value."""
    from PIL import Image

    width, height = TRIAL
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


@lru_cache(maxsize=1)
def _of_python(model: Model) -> OtherModel:
    """Run the user's own function, and take its object's parts."""
    import torch

    file, name = Path(str(model.weights.file)), model.architecture
    made = _run(file)
    own = getattr(made, name)()
    if missing := [one for one in OWN_PARTS if not callable(getattr(own, one, None))]:
        raise DataError(
            f"{file}:{name} returned a {type(own).__name__} without {' and '.join(missing)}"
        )
    own_tokenizer = getattr(own, "tokenizer", None)

    class OwnModel(torch.nn.Module):  # type: ignore[misc]  # torch is not installed here
        """The user's object; its texts come as tokens, or as rows of UTF-8 without a tokenizer."""

        def __init__(self) -> None:
            super().__init__()
            parts = {"": own} if isinstance(own, torch.nn.Module) else vars(own)
            for part, value in parts.items():
                if isinstance(value, torch.nn.Module):
                    self.add_module(f"own_{part}", value)

        def encode_image(self, images: Any) -> Any:
            return own.encode_image(images)

        def encode_text(self, tokens: Any) -> Any:
            return own.encode_text(tokens if own_tokenizer else _texts_of(tokens))

    shape = tuple(own.preprocess(_noise()).shape)
    if len(shape) != 3:
        raise DataError(f"preprocess of {file}:{name} gives the shape {shape}, not 3 dimensions")
    preprocessing = Preprocessing.of_transform(
        own.preprocess,
        {"python": str(model.weights.sha256), "function": name},
        f"{file.name}:{name} {shape[2]}x{shape[1]}",
        shape,
    )
    return OtherModel(OwnModel().eval(), own_tokenizer or _bytes_of, preprocessing)


def _run(file: Path) -> Any:
    """Run a Python file as a module; it may import its neighbours.

    Raises:
        DataError: Python cannot load it.
    """
    spec = importlib.util.spec_from_file_location(f"skymark_own_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise DataError(f"{file} is no Python file")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _bytes_of(texts: Sequence[str]) -> Any:
    """Return texts as rows of UTF-8 bytes, padded with zeros."""
    import torch

    rows = [
        torch.frombuffer(bytearray(text.encode() or b"\0"), dtype=torch.uint8) for text in texts
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _texts_of(rows: Any) -> list[str]:
    return [bytes(row).rstrip(b"\0").decode() for row in rows.cpu().numpy()]


def state_digest(network: Any) -> str | None:
    """Return the SHA-256 hex digest of all tensors of a network; None without tensors."""
    import torch

    digest, count = hashlib.sha256(), 0
    for name, value in sorted(network.state_dict().items()):
        if isinstance(value, torch.Tensor):
            plain = value.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
            digest.update(plain.flatten().view(torch.uint8).numpy())
            count += 1
    return digest.hexdigest() if count else None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
