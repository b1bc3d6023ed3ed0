"""Features of images and texts: one model, one precision, the largest batch that fits."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skymark.cache.location import own_cache
from skymark.machine.private_directory import own_folder
from skymark.model.errors import SkymarkError
from skymark.suites.clip.encoding.batches import (
    CPU_IMAGES,
    CPU_INPUTS,
    LARGEST,
    TRIAL,
    fed,
    free_bytes,
    is_out_of_memory,
    largest_batch,
)
from skymark.suites.clip.encoding.loading import LoadedModel
from skymark.suites.clip.encoding.timed import DeviceSpan, HostSpan, timed
from skymark.suites.clip.pixels.preprocessing import PixelMap
from skymark.suites.clip.specification import Precision

WARM_UP = 8
"""Images, and texts, that warm an encoder on a CPU."""
START, END = "<start_of_text>", "<end_of_text>"
"""Tokens around a caption."""


def dtype_of(precision: Precision) -> Any:
    """Return the `torch.dtype` of weights and inputs; ``amp`` keeps them in fp32."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


def casting(precision: Precision, device: Any) -> AbstractContextManager[Any]:
    """Return the context for encoders: autocast for ``amp``, as in clip_benchmark."""
    import torch

    return torch.autocast(device.type) if precision == "amp" else nullcontext()


class OutOfMemoryError(SkymarkError):
    """Not even one image or text fits into memory."""

    exit_code = 1


@dataclass
class EncoderTime:
    """Time and batches of the encoders during one cell."""

    image_batches_ns: list[int] = field(default_factory=list)
    """Time of each batch of images through the encoder."""
    image_batches: list[int] = field(default_factory=list)
    """Images of each batch."""
    images_ns: int = 0
    """From the first read of cached pixels to the last features on the host."""
    text_ns: int = 0
    images: int = 0
    captions: int = 0
    """Captions written."""
    captions_ns: int = 0
    """From the first read of cached pixels to the last caption."""

    @property
    def encoder_s(self) -> float:
        """Time of both encoders, and of writing captions, in seconds."""
        return (sum(self.image_batches_ns) + self.text_ns) / 1e9


@dataclass(frozen=True)
class Settings:
    """Settings of the encoders, from a cell's specification."""

    precision: Precision
    batch_size: int | None
    compile: bool
    channels_last: bool
    drop_text_tail: bool


class ImageBatch(NamedTuple):
    """Features that a device may still be computing, and their time."""

    features: Any
    span: HostSpan | DeviceSpan


