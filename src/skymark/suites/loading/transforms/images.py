"""Images: decode, crop and resize, flip, normalise, mix, with Pillow and NumPy.

The preprocessing of CLIP is that of its reference implementation (Radford et al., "Learning
transferable visual models from natural language supervision", 2021). MixUp blends two images
(Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018);
CutMix pastes a box of one into the other (Yun et al., "CutMix: regularization strategy to train
strong classifiers with localizable features", ICCV 2019). Both mix the labels in the same shares.
The share is drawn from Beta(1, 1), which is uniform: CutMix's own choice, and MixUp's for CIFAR.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from skymark.image_formats import (
    IMAGE_FORMATS,
    OTHER_PIXELS,
    PIXELS,
    PixelsError,
    is_white_zero,
    readable,
)
from skymark.model.errors import DataError
from skymark.suites.loading.transforms.crops import central_box, pixel_box
from skymark.suites.loading.work import Parameters, Stage, Work, on

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Element

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
"""Mean and deviation per channel (red, green, blue) of ImageNet's training images, scaled to 0…1;
the values that torchvision's pretrained models document."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""Mean and deviation per channel of CLIP's training images."""

DRAWS = 4
"""Uniform numbers that the mixing of one element takes."""

Pixels = npt.NDArray[Any]
"""``[height, width, 3]``, red, green, blue."""

Box: TypeAlias = tuple[int, int, int, int]
"""Top, left, height, width in pixels."""

Crop: TypeAlias = "Callable[[Image.Image, Parameters, int], Image.Image]"


def decode_rgb(data: Any, index: int) -> Image.Image:
    """Decode an encoded image (bytes or uint8 ``[length]``) to 8-bit RGB, as `rgb` does.

    Raises:
        DataError: the bytes are of none of `IMAGE_FORMATS`, or cannot be decoded to their end.
    """
    with readable(f"the image of element {index}"):
        return rgb(Image.open(io.BytesIO(memoryview(data)), formats=IMAGE_FORMATS))


def rgb(image: Image.Image) -> Image.Image:
    """Return an opened image in 8-bit RGB: the reference of every loader.

    Pixels are as the file stores them. Alpha is dropped, as is the low byte of 16 bits. A colour
    profile and the EXIF orientation are not applied. Of several frames the first is taken.

    Raises:
        PixelsError: the pixels have no usual range, such as floating-point numbers.
    """
    if image.mode not in PIXELS:
        raise PixelsError(f"its pixels are {OTHER_PIXELS.get(image.mode, image.mode)}")
    image.load()
    image.info.pop("transparency", None)  # converting would look for its colour, and warn
    if image.mode.startswith("I;16"):
        high = (np.asarray(image) >> 8).astype(np.uint8)
        image = Image.fromarray(~high if is_white_zero(image) else high)
    return image.convert("RGB")


def decode(element: Element, parameters: Parameters) -> Element:
    """Replace ``jpeg`` (with its ``height`` and ``width``) by ``image``, a Pillow image."""
    del parameters
    return with_image(element, decode_rgb(element["jpeg"], element["index"]))


def with_image(element: Element, image: Image.Image) -> Element:
    """Put a decoded image in the place of its file."""
    kept = {k: v for k, v in element.items() if k not in {"jpeg", "height", "width"}}
    return {**kept, "image": image}


def scaled_decoder(side: int) -> Work:
    """Return work that decodes at a half, a quarter or an eighth of the size, where it is enough.

    That is where the drawn box has `side` pixels left. It skips part of the inverse DCT, and gives
    other pixels than decoding in full.
    """

    def decode_scaled(element: Element, crop: Parameters) -> Element:
        image = Image.open(io.BytesIO(memoryview(element["jpeg"])), formats=IMAGE_FORMATS)
        _, _, height, width = pixel_box(crop, image.height, image.width)
        times = max(1, min(height, width) // side)
        image.draft("RGB", (image.width // times, image.height // times))
        return with_image(element, rgb(image))

    return decode_scaled


def resize_box(image: Image.Image, box: Box, side: int) -> Image.Image:
    """Cut a box (top, left, height, width) out and resize it to a square, antialiased bilinear.

    The box is cut out first, so that no pixel outside it has weight, as in torchvision.
    """
    top, left, height, width = box
    return resized(image.crop((left, top, left + width, top + height)), side)


def resized(image: Image.Image, side: int) -> Image.Image:
    """Resize the whole image to a square, antialiased bilinear."""
    return image.resize((side, side), Image.Resampling.BILINEAR)


def drawn_crop(box_of: Callable[[Box, int, int], Box]) -> Crop:
    """Return a crop with a box made from the drawn box and the image's height and width."""

    def crop(image: Image.Image, drawn: Parameters, side: int) -> Image.Image:
        height, width = image.height, image.width
        return resize_box(image, box_of(pixel_box(drawn, height, width), height, width), side)

    return crop


