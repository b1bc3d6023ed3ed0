"""SPDL with its own decoders: the pipelines of the adapter `spdl`, whose stages call `spdl.io`.

FFmpeg decodes each image, and a graph of its filters cuts, resizes and mirrors it. The frames of a
batch are copied into one array. No step holds Python's lock, so `workers` are threads. No graph
turns an image by its EXIF orientation. NumPy normalises, and the reference does the rest of a
batch's work. FFmpeg's shared libraries must be on the machine, because the wheel lacks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.image_formats import PLAIN_KINDS
from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapter import LoadingJob, adapter
from skymark.suites.loading.adapters.spdl import BatchStage, Spdl
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.adapters.spdl import Work
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.transforms.images import Pixels
    from skymark.suites.loading.work import Batch, Parameters

FIRST = "trim=end_frame=1"
"""Of several frames or pictures in a file."""
FULL = "full_chroma_inp+full_chroma_int"
"""Flags of FFmpeg's scaler, which otherwise halves the resolution of colours."""
BILINEAR = f"flags=bilinear+{FULL}"
BICUBIC = f"flags=bicubic+{FULL}:param0=0:param1=0.5"
"""Antialiased, as FFmpeg's scaler always is; by itself it has another cubic than Pillow."""
HALVED = {"yuvj420p": (2, 2), "yuvj422p": (2, 1), "yuvj440p": (1, 2)}
"""Pixels across and down that share a colour in JPEG files."""


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    graph: Callable[[Any, Parameters, Any], str]
    """FFmpeg's filters, given scenario, random parameters and the packets of an image."""
    normalise: Callable[[Pixels], Pixels]


OPERATORS = OperatorTable(Operators)