class Encoder:
    """The image and text encoder of a loaded model."""

    def __init__(self, loaded: LoadedModel, settings: Settings) -> None:
        import torch

        self.loaded = loaded
        self.settings = settings
        self.device = loaded.device
        self.dtype = dtype_of(settings.precision)
        self.network = loaded.network.to(self.dtype)
        if settings.channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
        self._encode_image: Callable[[Any], Any] = self.network.encode_image
        if settings.compile:
            # The default is /tmp with the user's name: others could put pickles and code there.
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(own_folder(own_cache() / "inductor"))
            self._encode_image = torch.compile(self.network.encode_image)
        self.drops_tail = settings.drop_text_tail and can_drop(self.network)
        # Rounded on the host: CUDA multiplies by the reciprocal instead of dividing.
        self._normalised: Any = None
        if (normalised := loaded.preprocessing.normalised) is not None:
            self._normalised = torch.from_numpy(normalised).to(self.dtype).to(self.device)
        self.batch_size = settings.batch_size or self._found_batch_size()
        self.asked_batch_size = self.batch_size
        self.work = EncoderTime()
        self._warmed: set[tuple[int, ...]] = set()

    # Images

    def images(self, pixels: PixelMap) -> Any:
        """Return the features of all images: float32 of shape (images, dimensions), on the host.

        Raises:
            OutOfMemoryError: not even one image fits.
        """
        begin = time.perf_counter_ns()
        features = self._features_from(pixels, 0, self.encoded)
        self.work.images += len(pixels)
        self.work.images_ns += time.perf_counter_ns() - begin
        return features

    def captions(self, pixels: PixelMap) -> list[str]:
        """Return the caption that a CoCa model writes for each image.

        Raises:
            OutOfMemoryError: not even one image fits.
        """
        begin = time.perf_counter_ns()
        tokens = self._features_from(pixels, 0, self.caption_tokens)
        self.work.captions += len(pixels)
        self.work.captions_ns += time.perf_counter_ns() - begin
        return captions_of(tokens)

    def caption_tokens(self, tensor: Any) -> Any:
        """Return captions of normalised images: int64 of shape (images, positions), on the device.

        As in clip_benchmark, ``amp`` casts nothing here.
        """
        import torch

        with torch.inference_mode():
            return self.network.generate(tensor, fixed_output_length=True)

    def _features_from(self, pixels: PixelMap, start: int, encode: Callable[[Any], Any]) -> Any:
        """Return the features, or the captions' tokens, of the images from number `start` on."""
        import torch

        features: list[Any] = []
        under_way: deque[ImageBatch] = deque()
        while start < len(pixels):
            try:
                for batch in fed(pixels, start, self.batch_size, self.device):
                    under_way.append(self._image_batch(batch, encode))
                    start += len(batch)
                    # Give the device the next batch before waiting for this one's features.
                    if len(under_way) > 1:
                        features.append(self._finished(under_way.popleft()))
            except (RuntimeError, MemoryError) as error:
                self._make_smaller(error)
            features += [self._finished(one) for one in under_way]
            under_way.clear()
        return torch.cat(features)

    def image_tensor(self, batch: Any) -> Any:
        """Return normalised images of shape (images, 3, height, width), in the encoder's precision.

        A table of the host gives the values, so every device has the same.

        Args:
            batch: uint8 of the same shape, or float32 that is normalised already; on the device.
        """
        import torch

        last = self.settings.channels_last
        layout = torch.channels_last if last else torch.contiguous_format
        if self._normalised is None:
            return batch.to(self.dtype, memory_format=layout)
        tensor = torch.empty(
            batch.shape, dtype=self.dtype, device=batch.device, memory_format=layout
        )
        for channel, values in enumerate(self._normalised):
            plane = batch[:, channel]
            tensor[:, channel] = values.index_select(0, plane.flatten().int()).view(plane.shape)
        return tensor

    def encoded(self, tensor: Any) -> Any:
        """Return the features of normalised images, on the device, in fp32."""
        import torch

        with torch.inference_mode(), casting(self.settings.precision, self.device):
            features = self._encode_image(tensor)
        return features.float()

    def _image_batch(self, batch: Any, encode: Callable[[Any], Any]) -> ImageBatch:
        tensor = self.image_tensor(batch)
        count = len(tensor)
        if self.settings.compile and count < self.batch_size:
            # Another batch size would need another compilation.
            tensor = _padded(tensor, self.batch_size)
        span = timed(self.device)
        with span:
            features = encode(tensor)
        return ImageBatch(features[:count], span)

    def _finished(self, batch: ImageBatch) -> Any:
        """Wait for a batch's features, and return them on the host."""
        self.work.image_batches_ns.append(batch.span.ns)
        self.work.image_batches.append(len(batch.features))
        return batch.features.cpu()

    # Texts

    def texts(self, texts: Sequence[str]) -> Any:
        """Return the features of texts: float32 of shape (texts, dimensions), on the host.

        Equal texts are encoded once; texts of like length share a batch.

        Raises:
            OutOfMemoryError: not even one text fits.
        """
        import torch

        unique = list(dict.fromkeys(texts))
        place = {text: number for number, text in enumerate(unique)}
        tokens = self.loaded.tokenizer(unique)
        lengths = lengths_of(self.network, tokens) if self.drops_tail else None
        order = torch.arange(len(unique)) if lengths is None else lengths.argsort(stable=True)
        found: Any = None
        start, size = 0, self.batch_size
        while start < len(unique):
            chosen = order[start : start + size]
            whole = tokens.shape[1]
            positions = None if lengths is None else kept_positions(lengths[chosen], whole)
            try:
                features = self._text_batch(tokens[chosen], positions)
            except (RuntimeError, MemoryError) as error:
                self._make_smaller(error)
                size = self.batch_size
                continue
            if found is None:
                found = torch.empty(len(unique), features.shape[1])
            found[chosen] = features
            start += size
        return found[torch.tensor([place[text] for text in texts])]

    def _text_batch(self, tokens: Any, positions: int | None) -> Any:
        import torch

        tokens = tokens.to(self.device)
        shortened = nullcontext() if positions is None else Shortened(self.network, positions)
        span = timed(self.device)
        with (
            span,
            shortened,
            torch.inference_mode(),
            casting(self.settings.precision, self.device),
        ):
            features = self.network.encode_text(tokens[:, :positions]).float()
        self.work.text_ns += span.ns
        return features.cpu()

    # Before the clock starts

    def warm(self, pixels: Sequence[PixelMap], texts: Sequence[str]) -> None:
        """Encode batches of a cell's shapes, unless an earlier cell had them.

        Then no rate includes the first use of a device, its libraries or a compiled encoder. On a
        CPU that compiles nothing, `WARM_UP` images and texts suffice for all shapes.

        Args:
            pixels: of the cell's images; their last batches are encoded.
            texts: of the cell; some of them are encoded.

        Raises:
            OutOfMemoryError: not even one image or text fits.
        """
        for one in pixels:
            if not self._image_shapes(len(one)) <= self._warmed:
                whole = len(one) // self.batch_size
                is_new = (self.batch_size,) not in self._warmed
                start = (
                    (whole - is_new) * self.batch_size
                    if self._prepares_shapes
                    else len(one) - WARM_UP
                )
                self._features_from(one, max(0, start), self.encoded)
                self._warmed |= self._image_shapes(len(one))
        unique = list(dict.fromkeys(texts))
        if unique:
            self._warm_texts(unique)

    def _warm_texts(self, unique: list[str]) -> None:
        total, size = len(unique), self.batch_size
        count = total if total <= size else size + total % size
        if not self._prepares_shapes:
            count = min(WARM_UP, total)
        some = [unique[number * total // count] for number in range(count)]
        tokens = self.loaded.tokenizer(some)
        positions = tokens.shape[1]
        if self.drops_tail:
            positions = kept_positions(lengths_of(self.network, tokens), positions)
        sizes = _batch_sizes(total, size)
        shapes = {(rows, positions) for rows in sizes} if self._prepares_shapes else {(WARM_UP, 0)}
        if not shapes <= self._warmed:
            self.texts(some)
            self._warmed |= shapes

    def _image_shapes(self, count: int) -> set[tuple[int, ...]]:
        if not self._prepares_shapes:
            return {(WARM_UP,)}
        return {(rows,) for rows in _batch_sizes(count, self.batch_size)}

    @property
    def _prepares_shapes(self) -> bool:
        """Whether the first batch of a shape is slow: kernels are chosen or compiled for it."""
        return self.device.type != "cpu" or self.settings.compile

    # For comparison

    def plain_image_features(self, tensors: Any) -> Any:
        """Return features of normalised images from the uncompiled network, on the host."""
        import torch

        with torch.inference_mode(), casting(self.settings.precision, self.device):
            return self.network.encode_image(tensors.to(self.device)).float().cpu()

    def plain_text_features(self, texts: list[str]) -> Any:
        """Return features of texts from the network in full length, on the host."""
        import torch

        tokens = self.loaded.tokenizer(texts).to(self.device)
        with torch.inference_mode(), casting(self.settings.precision, self.device):
            return self.network.encode_text(tokens).float().cpu()

    # Memory and time

    def _found_batch_size(self) -> int:
        """Return the largest useful batch for the memory, from a small trial batch."""
        import torch

        if self.device.type != "cuda":
            _, height, width = self.loaded.preprocessing.shape
            taken = CPU_INPUTS * 4 * 3 * height * width
            return largest_batch(free_bytes(self.device), taken, CPU_IMAGES)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        shape = (TRIAL, *self.loaded.preprocessing.shape)
        dtype = torch.float32 if self._normalised is None else torch.uint8
        self.encoded(self.image_tensor(torch.zeros(shape, dtype=dtype, device=self.device)))
        taken = torch.cuda.max_memory_allocated(self.device) - before
        return largest_batch(free_bytes(self.device), taken / TRIAL, LARGEST)

    def _make_smaller(self, error: BaseException) -> None:
        """Halve the batch after an out-of-memory error; raise any other error.

        Raises:
            OutOfMemoryError: the batch is one image already.
        """
        import torch

        if not isinstance(error, MemoryError) and not is_out_of_memory(error):
            raise error
        if self.batch_size == 1:
            raise OutOfMemoryError(
                f"{self.loaded.specification.architecture} does not fit into the memory given, not "
                "even with one image at a time; give it a larger share, or run fewer side by side"
            ) from error
        self.batch_size //= 2
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def captions_of(tokens: Any) -> list[str]:
    """Return the captions of tokens, int64 of shape (images, positions), as clip_benchmark does."""
    from open_clip.tokenizer import _tokenizer

    texts = [_tokenizer.decode(one) for one in tokens.cpu().numpy()]
    return [one.split(END)[0].replace(START, "").strip() for one in texts]


def _batch_sizes(count: int, size: int) -> set[int]:
    """Return the sizes of batches for a number of elements: whole batches, and the rest."""
    whole, rest = divmod(count, size)
    return {one for one in (size if whole else 0, rest) if one}


def _padded(tensor: Any, count: int) -> Any:
    import torch

    missing = torch.zeros((count - len(tensor), *tensor.shape[1:]), dtype=tensor.dtype)
    return torch.cat([tensor, missing.to(tensor.device)])


# Text positions after the end token: behind a causal mask, the pooled token does not see them

STEP = 16
"""Texts keep a multiple of this number of positions. With steps of 16, features in fp32 equalled
the full length's to the last bit; with steps of 8, sums were rounded differently and images at
equal distance changed places. Seen with ViT-B-32 and two models of the parity table, on a CPU with
AVX-512."""


def can_drop(network: Any) -> bool:
    """Whether a text encoder pools at the end token and positions see earlier positions only."""
    text = getattr(network, "text", network)
    if getattr(text, "attn_mask", None) is None or getattr(text, "cls_emb", None) is not None:
        return False
    return _pool_type(text) in {"argmax", "eos"} and not getattr(text, "use_pad_mask", False)


def lengths_of(network: Any, tokens: Any) -> Any:
    """Return the number of positions of each text, its end token included.

    Args:
        network: an open_clip model that `can_drop` accepts.
        tokens: int64 of shape (texts, positions).
    """
    text = getattr(network, "text", network)
    if _pool_type(text) == "argmax":
        return tokens.argmax(dim=-1) + 1
    end = getattr(text, "text_eos_id", None) or text.eos_id
    return (tokens == end).int().argmax(dim=-1) + 1


def kept_positions(lengths: Any, whole: int) -> int:
    """Return the number of positions that a batch keeps: its longest text, rounded up to `STEP`.

    Args:
        lengths: int64 of shape (texts,): positions of each text, from `lengths_of`.
        whole: positions of the encoder.
    """
    return min(whole, -(-int(lengths.max()) // STEP) * STEP)


class Shortened:
    """Context that shortens a text encoder to fewer positions."""

    def __init__(self, network: Any, positions: int) -> None:
        self._text = getattr(network, "text", network)
        self._positions = positions
        self._whole: tuple[Any, Any] | None = None

    def __enter__(self) -> None:
        """Cut the positional embedding and the mask."""
        import torch

        text, count = self._text, self._positions
        self._whole = text.positional_embedding, text.attn_mask
        cut = torch.nn.Parameter(text.positional_embedding[:count], requires_grad=False)
        text.positional_embedding, text.attn_mask = cut, text.attn_mask[:count, :count]

    def __exit__(self, *_: object) -> None:
        """Restore the embedding and the mask."""
        if self._whole is not None:
            self._text.positional_embedding, self._text.attn_mask = self._whole


def _pool_type(text: Any) -> str | None:
    found: str | None = getattr(text, "text_pool_type", None) or getattr(text, "pool_type", None)
    return found