def changed_crop(*by: int) -> Crop:
    """Return a crop whose box (top, left, height, width) is some pixels off."""
    top, left, height, width = by
    return drawn_crop(
        lambda box, *_: (box[0] + top, box[1] + left, box[2] + height, box[3] + width)
    )


def crop_resized_by(method: Image.Resampling) -> Crop:
    """Return a crop of the drawn box that is resized by another method."""

    def crop(image: Image.Image, drawn: Parameters, side: int) -> Image.Image:
        top, left, height, width = pixel_box(drawn, image.height, image.width)
        cut = image.crop((left, top, left + width, top + height))
        return cut.resize((side, side), method)

    return crop


def aliased_crop(image: Image.Image, drawn: Parameters, side: int) -> Image.Image:
    """Resize the drawn box bilinearly between four pixels each, without antialiasing."""
    top, left, height, width = pixel_box(drawn, image.height, image.width)
    box = (left, top, left + width, top + height)
    extent = Image.Transform.EXTENT
    return image.transform((side, side), extent, box, Image.Resampling.BILINEAR)


def centred(box_height: int, box_width: int, height: int, width: int) -> Box:
    """Return the central box of a size, of an image of a size."""
    return (height - box_height) // 2, (width - box_width) // 2, box_height, box_width


random_resized_crop = drawn_crop(lambda box, *_: box)

WRONG_CROPS: Mapping[str, Crop] = {
    "the largest central square is cut out, not the drawn box": drawn_crop(
        lambda _, height, width: centred(min(height, width), min(height, width), height, width)
    ),
    "a box of the drawn size is cut out of the centre": drawn_crop(
        lambda box, height, width: centred(box[2], box[3], height, width)
    ),
    "the fallback box is cut out of every image, not the drawn one": drawn_crop(
        lambda _, height, width: central_box(height, width)
    ),
    "nothing is cut out, the whole image is resized": drawn_crop(
        lambda _, height, width: (0, 0, height, width)
    ),
    "the box's top and left are swapped": drawn_crop(
        lambda box, *_: (box[1], box[0], box[2], box[3])
    ),
    "the box's axes are swapped": drawn_crop(lambda box, *_: (box[1], box[0], box[3], box[2])),
    "the box is two pixels off": changed_crop(2, 2, 0, 0),
    "the box is one pixel too low and too far right": changed_crop(1, 1, 0, 0),
    "the box is one pixel too high and too far left": changed_crop(-1, -1, 0, 0),
    "the box is one pixel too low": changed_crop(1, 0, 0, 0),
    "the box is one pixel too high": changed_crop(-1, 0, 0, 0),
    "the box is one pixel too far right": changed_crop(0, 1, 0, 0),
    "the box is one pixel too far left": changed_crop(0, -1, 0, 0),
    "the box is one pixel too large": changed_crop(0, 0, 1, 1),
    "the box is one pixel too small": changed_crop(0, 0, -1, -1),
    "the box is resized to the nearest pixel, not bilinearly": crop_resized_by(
        Image.Resampling.NEAREST
    ),
    "the box is resized bicubically, not bilinearly": crop_resized_by(Image.Resampling.BICUBIC),
    "the box is resized without antialiasing": aliased_crop,
}


def crop_stage(field: str, cut: Callable[[Any, Crop, Parameters], Any]) -> Stage:
    """Return the stage that cuts the drawn box out and resizes it, with its known mistakes.

    Args:
        field: holds what is cropped.
        cut: called with that, a way to crop one image, and the drawn parameters.
    """

    def work_of(crop: Crop) -> Work:
        def apply(element: Element, parameters: Parameters) -> Element:
            return {**element, field: cut(element[field], crop, parameters)}

        return apply

    mistakes = {what: work_of(crop) for what, crop in WRONG_CROPS.items()}
    return Stage("crop", work_of(random_resized_crop), mistakes)


def flip_stage(field: str, mirror: Callable[[Any], Any], noun: str) -> Stage:
    """Return the stage that mirrors by a draw, with its known mistakes.

    Args:
        field: holds what is mirrored.
        mirror: does it.
        noun: names such a thing.
    """

    def work_where(flips: Callable[[bool], bool]) -> Work:
        def apply(element: Element, parameters: Parameters) -> Element:
            if not flips(parameters["flip"]):
                return element
            return {**element, field: mirror(element[field])}

        return apply

    mistakes = {
        f"every {noun} is mirrored": work_where(lambda _: True),
        f"the other {noun}s are mirrored": work_where(lambda drawn: not drawn),
    }
    return Stage("flip", work_where(bool), mistakes)


def normalise_stage(field: str) -> Stage:
    """Return the stage that normalises with ImageNet's figures, with its known mistake."""
    return Stage("normalise", on(field, normalised), {ONLY_SCALED: on(field, scaled)})


def flipped(image: Image.Image) -> Image.Image:
    """Mirror an image left to right."""
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


