"""Floating-point operations of a training step, and the most that an accelerator makes of them."""

from __future__ import annotations

from collections.abc import Mapping

FLOPS_PER_IMAGE: Mapping[str, int] = {
    "resnet50": 24_299_077_632,
    "vit_b16": 105_151_758_336,
}
"""Of an update with one image of 224 × 224 pixels, forward and backward: two for each
multiplication with addition in convolutions and products of matrices, as
`torch.utils.flop_counter` counts them."""

PEAKS: tuple[tuple[str, float], ...] = (
    ("GB200", 2500e12),
    ("B200", 2250e12),
    ("GH200", 990e12),
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("A30", 165e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("TPU v6 lite", 918e12),
    ("TPU v5 lite", 197e12),
    ("TPU v5", 459e12),
    ("TPU v4", 275e12),
)
"""FLOP/s in bfloat16, dense, by a part of the name that a framework gives a device; the first that
fits counts. From NVIDIA's data sheets, halved where they count structured sparsity, and from
https://cloud.google.com/tpu/docs/system-architecture-tpu-vm."""

SLICE = "MIG"
"""Part of the name of a slice of a GPU, which has a share of its peak."""


def peak_flops_per_s(device: str) -> float | None:
    """Return the peak of a device in bfloat16 by its name; None for one that is not known."""
    words = f" {device.replace('-', ' ')} "
    if SLICE in device:
        return None
    return next((peak for name, peak in PEAKS if f" {name} " in words), None)
