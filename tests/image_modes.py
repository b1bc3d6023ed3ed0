"""Images of every mode that people's data has, with the pixels that each stands for.

Pillow writes most of them; PNG and TIFF files that it cannot write are put together here. It runs
in adapters' venvs, too, and needs NumPy and Pillow only.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageCms

HEIGHT, WIDTH = 52, 75
ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2))
"""Passes of an interlaced PNG but the last: first row and column, steps down and right."""
LOSSY = 6.0
"""Mean difference of lossy files from what they were made of, in 8-bit levels."""

Pixels = np.ndarray


@dataclass(frozen=True)
class Mode:
    """One way to store an image: from a number to its file, and to the RGB that it stands for."""

    file: Callable[[int], bytes]
    pixels: Callable[[int], Pixels]
    lossy: bool = False


def picture(seed: int) -> Pixels:
    """Return a smooth image, uint8 ``[HEIGHT, WIDTH, 3]``, unlike itself when turned."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), np.uint8)
    resized = Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return np.asarray(resized)


def grey(seed: int) -> Pixels:
    """Return a grey image, uint8 ``[HEIGHT, WIDTH]``."""
    return picture(seed)[..., 0]


def in_grey(seed: int) -> Pixels:
    """Return `grey` as RGB."""
    return np.repeat(grey(seed)[..., None], 3, -1)


def wide(values: Pixels) -> Pixels:
    """Return 16-bit values whose high bytes are these."""
    low = np.random.default_rng(9).integers(0, 256, values.shape, np.uint16)
    return (values.astype(np.uint16) << 8) | low


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    """Return the file that Pillow writes."""
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def by_pillow(format: str, **options: Any) -> Callable[[int], bytes]:
    """Return what writes a picture in a format."""
    return lambda seed: saved(Image.fromarray(picture(seed)), format, **options)


def grey_by_pillow(format: str, **options: Any) -> Callable[[int], bytes]:
    """Return what writes a grey picture in a format."""
    return lambda seed: saved(Image.fromarray(grey(seed)), format, **options)


def with_alpha(seed: int) -> Pixels:
    """Return a picture with alpha, uint8 ``[HEIGHT, WIDTH, 4]``."""
    return np.dstack([picture(seed), grey(seed + 100)])


def frames(format: str, **options: Any) -> Callable[[int], bytes]:
    """Return what writes three pictures into one file."""

    def write(seed: int) -> bytes:
        first, *others = (Image.fromarray(picture(seed + step)) for step in (0, 50, 60))
        return saved(first, format, save_all=True, append_images=others, **options)

    return write


def turned(orientation: int) -> dict[str, Any]:
    """Return Pillow's options for an EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return {"exif": exif.tobytes()}


def profiled() -> dict[str, Any]:
    """Return Pillow's options for a colour profile that swaps red and green, if it is applied."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = profile.replace(b"rXYZ", b"????").replace(b"gXYZ", b"rXYZ")
    return {"icc_profile": swapped.replace(b"????", b"gXYZ")}


def corner(height: int, width: int) -> Mode:
    """Return a JPEG mode of a small part of the picture."""

    def cut(seed: int) -> Pixels:
        return picture(seed)[:height, :width]

    return Mode(lambda seed: saved(Image.fromarray(cut(seed)), "JPEG", quality=95), cut, lossy=True)


# CMYK