class Figures(NamedTuple):
    """Factor and shift that bring 8-bit pixels to mean 0 and deviation 1 per channel."""

    scale: npt.NDArray[np.float32]
    shift: npt.NDArray[np.float32]

    @classmethod
    def of(cls, mean: tuple[float, ...], deviation: tuple[float, ...]) -> Figures:
        """Return the figures for a mean and a deviation of pixels that are scaled to 0…1."""
        scale = 1 / (255 * np.asarray(deviation))
        shift = np.asarray(mean) / np.asarray(deviation)
        return cls(scale.astype(np.float32), shift.astype(np.float32))


IMAGENET = Figures.of(IMAGENET_MEAN, IMAGENET_DEVIATION)
CLIP = Figures.of(CLIP_MEAN, CLIP_DEVIATION)


def normalised(image: Image.Image | Pixels, figures: Figures = IMAGENET) -> npt.NDArray[np.float32]:
    """Return ``(pixels / 255 - mean) / deviation``, float32 ``[H, W, 3]``."""
    pixels: npt.NDArray[np.float32] = np.asarray(image).astype(np.float32)
    pixels *= figures.scale
    pixels -= figures.shift
    return pixels


def scaled(image: Image.Image | Pixels) -> npt.NDArray[np.float32]:
    """Return ``pixels / 255``, float32 ``[H, W, 3]``: half of normalising."""
    return np.asarray(image).astype(np.float32) / np.float32(255)


DECODED_SMALL = "large images are decoded at part of their size"
"""The difference of `scaled_decoder` from `decode`, in an oracle's words."""
ONLY_SCALED = "pixels are scaled to 0…1 but mean and deviation are not applied"
"""The difference of `scaled` from `normalised`, in an oracle's words."""


def resize_shortest(
    image: Image.Image, side: int, method: Image.Resampling = Image.Resampling.BICUBIC
) -> Image.Image:
    """Resize the shortest side to `side`, antialiased; the longer side is rounded down."""
    width, height = image.size
    if width <= height:
        size = (side, int(side * height / width))
    else:
        size = (int(side * width / height), side)
    return image.resize(size, method)


def crop_centre(image: Image.Image, side: int, off: int = 0) -> Image.Image:
    """Cut the central square out; an odd margin is halved as Python rounds.

    Args:
        image: at least `side` pixels high and wide.
        side: of the square.
        off: pixels that it lies below and right (a mistake the oracle recognises).
    """
    left, top = (round((edge - side) / 2) + off for edge in image.size)
    return image.crop((left, top, left + side, top + side))


def mixing_from(numbers: npt.NDArray[np.float64], side: int) -> dict[str, Array]:
    """Turn uniform numbers into kinds, shares and boxes of mixing, for square images.

    Args:
        numbers: uniform in [0, 1), float64 ``[n, DRAWS]``.
        side: side of the images, in pixels.

    Returns:
        ``cut`` bool ``[n]``: CutMix rather than MixUp; ``share`` float32 ``[n]``: remaining share
        of the element itself; ``box`` int32 ``[n, 4]``: top, left, height and width of CutMix's
        patch, all zero for MixUp. Boxes follow CutMix's algorithm 1: their centre is uniform, and
        the image's border cuts them, which `share` accounts for.
    """
    cut = numbers[:, 0] < 0.5
    share = numbers[:, 1]
    half = (side * np.sqrt(1 - share)).astype(np.int64) // 2
    centre = (numbers[:, 2:4] * side).astype(np.int64)
    begin = np.clip(centre - half[:, None], 0, side)
    end = np.clip(centre + half[:, None], 0, side)
    box = np.where(cut[:, None], np.hstack([begin, end - begin]), 0).astype(np.int32)
    left = 1 - box[:, 2] * box[:, 3] / side**2
    return {"cut": cut, "share": np.where(cut, left, share).astype(np.float32), "box": box}


def mixed_images(images: Array, mixing: Mapping[str, Array]) -> Array:
    """Mix every image with the next image of the batch, the last with the first.

    Args:
        images: float32 ``[B, side, side, 3]``.
        mixing: what `mixing_from` made for these elements, in the batch's order.
    """
    partners = np.roll(images, -1, axis=0)
    share = mixing["share"].reshape(-1, 1, 1, 1)
    blended: Array = share * images + (1 - share) * partners
    for place in np.flatnonzero(mixing["cut"]).tolist():
        top, left, height, width = mixing["box"][place].tolist()
        pasted = (place, slice(top, top + height), slice(left, left + width))
        blended[place] = images[place]
        blended[pasted] = partners[pasted]
    return blended


def mixed_labels(labels: Array, shares: Array, classes: int) -> Array:
    """Mix every label with the next of the batch: int ``[B]`` to float32 ``[B, classes]``.

    Raises:
        DataError: a label is no class.
    """
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels {labels.min()} to {labels.max()} do not fit {classes} classes; choose data "
            "with fewer classes, or a larger variant"
        )
    certain = np.eye(classes, dtype=np.float32)[labels]
    share = shares.reshape(-1, 1)
    soft: Array = share * certain + (1 - share) * np.roll(certain, -1, axis=0)
    return soft
