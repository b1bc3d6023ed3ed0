"""Memory that a model needs on an accelerator, from its architecture."""

from __future__ import annotations

from skymark.suites.clip.models.registry import Sizes
from skymark.suites.clip.specification import Precision

CONTEXT_BYTES = 600 << 20
"""CUDA's context with the kernels of PyTorch. Assumed: 400 to 600 MiB on GPUs from A100 on."""
USUAL_BATCH = 64
"""Images of a batch that must fit where no size is given; the worker takes more where it can."""
TEXT_BATCH = 256
"""Texts that are encoded at once."""
HELD_AT_ONCE = 2.0
"""Memory of a forward pass over what its largest operation reads and writes: the residual stream
lies beside it, and the allocator's blocks are larger than what is in them. Assumed."""
PARAMETER_BYTES: dict[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "amp": 6}
"""With automatic mixed precision, a copy in half precision lies beside the weights."""
ACTIVATION_SHARE: dict[Precision, float] = {"fp32": 1.0, "bf16": 0.5, "fp16": 0.5, "amp": 0.75}
"""Of the bytes that activations take in fp32."""


def device_bytes(sizes: Sizes, precision: Precision, batch_size: int | None) -> int:
    """Return the bytes that a model and one batch take on an accelerator.

    Args:
        sizes: of its architecture.
        precision: of the encoders.
        batch_size: images per batch; None for the least that is worth having.
    """
    weights = (sizes.image_parameters + sizes.text_parameters) * PARAMETER_BYTES[precision]
    images = sizes.image_bytes * (batch_size or USUAL_BATCH)
    texts = sizes.text_bytes * TEXT_BATCH
    activations = max(images, texts) * ACTIVATION_SHARE[precision] * HELD_AT_ONCE
    return int(CONTEXT_BYTES + weights + activations)
