"""CV-2 and CV-5: volumes like those of medical imaging, and video clips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.transforms.images import Crop, Work
    from skymark.suites.loading.transforms.video import Sampler


@scenario
class Volumes(Scenario):
    """Cut a cube out at the drawn corner and take its z-score: ``volume`` float32 ``[E, E, E]``."""

    id: ClassVar = "CV-2"
    title: ClassVar = "3-D volumes: random crop, normalise"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(
            elements=210,
            batch_size=4,
            values={"depth": 40, "height": 48, "width": 56, "edge": 32, "classes": 2},
        ),
        "medium": Size(
            elements=301,
            batch_size=4,
            values={"depth": 64, "height": 96, "width": 96, "edge": 64, "classes": 2},
        ),
        "large": Size(
            elements=402,
            batch_size=4,
            values={"depth": 96, "height": 160, "width": 160, "edge": 96, "classes": 2},
        ),
    }

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``volume`` int16 ``[depth, height, width]``, ``label`` int64."""
        from skymark.suites.loading.dataset.clips import write_volumes

        size = self.size
        shape = (size["depth"], size["height"], size["width"])
        return write_volumes(directory, size.elements, shape, size["classes"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the work."""
        return ("volume", "label")

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``corner`` float64 ``[n, 3]``: shares of the free space before the crop."""
        from skymark.suites.loading.random import uniforms

        return {"corner": uniforms(self.seed, epoch, indices, 3)}

    def corners(self, epoch: int, dataset: Dataset) -> Array:
        """Return the first voxel of every element's crop along each axis, int64 ``[n, 3]``."""
        from skymark.suites.loading.transforms.field import corner_of

        shape = dataset.column("volume").shape[1:]
        return corner_of(self.table(epoch)["corner"], shape, self.size["edge"])

    def stages(self) -> tuple[Stage, ...]:
        """Cut the drawn cube out; subtract its mean and divide by its deviation."""
        import numpy as np

        from skymark.suites.loading.transforms.field import corner_of, cube, z_score

        edge = self.size["edge"]

        def crop(element: Element, parameters: Parameters) -> Element:
            volume = element["volume"]
            corner = corner_of(parameters["corner"], volume.shape, edge)
            return {**element, "volume": cube(volume, corner, edge, element["index"])}

        def centre_crop(element: Element, parameters: Parameters) -> Element:
            del parameters
            return crop(element, {"corner": np.full(3, 0.5)})

        def mirrored_corner(element: Element, parameters: Parameters) -> Element:
            return crop(element, {"corner": parameters["corner"][::-1]})

        def next_corner(element: Element, parameters: Parameters) -> Element:
            volume = element["volume"]
            corner = corner_of(parameters["corner"], volume.shape, edge)
            free = np.asarray(volume.shape) - edge
            return {
                **element,
                "volume": cube(volume, np.minimum(corner + 1, free), edge, element["index"]),
            }

        def normalise(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "volume": z_score(element["volume"])}

        def subtract_mean(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "volume": element["volume"] - element["volume"].mean()}

        return (
            Stage(
                "crop",
                crop,
                {
                    "the central cube is cut out, not the drawn one": centre_crop,
                    "the corner's axes are in reverse order": mirrored_corner,
                    "the corner is one voxel too far along each axis": next_corner,
                },
            ),
            Stage(
                "normalise",
                normalise,
                {"the mean is subtracted but nothing divided": subtract_mean},
            ),
        )


@scenario
class VideoClips(Scenario):
    """Decode frames from a drawn one on, crop, flip, normalise: ``clip`` float32 ``[T, S, S, 3]``.

    Every frame of a clip has the same box and is mirrored or not as the others.
    """

    id: ClassVar = "CV-5"
    title: ClassVar = "video clips: decode frames of H.264, random crop in time and space, flip"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(
            elements=210,
            batch_size=4,
            values={
                "seconds": 2.0,
                "height": 96,
                "width": 168,
                "side": 64,
                "frames": 8,
                "stride": 2,
                "classes": 10,
            },
        ),
        "medium": Size(
            elements=301,
            batch_size=4,
            values={
                "seconds": 10.0,
                "height": 256,
                "width": 456,
                "side": 224,
                "frames": 16,
                "stride": 4,
                "classes": 100,
            },
        ),
        "large": Size(
            elements=1_002,
            batch_size=8,
            values={
                "seconds": 10.0,
                "height": 256,
                "width": 456,
                "side": 224,
                "frames": 32,
                "stride": 2,
                "classes": 400,
            },
        ),
    }
    encoded_media: ClassVar = True
    holds_lock: ClassVar = True
    native_tolerance: ClassVar = 0.08
    native_mean_tolerance: ClassVar = 0.009
    """In deviations of a channel. Measured on 100 small and 24 medium clips, at most and by the
    mean of the worst clip: torchcodec's frames are the same, torchvision's resizer differs by 0.035
    and 0.0043. Wrong work is far off: no antialiasing 0.0105 on average in the best clip, frames
    one too late 0.24."""

    @property
    def columns(self) -> tuple[str, ...]:
        """A clip and its class."""
        return ("mp4", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``mp4`` (H.264, 25 frames per second), ragged uint8, and ``label`` int64."""
        from skymark.suites.loading.dataset.clips import write_clips

        size = self.size
        return write_clips(
            directory,
            size.elements,
            size["seconds"],
            size["height"],
            size["width"],
            size["classes"],
        )

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``area``, ``aspect``, ``corner``, ``flip`` as CV-1 does, and ``start`` ``[n]``.

        That is the share of the frames where the sample may begin.
        """
        from skymark.suites.loading.random import uniforms
        from skymark.suites.loading.transforms.crops import DRAWS, crops_from

        numbers = uniforms(self.seed, epoch, indices, DRAWS + 2)
        crops = crops_from(numbers[:, :DRAWS])
        return {**crops, "flip": numbers[:, DRAWS] < 0.5, "start": numbers[:, DRAWS + 1]}

    def stages(self) -> tuple[Stage, ...]:
        """Decode the sampled frames to RGB; crop, resize, flip all alike; normalise."""
        from skymark.suites.loading.transforms import images, video
        from skymark.suites.loading.transforms.field import on
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

        def crop_with(crop: Crop) -> Work:
            def cut(element: Element, parameters: Parameters) -> Element:
                clip = video.cropped(element["clip"], crop, parameters, side)
                return {**element, "clip": clip}

            return cut

        def flip(element: Element, parameters: Parameters) -> Element:
            if not parameters["flip"]:
                return element
            return {**element, "clip": video.flipped(element["clip"])}

        def flip_all(element: Element, parameters: Parameters) -> Element:
            return flip(element, {**parameters, "flip": True})

        def flip_others(element: Element, parameters: Parameters) -> Element:
            return flip(element, {**parameters, "flip": not parameters["flip"]})

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
            Stage(
                "crop",
                crop_with(images.random_resized_crop),
                {what: crop_with(crop) for what, crop in images.WRONG_CROPS.items()},
            ),
            Stage(
                "flip",
                flip,
                {"every clip is mirrored": flip_all, "the other clips are mirrored": flip_others},
            ),
            Stage(
                "normalise",
                on("clip", images.normalised),
                {images.ONLY_SCALED: on("clip", images.scaled)},
            ),
        )
