"""A guess of the time that one round of a cell takes, from operations and images."""

from __future__ import annotations

from skymark.model.platform import Platform
from skymark.model.span import Span
from skymark.suites.clip.datasets.dataset import DataSet
from skymark.suites.clip.models.registry import Sizes
from skymark.suites.clip.specification import ClipSpecification, Precision

OPERATIONS_PER_S: dict[Platform, dict[Precision, float]] = {
    "cpu": {"fp32": 1.5e11, "bf16": 1.5e11, "fp16": 5e10, "amp": 1.5e11},
    "gpu": {"fp32": 3e13, "bf16": 2e14, "fp16": 2e14, "amp": 1.5e14},
    "tpu": {"fp32": 3e13, "bf16": 1e14, "fp16": 1e14, "amp": 1e14},
}
"""Floating-point operations per second that encoders reach: two cores with AVX-512, an H100.
Assumed; the time of the same cell in an earlier run takes the place of the guess."""

MACHINE_FACTOR = 8.0
"""How much faster or slower the machine may be. Assumed: 2 to 16 cores, A100 to H200."""

READING_S_PER_IMAGE = 0.004
"""To read, decode and resize an image on one core, once per data set and preprocessing. Assumed:
2 to 10 ms for photographs."""
KEPT_S_PER_IMAGE = 0.0001
"""To read the pixels that are kept. Assumed."""
SET_UP_S = 3.0
"""To build the classifier's prompts, score, and write down. Assumed."""
PROBE_S_PER_EPOCH_IMAGE = 2e-5
"""To train a linear classifier on the features of one image. Assumed."""
PROBE_SEARCHES = 31
"""Trainings of a search for the weight decay, and the last one."""
TRAIN_IMAGES_PER_TEST_IMAGE = 5
"""Size of a training split over that of its test split. Assumed."""


def guess(
    specification: ClipSpecification, dataset: DataSet, sizes: Sizes | None, platform: Platform
) -> Span | None:
    """Return the seconds of one round; None where the size of model or data set is not known."""
    if sizes is None or dataset.images is None:
        return None
    images, texts = dataset.images, texts_of(dataset)
    if specification.linear_probe is not None:
        images, texts = images * (1 + TRAIN_IMAGES_PER_TEST_IMAGE), 0
    operations = images * sizes.image_flops + texts * sizes.text_flops
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