def inks(seed: int) -> Pixels:
    """Return cyan, magenta, yellow and black, uint8 ``[HEIGHT, WIDTH, 4]``."""
    return np.dstack([picture(seed), grey(seed + 100) // 3])


def printed(seed: int) -> Pixels:
    """Return the RGB of `inks`, by their product."""
    left = 255 - inks(seed).astype(np.float64)
    return np.rint(left[..., :3] * left[..., 3:] / 255).astype(np.uint8)


def cmyk(seed: int) -> bytes:
    """Return a JPEG file of inks, inverted as Adobe's programs do."""
    return saved(Image.fromarray(inks(seed), "CMYK"), "JPEG", quality=95)


def ycck(seed: int) -> bytes:
    """Return a JPEG file of inks whose colours are coded as luma and chroma."""
    colours = np.asarray(Image.fromarray(inks(seed)[..., :3]).convert("YCbCr"))
    stored = np.dstack([255 - colours, inks(seed)[..., 3]])
    file = bytearray(saved(Image.fromarray(stored, "CMYK"), "JPEG", quality=95))
    file[file.index(b"Adobe") + 11] = 2
    return bytes(file)


def without_segment(file: bytes, marker: int) -> bytes:
    """Return a JPEG file without its first segment of a kind."""
    start = file.index(bytes([0xFF, marker]))
    (length,) = struct.unpack(">H", file[start + 2 : start + 4])
    return file[:start] + file[start + 2 + length :]


def unmarked_cmyk(seed: int) -> bytes:
    """Return a JPEG file of inks without Adobe's marker; Pillow takes them for inverted, too."""
    return without_segment(cmyk(seed), 0xEE)


# PNG


def packed(values: Pixels, bits: int) -> bytes:
    """Return rows of samples ``[H, W, C]`` as PNG stores them, each after a byte for no filter."""
    rows = values.reshape(len(values), -1)
    if bits == 16:
        stored = rows.astype(">u2").view(np.uint8)
    elif bits == 8:
        stored = rows.astype(np.uint8)
    else:
        each = np.unpackbits(rows.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits :]
        stored = np.packbits(each.reshape(len(rows), -1), axis=-1)
    return b"".join(b"\0" + row.tobytes() for row in stored)


def chunk(name: bytes, data: bytes) -> bytes:
    """Return one chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    values: Pixels, kind: int, bits: int = 8, extra: bytes = b"", *, interlaced: bool = False
) -> bytes:
    """Return a PNG file of samples ``[H, W, C]``; kind is that of its header."""
    header = struct.pack(">2I5B", values.shape[1], values.shape[0], bits, kind, 0, 0, interlaced)
    if interlaced:
        parts = [values[y::down, x::right] for y, x, down, right in ADAM7] + [values[1::2]]
        data = b"".join(packed(part, bits) for part in parts)
    else:
        data = packed(values, bits)
    ends = chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + ends


def said_to_be(height: int, width: int, file: bytes) -> bytes:
    """Return a PNG file whose header says another size."""
    header = struct.pack(">2I", width, height) + file[24:29]
    return file[:8] + chunk(b"IHDR", header) + file[33:]


COLOURS = np.random.default_rng(3).integers(0, 256, (256, 3), np.uint8)
PALETTE = chunk(b"PLTE", COLOURS.tobytes())
TRANSPARENT = chunk(b"tRNS", bytes(range(256)))


def indices(seed: int, bits: int = 8) -> Pixels:
    """Return places in a palette, uint8 ``[HEIGHT, WIDTH, 1]``, in blocks that JPEG would blur."""
    blocks = np.random.default_rng(seed).integers(0, 1 << bits, (7, 10), np.uint8)
    return np.kron(blocks, np.ones((8, 8), np.uint8))[:HEIGHT, :WIDTH, None]


def palette(bits: int) -> bytes:
    """Return the palette of so many bits."""
    return chunk(b"PLTE", COLOURS[: 1 << bits].tobytes())


def coloured(seed: int, bits: int = 8) -> Pixels:
    """Return the RGB of `indices`."""
    return COLOURS[indices(seed, bits)[..., 0]]


def levels(seed: int, bits: int) -> Pixels:
    """Return the RGB of few grey levels."""
    return np.repeat(indices(seed, bits) * (255 // ((1 << bits) - 1)), 3, -1)


# TIFF


INVERTED, PLANES, ALPHA = 262, 284, 338
"""Tags: black is 0 (1) or white is (0); one plane or several (2); alpha as factor (1) or not."""


def tiff(values: Pixels, order: str = "<", tile: int = 0, tags: Mapping[int, int] = {}) -> bytes:
    """Return a TIFF file of samples ``[H, W, C]``: a strip, one for each plane, or square tiles."""
    height, width, channels = values.shape
    bits = values.dtype.itemsize * 8
    if tile:
        across, down = -(-width // tile), -(-height // tile)
        whole = np.zeros((down * tile, across * tile, channels), values.dtype)
        whole[:height, :width] = values
        parts = [
            whole[y * tile : (y + 1) * tile, x * tile : (x + 1) * tile]
            for y in range(down)
            for x in range(across)
        ]
    elif tags.get(PLANES) == 2:
        parts = list(np.moveaxis(values, -1, 0))
    else:
        parts = [values]
    stored = [part.astype(part.dtype.newbyteorder(order)).tobytes() for part in parts]
    offsets, place = [], 8
    for part in stored:
        offsets.append(place)
        place += len(part)
    layout = {324: offsets, 325: [len(part) for part in stored], 322: [tile], 323: [tile]}
    if not tile:
        layout = {273: offsets, 279: [len(part) for part in stored], 278: [height]}
    entries = {
        256: [width],
        257: [height],
        258: [bits] * channels,
        259: [1],
        262: [2 if channels >= 3 else 1],
        277: [channels],
        **layout,
        **({338: [2]} if channels in {2, 4} else {}),
        **{tag: [value] for tag, value in tags.items()},
    }
    body, outside = b"".join(stored), b""
    body += b"\0" * (len(body) % 2)
    directory = struct.pack(order + "H", len(entries))
    after = 8 + len(body) + 2 + 12 * len(entries) + 4
    for tag, numbers in sorted(entries.items()):
        kind = 4 if tag in {273, 279, 324, 325} else 3
        data = struct.pack(f"{order}{len(numbers)}{'I' if kind == 4 else 'H'}", *numbers)
        if len(data) > 4:
            outside, data = outside + data, struct.pack(order + "I", after + len(outside))
        directory += struct.pack(order + "HHI", tag, kind, len(numbers)) + data.ljust(4, b"\0")
    start = b"II*\0" if order == "<" else b"MM\0*"
    first = struct.pack(order + "I", 8 + len(body))
    return start + first + body + directory + b"\0\0\0\0" + outside


def multiplied(seed: int) -> Pixels:
    """Return a picture that is multiplied by its alpha, which is one half."""
    alpha = np.full((HEIGHT, WIDTH, 1), 128, np.uint8)
    return np.dstack([picture(seed) // 2, alpha])


def divided(seed: int) -> Pixels:
    """Return the picture of `multiplied`."""
    return (multiplied(seed)[..., :3].astype(int) * 255 // 128).astype(np.uint8)


def upside_down(seed: int) -> bytes:
    """Return a BMP file whose first row is the upper one."""
    file = bytearray(saved(Image.fromarray(picture(seed)[::-1]), "BMP"))
    file[22:26] = struct.pack("<i", -HEIGHT)
    return bytes(file)


def upright(values: Pixels, orientation: int) -> Pixels:
    """Return pixels as their TIFF orientation shows them (TIFF 6.0, page 36)."""
    flipped = {2: values[:, ::-1], 3: values[::-1, ::-1], 4: values[::-1]}
    swapped = values.transpose(1, 0, 2)
    flipped |= {5: swapped, 6: swapped[:, ::-1], 7: swapped[::-1, ::-1], 8: swapped[::-1]}
    return flipped[orientation]


MARGIN = ((2, 4), (3, 5))
"""Pixels above and below, left and right of a GIF's frame on its screen."""


def on_a_screen(seed: int) -> bytes:
    """Return a GIF file whose frame is smaller than its screen, which has the first colour."""
    file = bytearray(saved(Image.fromarray(coloured(seed)).quantize(128), "GIF"))
    (above, below), (left, right) = MARGIN
    frame = file.index(struct.pack("<B4H", 0x2C, 0, 0, WIDTH, HEIGHT))
    file[frame + 1 : frame + 5] = struct.pack("<2H", left, above)
    file[6:10] = struct.pack("<2H", left + WIDTH + right, above + HEIGHT + below)
    return bytes(file)


def with_margin(seed: int) -> Pixels:
    """Return the picture of `on_a_screen`."""
    colours = Image.fromarray(coloured(seed)).quantize(128).getpalette()
    planes = zip(np.moveaxis(coloured(seed), -1, 0), colours[:3], strict=True)
    padded = [np.pad(plane, MARGIN, constant_values=colour) for plane, colour in planes]
    return np.stack(padded, -1)


def bmp_of_16_bits(seed: int) -> bytes:
    """Return a BMP file of 5 bits per colour."""
    five = picture(seed)[::-1].astype(np.uint16) >> 3
    words = (five[..., 0] << 10) | (five[..., 1] << 5) | five[..., 2]
    rows = np.pad(words, ((0, 0), (0, WIDTH % 2))).astype("<u2").tobytes()
    header = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 16, 0, len(rows), 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + len(rows), 0, 0, 54) + header + rows


def of_five_bits(seed: int) -> Pixels:
    """Return the picture of `bmp_of_16_bits`."""
    return (picture(seed) >> 3).astype(np.uint16) * 255 // 31


MODES: Mapping[str, Mode] = {
    "JPEG": Mode(by_pillow("JPEG", quality=95), picture, lossy=True),
    "JPEG, 4:4:4": Mode(by_pillow("JPEG", quality=95, subsampling=0), picture, lossy=True),
    "JPEG, 4:2:2": Mode(by_pillow("JPEG", quality=95, subsampling=1), picture, lossy=True),
    "JPEG, progressive": Mode(by_pillow("JPEG", quality=95, progressive=True), picture, lossy=True),
    "JPEG, coded as RGB": Mode(
        by_pillow("JPEG", quality=95, keep_rgb=True, subsampling=0), picture, lossy=True
    ),
    "JPEG, restart markers": Mode(
        by_pillow("JPEG", quality=95, restart_marker_rows=1), picture, lossy=True
    ),
    "JPEG, bytes after its end": Mode(
        lambda seed: by_pillow("JPEG", quality=95)(seed) + b"more" * 9, picture, lossy=True
    ),
    "JPEG, colour profile": Mode(by_pillow("JPEG", quality=95, **profiled()), picture, lossy=True),
    **{
        f"JPEG, EXIF orientation {number}": Mode(
            by_pillow("JPEG", quality=95, **turned(number)), picture, lossy=True
        )
        for number in range(1, 9)
    },
    "JPEG, grey": Mode(grey_by_pillow("JPEG", quality=95), in_grey, lossy=True),
    "JPEG, CMYK": Mode(cmyk, printed, lossy=True),
    "JPEG, CMYK without Adobe's marker": Mode(unmarked_cmyk, printed, lossy=True),
    "JPEG, YCCK": Mode(ycck, printed, lossy=True),
    "JPEG, one pixel": corner(1, 1),
    "JPEG, one row": corner(1, WIDTH),
    "JPEG, one column": corner(HEIGHT, 1),
    "MPO": Mode(frames("MPO", quality=95), picture, lossy=True),
    "PNG": Mode(by_pillow("PNG"), picture),
    "PNG, interlaced": Mode(lambda seed: png(picture(seed), 2, interlaced=True), picture),
    "PNG, 16 bits": Mode(lambda seed: png(wide(picture(seed)), 2, 16), picture),
    "PNG, colour profile": Mode(by_pillow("PNG", **profiled()), picture),
    "PNG, gamma": Mode(
        lambda seed: png(picture(seed), 2, extra=chunk(b"gAMA", struct.pack(">I", 100_000))),
        picture,
    ),
    "PNG, EXIF orientation 6": Mode(by_pillow("PNG", **turned(6)), picture),
    "PNG, RGBA": Mode(lambda seed: png(with_alpha(seed), 6), picture),
    "PNG, RGBA of 16 bits": Mode(lambda seed: png(wide(with_alpha(seed)), 6, 16), picture),
    "PNG, transparent colour": Mode(
        lambda seed: png(picture(seed), 2, extra=chunk(b"tRNS", struct.pack(">3H", 7, 7, 7))),
        picture,
    ),
    "PNG, palette": Mode(lambda seed: png(indices(seed), 3, 8, PALETTE), coloured),
    "PNG, palette with transparency": Mode(
        lambda seed: png(indices(seed), 3, 8, PALETTE + TRANSPARENT), coloured
    ),
    **{
        f"PNG, palette of {bits} bit{'s'[: bits > 1]}": Mode(
            lambda seed, bits=bits: png(indices(seed, bits), 3, bits, palette(bits)),
            lambda seed, bits=bits: coloured(seed, bits),
        )
        for bits in (1, 2, 4)
    },
    "PNG, grey": Mode(grey_by_pillow("PNG"), in_grey),
    **{
        f"PNG, grey of {bits} bit{'s'[: bits > 1]}": Mode(
            lambda seed, bits=bits: png(indices(seed, bits), 0, bits),
            lambda seed, bits=bits: levels(seed, bits),
        )
        for bits in (1, 2, 4)
    },
    "PNG, grey of 16 bits": Mode(lambda seed: png(wide(grey(seed))[..., None], 0, 16), in_grey),
    "PNG, grey and alpha": Mode(
        lambda seed: png(np.dstack([grey(seed), grey(seed + 100)]), 4), in_grey
    ),
    "PNG, grey and alpha of 16 bits": Mode(
        lambda seed: png(wide(np.dstack([grey(seed), grey(seed + 100)])), 4, 16), in_grey
    ),
    "PNG, animated": Mode(frames("PNG"), picture),
    "GIF": Mode(lambda seed: saved(Image.fromarray(coloured(seed)).quantize(256), "GIF"), coloured),
    "GIF, transparent": Mode(
        lambda seed: saved(Image.fromarray(coloured(seed)).quantize(128), "GIF", transparency=3),
        coloured,
    ),
    "GIF, smaller than its screen": Mode(on_a_screen, with_margin),
    "GIF, grey": Mode(grey_by_pillow("GIF"), in_grey),
    "GIF, animated": Mode(
        lambda seed: saved(
            Image.fromarray(coloured(seed)).quantize(128),
            "GIF",
            save_all=True,
            append_images=[Image.fromarray(coloured(seed + 1)).quantize(128)],
        ),
        coloured,
    ),
    "WebP": Mode(by_pillow("WEBP", quality=95), picture, lossy=True),
    "WebP, lossless": Mode(by_pillow("WEBP", lossless=True), picture),
    "WebP, RGBA": Mode(
        lambda seed: saved(Image.fromarray(with_alpha(seed)), "WEBP", lossless=True, exact=True),
        picture,
    ),
    "WebP, animated": Mode(frames("WEBP", lossless=True), picture),
    "WebP, EXIF orientation 6": Mode(by_pillow("WEBP", lossless=True, **turned(6)), picture),
    "WebP, colour profile": Mode(by_pillow("WEBP", lossless=True, **profiled()), picture),
    "BMP": Mode(by_pillow("BMP"), picture),
    "BMP, upper row first": Mode(upside_down, picture),
    "BMP, 16 bits": Mode(bmp_of_16_bits, of_five_bits),
    "BMP, RGBA": Mode(lambda seed: saved(Image.fromarray(with_alpha(seed)), "BMP"), picture),
    "BMP, palette": Mode(
        lambda seed: saved(Image.fromarray(coloured(seed)).quantize(128), "BMP"), coloured
    ),
    "BMP, grey": Mode(grey_by_pillow("BMP"), in_grey),
    "BMP, 1 bit": Mode(
        lambda seed: saved(Image.fromarray(levels(seed, 1)).convert("1"), "BMP"),
        lambda seed: levels(seed, 1),
    ),
    "TIFF": Mode(by_pillow("TIFF"), picture),
    "TIFF, LZW": Mode(by_pillow("TIFF", compression="tiff_lzw"), picture),
    "TIFF, deflate": Mode(by_pillow("TIFF", compression="tiff_adobe_deflate"), picture),
    "TIFF, JPEG": Mode(by_pillow("TIFF", compression="jpeg", quality=95), picture, lossy=True),
    "TIFF, tiled": Mode(lambda seed: tiff(picture(seed), tile=16), picture),
    "TIFF, big-endian": Mode(lambda seed: tiff(picture(seed), ">"), picture),
    "TIFF, 16 bits": Mode(lambda seed: tiff(wide(picture(seed))), picture),
    "TIFF, RGBA": Mode(lambda seed: tiff(with_alpha(seed)), picture),
    "TIFF, RGBA multiplied by alpha": Mode(
        lambda seed: tiff(multiplied(seed), tags={ALPHA: 1}), divided
    ),
    "TIFF, planes": Mode(lambda seed: tiff(picture(seed), tags={PLANES: 2}), picture),
    "TIFF, grey, white is 0": Mode(
        lambda seed: tiff(255 - grey(seed)[..., None], tags={INVERTED: 0}), in_grey
    ),
    "TIFF, grey of 16 bits, white is 0": Mode(
        lambda seed: tiff(65535 - wide(grey(seed))[..., None], tags={INVERTED: 0}), in_grey
    ),
    "TIFF, grey and alpha": Mode(
        lambda seed: tiff(np.dstack([grey(seed), grey(seed + 100)])), in_grey
    ),
    "TIFF, grey": Mode(lambda seed: tiff(grey(seed)[..., None]), in_grey),
    "TIFF, grey of 16 bits": Mode(lambda seed: tiff(wide(grey(seed))[..., None]), in_grey),
    "TIFF, grey of 16 bits, big-endian": Mode(
        lambda seed: tiff(wide(grey(seed))[..., None], ">"), in_grey
    ),
    "TIFF, 1 bit, fax": Mode(
        lambda seed: saved(
            Image.fromarray(levels(seed, 1)).convert("1"), "TIFF", compression="group4"
        ),
        lambda seed: levels(seed, 1),
    ),
    "TIFF, palette": Mode(
        lambda seed: saved(Image.fromarray(coloured(seed)).quantize(128), "TIFF"), coloured
    ),
    "TIFF, CMYK": Mode(lambda seed: saved(Image.fromarray(inks(seed), "CMYK"), "TIFF"), printed),
    "TIFF, pages": Mode(frames("TIFF"), picture),
    **{
        f"TIFF, orientation {number}": Mode(
            lambda seed, number=number: tiff(picture(seed), tags={274: number}),
            lambda seed, number=number: upright(picture(seed), number),
        )
        for number in (3, 6)
    },
}
"""Every mode that the reference decodes, by its name in the table."""

REFUSED: Mapping[str, Callable[[int], bytes]] = {
    "TIFF, whole numbers of 32 bits": lambda seed: saved(
        Image.fromarray(grey(seed).astype(np.int32)), "TIFF"
    ),
    "TIFF, floating-point numbers": lambda seed: saved(
        Image.fromarray(grey(seed).astype(np.float32)), "TIFF"
    ),
    "PNG, a text of 2 MiB": lambda seed: png(
        picture(seed), 2, extra=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"x" * (2 << 20)))
    ),
    "PNG, 195 million pixels": lambda seed: said_to_be(13_000, 15_000, png(picture(seed), 2)),
}
"""Modes that no loader decodes as the reference does, for that refuses them."""
