"""TorchCodec: a DataLoader whose workers decode video and audio with torchcodec.

The loader, its sampler and its workers are those of the adapter `pytorch`. What torchcodec decodes
is transformed by the functions behind `torchvision.transforms.v2`, and by PyTorch's own. It calls
FFmpeg's shared libraries, which its wheel does not bring.
"""

from __future__ import annotations

from typing import ClassVar

from skymark.model.errors import LibraryAbsentError
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.torchcodec.operators import OPERATORS
from skymark.suites.loading.adapters.torchvision import Torchvision
from skymark.suites.loading.adapters.torchvision.adapter import OperatedElements, OperatedLoader
from skymark.suites.loading.devices import TORCH


class Media(OperatedElements):
    """Elements that torchcodec has decoded."""

    operators: ClassVar = OPERATORS


class MediaLoader(OperatedLoader):
    """One DataLoader of clips or sounds."""

    elements: ClassVar = Media


@adapter
class TorchCodec(Adapter):
    """`torch.utils.data.DataLoader` over `torchcodec.decoders`."""

    slug: ClassVar = "torchcodec"
    name: ClassVar = "PyTorch with torchcodec"
    distribution: ClassVar = "torchcodec"
    imports: ClassVar = "torchcodec.decoders"
    homepage: ClassVar = "https://meta-pytorch.org/torchcodec"
    guide: ClassVar = (
        "https://meta-pytorch.org/torchcodec/stable/generated_examples/decoding/"
        "performance_tips.html"
    )
    abilities: ClassVar = Torchvision.abilities
    limits: ClassVar = Torchvision.limits
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = Torchvision.formats
    native: ClassVar = frozenset(OPERATORS)
    native_only: ClassVar = (
        "it decodes video and audio; torchvision does images, and pytorch the rest"
    )
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    @classmethod
    def import_library(cls) -> None:
        """Import torchcodec, and see whether it found FFmpeg."""
        try:
            super().import_library()
            from torchcodec import ffmpeg_major_version
        except RuntimeError as error:  # Releases for CUDA 12 do not import without FFmpeg.
            if "libtorchcodec" not in str(error):
                raise
            ffmpeg_major_version = None
        if ffmpeg_major_version is None:
            raise LibraryAbsentError(
                "torchcodec found no shared libraries of FFmpeg, which its wheel does not bring; "
                "run: apt-get install --no-install-recommends ffmpeg"
            )

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return MediaLoader(job)
