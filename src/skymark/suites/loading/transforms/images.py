"""Images: decode, crop and resize, flip, normalise, with Pillow and NumPy."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

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
from skymark.suites.loading.transforms.crops import central_box, pixel_box

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Parameters

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
"""Mean and deviation per channel (red, green, blue) of ImageNet's training images, scaled to 0…1;
the values that torchvision's pretrained models document."""

Pixels = npt.NDArray[Any]
"""``[height, width, 3]``, red, green, blue."""

Crop: TypeAlias = "Callable[[Image.Image, Parameters, int], Image.Image]"
Work: TypeAlias = "Callable[[Element, Parameters], Element]"


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


def resize_box(image: Image.Image, box: tuple[int, int, int, int], side: int) -> Image.Image:
    """Cut a box (top, left, height, width) out and resize it to a square, antialiased bilinear.

    The box is cut out first, so that no pixel outside it has weight, as in torchvision.
    """
    top, left, height, width = box
    return resized(image.crop((left, top, left + width, top + height)), side)


def resized(image: Image.Image, side: int) -> Image.Image:
    """Resize the whole image to a square, antialiased bilinear."""
    return image.resize((side, side), Image.Resampling.BILINEAR)


def random_resized_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Cut the drawn box out and resize it."""
    return resize_box(image, pixel_box(crop, image.height, image.width), side)


def centre_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Cut the largest central square out instead of the drawn box, as evaluation does."""
    del crop
    edge = min(image.size)
    box = ((image.height - edge) // 2, (image.width - edge) // 2, edge, edge)
    return resize_box(image, box, side)


def central_drawn_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Cut a box of the drawn size out of the centre instead of its drawn place."""
    _, _, height, width = pixel_box(crop, image.height, image.width)
    box = ((image.height - height) // 2, (image.width - width) // 2, height, width)
    return resize_box(image, box, side)


def fallback_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Use the central fallback box of the definition, for every image."""
    del crop
    return resize_box(image, central_box(image.height, image.width), side)


def no_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Resize the whole image instead of the drawn box."""
    del crop
    return resize_box(image, (0, 0, image.height, image.width), side)


def transposed_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Take the drawn box's top for its left, and its height for its width."""
    top, left, height, width = pixel_box(crop, image.height, image.width)
    return resize_box(image, (left, top, width, height), side)


def swapped_corner_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Take the drawn box's top for its left."""
    top, left, height, width = pixel_box(crop, image.height, image.width)
    return resize_box(image, (left, top, height, width), side)


def changed_crop(*by: int) -> Crop:
    """Return a crop whose box (top, left, height, width) is some pixels off."""

    def crop_changed(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
        top, left, height, width = pixel_box(crop, image.height, image.width)
        box = (top + by[0], left + by[1], height + by[2], width + by[3])
        return resize_box(image, box, side)

    return crop_changed


def crop_resized_by(method: Image.Resampling) -> Crop:
    """Return a crop of the drawn box that is resized by another method."""

    def crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
        top, left, height, width = pixel_box(crop, image.height, image.width)
        cut = image.crop((left, top, left + width, top + height))
        return cut.resize((side, side), method)

    return crop


def aliased_crop(image: Image.Image, crop: Parameters, side: int) -> Image.Image:
    """Resize the drawn box bilinearly between four pixels each, without antialiasing."""
    top, left, height, width = pixel_box(crop, image.height, image.width)
    box = (left, top, left + width, top + height)
    extent = Image.Transform.EXTENT
    return image.transform((side, side), extent, box, Image.Resampling.BILINEAR)


WRONG_CROPS: Mapping[str, Crop] = {
    "the largest central square is cut out, not the drawn box": centre_crop,
    "a box of the drawn size is cut out of the centre": central_drawn_crop,
    "the fallback box is cut out of every image, not the drawn one": fallback_crop,
    "nothing is cut out, the whole image is resized": no_crop,
    "the box's top and left are swapped": swapped_corner_crop,
    "the box's axes are swapped": transposed_crop,
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


def flipped(image: Image.Image) -> Image.Image:
    """Mirror an image left to right."""
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


_SCALE = (1 / (255 * np.asarray(IMAGENET_DEVIATION))).astype(np.float32)
_SHIFT = (np.asarray(IMAGENET_MEAN) / np.asarray(IMAGENET_DEVIATION)).astype(np.float32)


def normalised(image: Image.Image | Pixels) -> npt.NDArray[np.float32]:
    """Return ``(pixels / 255 - mean) / deviation`` of ImageNet, float32 ``[H, W, 3]``."""
    pixels: npt.NDArray[np.float32] = np.asarray(image).astype(np.float32)
    pixels *= _SCALE
    pixels -= _SHIFT
    return pixels


def scaled(image: Image.Image | Pixels) -> npt.NDArray[np.float32]:
    """Return ``pixels / 255``, float32 ``[H, W, 3]``: half of normalising."""
    return np.asarray(image).astype(np.float32) / np.float32(255)


def normalise(element: Element, parameters: Parameters) -> Element:
    """Replace ``image`` by its `normalised` pixels."""
    del parameters
    return {**element, "image": normalised(element["image"])}


def scale(element: Element, parameters: Parameters) -> Element:
    """Replace ``image`` by its `scaled` pixels."""
    del parameters
    return {**element, "image": scaled(element["image"])}


DECODED_SMALL = "large images are decoded at part of their size"
"""What `scaled_decoder` does instead of `decode`, in an oracle's words."""
ONLY_SCALED = "pixels are scaled to 0…1 but mean and deviation are not applied"
"""What `scale` does instead of `normalise`, in an oracle's words."""
