"""Estimates for a cell: the time of a round, and the memory of its model."""

from __future__ import annotations

from skymark.model.duration import Span
from skymark.model.machine import Platform
from skymark.suites.clip.datasets.local import DataSet
from skymark.suites.clip.models.choosing import Sizes
from skymark.suites.clip.specification import CAPTIONING, ClipSpecification, Precision

OPERATIONS_PER_S: dict[Platform, dict[Precision, float]] = {
    "cpu": {"fp32": 1.5e11, "bf16": 1.5e11, "fp16": 5e10, "amp": 1.5e11},
    "gpu": {"fp32": 3e13, "bf16": 2e14, "fp16": 2e14, "amp": 1.5e14},
    "tpu": {"fp32": 3e13, "bf16": 1e14, "fp16": 1e14, "amp": 1e14},
}
"""Floating-point operations per second of the encoders: two cores with AVX-512, an H100. Assumed;
the time of the same cell in an earlier run replaces the guess."""

MACHINE_FACTOR = 8.0
"""Factor to the fastest and the slowest machine. Assumed: 2 to 16 cores, A100 to H200."""

READING_S_PER_IMAGE = 0.004
"""Seconds to read, decode and resize an image on one core. Assumed: 2 to 10 ms for photographs."""
KEPT_S_PER_IMAGE = 0.0001
"""Seconds to read the cached pixels of an image. Assumed."""
SET_UP_S = 3.0
"""Seconds to build prompts, score, and write the record. Assumed."""
PROBE_S_PER_EPOCH_IMAGE = 2e-5
"""Seconds to train a linear classifier on the features of one image. Assumed."""
PROBE_SEARCHES = 31
"""Trainings of a search for the weight decay, with the final training."""
BEAMS = 6
"""Captions that are tried at once for an image; open_clip encodes the image for each."""
DECODED_TEXTS = 12
"""Passes through the text encoder, in full length, for a caption of 30 tokens and its decoder.
Assumed: each token needs a pass through both over the tokens before it."""
TRAIN_IMAGES_PER_TEST_IMAGE = 5
"""Ratio of a training split to its test split. Assumed."""


def guess(
    specification: ClipSpecification, dataset: DataSet, sizes: Sizes | None, platform: Platform
) -> Span | None:
    """Return the seconds of one round; None if the size of model or data set is unknown."""
    if sizes is None or dataset.images is None:
        return None
    images, texts = dataset.images, texts_of(dataset)
    if specification.limit is not None and specification.limit < images:
        if dataset.texts is not None:
            texts = texts * specification.limit // images
        images = specification.limit
    if specification.linear_probe is not None:
        images, texts = images * (1 + TRAIN_IMAGES_PER_TEST_IMAGE), 0
    operations = images * sizes.image_flops + texts * sizes.text_flops
    if specification.task == CAPTIONING:
        operations = images * BEAMS * (sizes.image_flops + DECODED_TEXTS * sizes.text_flops)
    rate = OPERATIONS_PER_S[platform][specification.precision]
    encoders_s = operations / rate
    probe_s = _probe_s(specification, images)
    return Span(
        low_s=encoders_s / MACHINE_FACTOR + images * KEPT_S_PER_IMAGE,
        expected_s=SET_UP_S + encoders_s + images * KEPT_S_PER_IMAGE + probe_s,
        high_s=SET_UP_S
        + encoders_s * MACHINE_FACTOR
        + images * READING_S_PER_IMAGE
        + probe_s * MACHINE_FACTOR,
    )


def texts_of(dataset: DataSet) -> int:
    """Return the number of prompts or captions of a data set."""
    if dataset.texts is not None:
        return dataset.texts
    return (dataset.classes or 0) * (dataset.prompts or 1)


def _probe_s(specification: ClipSpecification, images: int) -> float:
    probe = specification.linear_probe
    if probe is None:
        return 0.0
    trainings = PROBE_SEARCHES if probe.val_proportion or probe.val_split else 1
    return images * probe.epochs * trainings * PROBE_S_PER_EPOCH_IMAGE


CONTEXT_BYTES = 600 << 20
"""CUDA's context with the kernels of PyTorch. Assumed: 400 to 600 MiB on GPUs from A100 on."""
USUAL_BATCH = 64
"""Images of a batch that must fit by default; the worker takes more if they fit."""
TEXT_BATCH = 256
"""Texts of a batch."""
HELD_AT_ONCE = 2.0
"""Ratio of a forward pass's memory to the reads and writes of its largest operation: the residual
stream needs memory, too, and the allocator rounds blocks up. Assumed."""
PARAMETER_BYTES: dict[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "amp": 6}
"""Automatic mixed precision adds a copy of the weights in half precision."""
ACTIVATION_SHARE: dict[Precision, float] = {"fp32": 1.0, "bf16": 0.5, "fp16": 0.5, "amp": 0.75}
"""Share of the activations' bytes in fp32."""


def device_bytes(sizes: Sizes, precision: Precision, batch_size: int | None) -> int:
    """Return the bytes of a model and one batch on an accelerator.

    Args:
        sizes: of its architecture.
        precision: of the encoders.
        batch_size: images per batch; None for `USUAL_BATCH`.
    """
    weights = (sizes.image_parameters + sizes.text_parameters) * PARAMETER_BYTES[precision]
    images = sizes.image_bytes * (batch_size or USUAL_BATCH)
    texts = sizes.text_bytes * TEXT_BATCH
    activations = max(images, texts) * ACTIVATION_SHARE[precision] * HELD_AT_ONCE
    return int(CONTEXT_BYTES + weights + activations)