def around(begin: int, length: int, edge: int, shared: int) -> tuple[int, int]:
    """Return begin and length of whole colours around a stretch, with a neighbour on each side."""
    first = max(0, begin // shared - 1) * shared
    return first, min(edge, ((begin + length - 1) // shared + 2) * shared) - first


def in_rgb(packets: Any, box: tuple[int, int, int, int] | None = None) -> str:
    """Cut a box (top, left, height, width) out, else nothing, and convert it to RGB.

    At an odd edge the scaler would stretch the planes of colours: in the worst box the error was
    0.25 deviations on average. There they are doubled one by one, as libjpeg does.
    """
    top, left, height, width = box or (0, 0, packets.height, packets.width)
    across, down = HALVED.get(packets.pix_fmt, (1, 1))
    y, rows = around(top, height, packets.height, down)
    x, columns = around(left, width, packets.width, across)
    convert = f"scale={BILINEAR},format=gbrp"
    if columns % across == rows % down == 0:
        within = f"crop={width}:{height}:{left - x}:{top - y}"
        return f"crop={columns}:{rows}:{x}:{y},{convert},{within}"
    cut = f"crop={width}:{height}:{left}:{top},setsar=1"  # only planes of one aspect are merged
    method = "bilinear" if packets.width > 2 * across else "neighbor"  # as libjpeg does
    doubled = f"scale={across}*iw:{down}*ih:flags={method},{cut}"
    return (
        f"extractplanes=y+u+v[y][u][v];[y]{cut}[Y];[u]{doubled}[U];[v]{doubled}[V];"
        f"[Y][U][V]mergeplanes=0x001020:yuvj444p,{convert}"
    )


def view(scenario: Any, drawn: Parameters, packets: Any) -> str:
    """Cut the drawn box out, resize it and mirror it where drawn."""
    from skymark.suites.loading.transforms.crops import pixel_box

    side, box = scenario.size["side"], pixel_box(drawn, packets.height, packets.width)
    mirror = ",hflip" if drawn["flip"] else ""
    return f"{in_rgb(packets, box)},scale={side}:{side}:{BILINEAR}{mirror}"


def whole(scenario: Any, drawn: Parameters, packets: Any) -> str:
    """Resize the whole image."""
    del drawn
    side = scenario.size["side"]
    return f"{in_rgb(packets)},scale={side}:{side}:{BILINEAR}"


def centre(scenario: Any, drawn: Parameters, packets: Any) -> str:
    """Resize the shortest side, bicubic; cut the central square out."""
    del drawn
    side, shortest = scenario.size["side"], min(packets.height, packets.width)
    height, width = (int(side * edge / shortest) for edge in (packets.height, packets.width))
    top, left = round((height - side) / 2), round((width - side) / 2)
    return f"{in_rgb(packets)},scale={width}:{height}:{BICUBIC},crop={side}:{side}:{left}:{top}"


def normalised(pixels: Pixels) -> Pixels:
    """Normalise with ImageNet's figures."""
    from skymark.suites.loading.transforms import images

    return images.normalised(pixels)


def normalised_for_clip(pixels: Pixels) -> Pixels:
    """Normalise with CLIP's figures."""
    from skymark.suites.loading.transforms import images

    return images.normalised(pixels, images.CLIP)


OPERATORS.work("CV-1", "CV-6", normalise=normalised)(view)
OPERATORS.work("CV-3", normalise=normalised)(whole)
OPERATORS.work("CV-4", normalise=lambda pixels: pixels)(whole)
OPERATORS.work("MM-1", normalise=normalised_for_clip)(centre)


def others(element: Element) -> Element:
    """Return the fields that have nothing to do with the image."""
    from skymark.suites.loading.transforms.text import tokenise_bytes

    if "caption" in element:
        return {"index": element["index"], "text": tokenise_bytes(element["caption"])}
    return {"index": element["index"], "label": element["label"]}


class DecodingStage(BatchStage):
    """The pipeline's stage, which decodes by SPDL's own operators."""

    def __call__(self, work: Work) -> Batch:
        """Return the batch of some indices."""
        from spdl import io

        epoch, indices = work
        job, scenario = self.job, self.job.scenario
        operators = OPERATORS[scenario.id]
        elements = [self.reader[index] for index in indices]
        frames = []
        for index, element in zip(indices, elements, strict=True):
            packets = io.demux_image(element["jpeg"])
            graph = operators.graph(scenario, scenario.parameters(epoch, index), packets)
            frames.append(io.decode_packets(packets, f"{FIRST},{graph},format=rgb24"))
        pixels = io.to_numpy(io.convert_frames(frames))
        rest = job.collate([others(element) for element in elements])
        return job.mix({**rest, "image": operators.normalise(pixels)}, epoch)


@adapter
class SpdlIo(Spdl):
    """`spdl.pipeline.PipelineBuilder` over the decoders of `spdl.io`."""

    slug: ClassVar = "spdl-io"
    name: ClassVar = "SPDL (own decoders)"
    distribution: ClassVar = "spdl-io"
    imports: ClassVar = "spdl.io"
    shared_venv: ClassVar = "spdl"
    guide: ClassVar = "https://facebookresearch.github.io/spdl/0.8.0/io/filtering.html"
    native: ClassVar = frozenset(OPERATORS)
    decodes: ClassVar = dict.fromkeys(
        native,
        # FFmpeg takes the inks of YCCK, which is a CMYK JPEG, too, for colours.
        (PLAIN_KINDS - {"CMYK JPEG"})
        | {
            *("unmarked CMYK JPEG", "palette GIF", "partial palette GIF"),
            *("BMP", "palette BMP", "grey BMP", "1-bit BMP", "RGBA WEBP", "EXIF-marked WEBP"),
            *("grey TIFF", "palette TIFF", "RGBA TIFF", "CMYK TIFF", "1-bit TIFF"),
            *("16-bit TIFF", "16-bit grey TIFF"),
        },
    )
    native_only: ClassVar = "its decoders are measured on images; spdl does the rest"
    version: ClassVar = 1

    @classmethod
    def import_library(cls) -> None:
        """Import SPDL's decoders, and see whether they find FFmpeg."""
        super().import_library()
        from spdl.io.utils import get_ffmpeg_versions

        try:
            get_ffmpeg_versions()  # `spdl.io` loads FFmpeg at the first call
        except RuntimeError as error:
            if "Failed to import libspdl" not in str(error):
                raise
            raise LibraryAbsentError(
                "SPDL found no shared libraries of FFmpeg, which its wheel does not bring; "
                "run: apt-get install --no-install-recommends ffmpeg"
            ) from error

    def stage(self, job: LoadingJob) -> BatchStage:
        """Return the stage that decodes."""
        return DecodingStage(job)
