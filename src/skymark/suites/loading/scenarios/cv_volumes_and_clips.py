"""CV-2 and CV-5: volumes as in medical imaging, and video clips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.work import Parameters, Stage, Work, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.transforms.video import Sampler


@scenario
class Volumes(Scenario):
    """Cut a cube out at the drawn corner and take its z-score: ``volume`` float32 ``[E, E, E]``.

    Verdicts name a central cube, a corner with reversed axes or one voxel off, and a missing
    division.
    """

    id: ClassVar = "CV-2"
    title: ClassVar = "3-D volumes: random crop, normalise"
    variants: ClassVar = three_sizes(
        elements=(210, 301, 402),
        batch_size=(4, 4, 4),
        depth=(40, 64, 96),
        height=(48, 96, 160),
        width=(56, 96, 160),
        edge=(32, 64, 96),
        classes=2,
    )

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``volume`` int16 ``[depth, height, width]``, ``label`` int64.

        The volumes are in Hounsfield units, as of computed tomography: a body with organs of
        several densities in air, with noise.
        """
        from skymark.suites.loading.dataset.clips import write_volumes

        size = self.size
        shape = (size["depth"], size["height"], size["width"])
        return write_volumes(directory, size.elements, shape, size["classes"])

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``corner`` float64 ``[n, 3]``: shares of the free space before the crop."""
        from skymark.suites.loading.random import uniforms

        return {"corner": uniforms(self.seed, epoch, indices, 3)}

    def corners(self, epoch: int, dataset: Dataset) -> Array:
        """Return the first voxel of every element's crop along each axis, int64 ``[n, 3]``."""
        from skymark.suites.loading.transforms.numeric import corner_of

        shape = dataset.column("volume").shape[1:]
        return corner_of(self.table(epoch)["corner"], shape, self.size["edge"])

    def stages(self) -> tuple[Stage, ...]:
        """Cut the drawn cube out; subtract its mean and divide by its deviation."""
        import numpy as np

        from skymark.suites.loading.transforms.numeric import corner_of, cube, z_score

        edge = self.size["edge"]

        def crop_at(place: Callable[[Array, Array], Array]) -> Work:
            """Return work that cuts a cube out, given the drawn shares and the free space."""

            def apply(element: Element, parameters: Parameters) -> Element:
                volume = element["volume"]
                corner = place(parameters["corner"], np.asarray(volume.shape) - edge)
                return {**element, "volume": cube(volume, corner, edge, element["index"])}

            return apply

        def drawn(shares: Array, free: Array) -> Array:
            return corner_of(shares, free + edge, edge)

        wrong_places = {
            "the central cube is cut out, not the drawn one": crop_at(
                lambda _, free: drawn(np.full(3, 0.5), free)
            ),
            "the corner's axes are in reverse order": crop_at(
                lambda shares, free: drawn(shares[::-1], free)
            ),
            "the corner is one voxel too far along each axis": crop_at(
                lambda shares, free: np.minimum(drawn(shares, free) + 1, free)
            ),
        }
        undivided = on("volume", lambda volume: volume - volume.mean())
        return (
            Stage("crop", crop_at(drawn), wrong_places),
            Stage(
                "normalise",
                on("volume", z_score),
                {"the mean is subtracted but nothing divided": undivided},
            ),
        )


@scenario
class VideoClips(Scenario):
    """Decode frames from a drawn one on, crop, flip, normalise: ``clip`` float32 ``[T, S, S, 3]``.

    A sample has ``frames`` frames, every ``stride``-th one. All have the same box and flip, drawn
    as in CV-1. The reference is FFmpeg by PyAV: it seeks the key frame before the first frame,
    decodes in one thread, and converts only the sampled frames. Verdicts name frames one too late
    or early, frames counted from the key frame, the clip's beginning, middle or whole, a missing
    stride, reverse order, and exchanged colours.
    """

    id: ClassVar = "CV-5"
    codec: ClassVar = "H.264"
    title: ClassVar = "video clips: decode frames of H.264, random crop in time and space, flip"
    variants: ClassVar = three_sizes(
        elements=(210, 301, 1_002),
        batch_size=(4, 4, 8),
        seconds=(2.0, 10.0, 10.0),
        height=(96, 256, 256),
        width=(168, 456, 456),
        side=(64, 224, 224),
        frames=(8, 16, 32),
        stride=(2, 4, 2),
        classes=(10, 100, 400),
    )
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 0.08
    native_mean_tolerance: ClassVar = 0.009
    """In deviations of a channel. Measured on 100 small and 24 medium clips, at most and by the
    mean of the worst clip: torchcodec's frames are the same, torchvision's resizer differs by 0.035
    and 0.0043. Wrong work is far off: no antialiasing 0.0105 on average in the best clip, frames
    one too late 0.24."""

    columns: ClassVar = ("mp4", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``mp4`` (H.264, 25 frames per second), ragged uint8, and ``label`` int64.

        Clips last half to all of ``seconds``: a disc of one texture moves before another moving
        texture. x264 encodes them (``veryfast``, constant quality 23, 4:2:0, a key frame every 12).
        """
        from skymark.suites.loading.dataset.clips import write_clips

        size = self.size
        dimensions = (size[name] for name in ("seconds", "height", "width", "classes"))
        return write_clips(directory, size.elements, *dimensions)

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area``, ``aspect``, ``corner`` and ``flip`` as in CV-1, and ``start`` ``[n]``.

        The start is a share of the frames at which the sample may begin.
        """
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.crops import DRAWS, crops_from

        numbers = uniforms(self.seed, epoch, indices, DRAWS + 2)
        crops = crops_from(numbers[:, :DRAWS])
        return {**crops, "flip": numbers[:, DRAWS] < 0.5, "start": numbers[:, DRAWS + 1]}

    def stages(self) -> tuple[Stage, ...]:
        """Decode the sampled frames to RGB; crop, resize, flip all alike; normalise."""
        from skymark.suites.loading.transforms import images, video
        from skymark.suites.loading.transforms.video import WRONG_SAMPLERS, sampled_frames

        side, frames, stride = (self.size[name] for name in ("side", "frames", "stride"))

        def decode_with(
            sampler: Sampler, *, from_key_frame: bool = False, channels: int = 1
        ) -> Work:
            def decode(element: Element, parameters: Parameters) -> Element:
                kept = {name: value for name, value in element.items() if name != "mp4"}
                start = float(parameters["start"])
                decoded = video.decode_frames(
                    element["mp4"],
                    lambda whole: sampler(start, whole, frames, stride),
                    from_key_frame=from_key_frame,
                )
                return {**kept, "clip": decoded[..., ::channels]}

            return decode

        return (
            Stage(
                "decode",
                decode_with(sampled_frames),
                {
                    **{what: decode_with(sampler) for what, sampler in WRONG_SAMPLERS.items()},
                    video.FROM_KEY_FRAME: decode_with(sampled_frames, from_key_frame=True),
                    "red and blue are exchanged": decode_with(sampled_frames, channels=-1),
                },
            ),
            images.crop_stage(
                "clip", lambda clip, crop, drawn: video.cropped(clip, crop, drawn, side)
            ),
            images.flip_stage("clip", video.flipped, "clip"),
            images.normalise_stage("clip"),
        )
