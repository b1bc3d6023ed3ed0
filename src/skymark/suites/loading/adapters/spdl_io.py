"""SPDL with its own decoders: the pipelines of the adapter `spdl`, whose stages call `spdl.io`.

Each image goes through FFmpeg's decoder and a graph of its filters, which cut, resize and mirror
it; the frames of a batch are copied into one array. None of this holds Python's lock, so threads
do it. No graph turns an image by its EXIF orientation. NumPy normalises, and does the rest of a
batch's work as the reference does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapter import LoadingJob, adapter
from skymark.suites.loading.adapters.spdl import Spdl, Stage
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from skymark.suites.loading.adapters.spdl import Work
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Batch, Parameters
    from skymark.suites.loading.transforms.images import Pixels

BILINEAR = "flags=bilinear+full_chroma_inp+full_chroma_int"
BICUBIC = "flags=bicubic+full_chroma_inp+full_chroma_int:param0=0:param1=0.5"
"""Options of FFmpeg's scaler, which always antialiases. Its defaults halve the resolution of
colours, and have another cubic than Pillow."""
TO_RGB = f"scale={BILINEAR},format=gbrp"
"""Filters before all others. Cropped or resized first, colours of 4:2:0 would be half a pixel off,
and overshoot: 0.3 deviations on average in the worst images, where this has 0.007."""


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    filters: Callable[[Any, Parameters, int, int], str]
    """FFmpeg's filters, given scenario, random parameters, height and width of an image."""
    fields: Callable[[Pixels], Batch]
    """Fields of a batch, given its filtered images."""


OPERATORS: OperatorTable[Operators] = OperatorTable()


def view(scenario: Any, drawn: Parameters, height: int, width: int) -> str:
    """Cut the drawn box out, resize it and mirror it where drawn."""
    from skymark.suites.loading.transforms.random_crop import pixel_box

    top, left, box_height, box_width = pixel_box(drawn, height, width)
    cut = f"crop={box_width}:{box_height}:{left}:{top},{whole(scenario, drawn, height, width)}"
    return f"{cut},hflip" if drawn["flip"] else cut


def two_views(scenario: Any, drawn: Parameters, height: int, width: int) -> str:
    """Make two views, the second below the first."""
    from skymark.suites.loading.scenarios.pc2_branching_pipeline import VIEWS, own_parameters

    first, second = (view(scenario, own_parameters(drawn, one), height, width) for one in VIEWS)
    return f"split[a][b];[a]{first}[c];[b]{second}[d];[c][d]vstack"


def whole(scenario: Any, drawn: Parameters, height: int, width: int) -> str:
    """Resize the whole image to a square."""
    del drawn, height, width
    side = scenario.size["side"]
    return f"scale={side}:{side}:{BILINEAR}"


def centre(scenario: Any, drawn: Parameters, height: int, width: int) -> str:
    """Resize the shortest side, bicubic; cut the central square out."""
    del drawn
    side, shortest = scenario.size["side"], min(height, width)
    high, wide = int(side * height / shortest), int(side * width / shortest)
    top, left = round((high - side) / 2), round((wide - side) / 2)
    return f"scale={wide}:{high}:{BICUBIC},crop={side}:{side}:{left}:{top}"


def normalised_images(pixels: Pixels) -> Batch:
    """Normalise the images."""
    from skymark.suites.loading.transforms.images import normalised

    return {"image": normalised(pixels)}


def plain_images(pixels: Pixels) -> Batch:
    """Leave images to the work on whole batches."""
    return {"image": pixels}


def clip_images(pixels: Pixels) -> Batch:
    """Normalise the images with CLIP's figures."""
    from skymark.suites.loading.transforms.clip import normalised

    return {"image": normalised(pixels)}


def normalised_views(pixels: Pixels) -> Batch:
    """Normalise both views of the images."""
    import numpy as np

    from skymark.suites.loading.scenarios.pc2_branching_pipeline import VIEWS
    from skymark.suites.loading.transforms.images import normalised

    views = zip(VIEWS, np.split(pixels, len(VIEWS), axis=1), strict=True)
    return {f"view_{name}": normalised(one) for name, one in views}


OPERATORS.register(Operators(view, normalised_images), "CV-1")
OPERATORS.register(Operators(whole, normalised_images), "CV-3")
OPERATORS.register(Operators(whole, plain_images), "CV-4")
OPERATORS.register(Operators(centre, clip_images), "MM-1")
OPERATORS.register(Operators(two_views, normalised_views), "PC-2")


def others(element: Element) -> Element:
    """Return the fields that have nothing to do with the image."""
    from skymark.suites.loading.transforms.byte_pairs import tokenise_bytes

    if "caption" in element:
        return {"index": element["index"], "text": tokenise_bytes(element["caption"])}
    return {"index": element["index"], "label": element["label"]}


class DecodingStage(Stage):
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
            drawn = scenario.parameters(epoch, index)
            filters = operators.filters(scenario, drawn, packets.height, packets.width)
            frames.append(io.decode_packets(packets, f"{TO_RGB},{filters},format=rgb24"))
        images = operators.fields(io.to_numpy(io.convert_frames(frames)))
        return job.mix({**job.collate([others(one) for one in elements]), **images}, epoch)


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

    def stage(self, job: LoadingJob) -> Stage:
        """Return the stage that decodes."""
        return DecodingStage(job)
