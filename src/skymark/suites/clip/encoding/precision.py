"""Precision of the encoders; features leave them in fp32, and similarities are taken in fp32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from skymark.suites.clip.specification import Precision


def dtype_of(precision: Precision) -> Any:
    """Return the `torch.dtype` of weights and inputs; ``amp`` keeps them in fp32."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)


def casting(precision: Precision, device: Any) -> AbstractContextManager[Any]:
    """Return the context in which encoders run: autocast, as clip_benchmark has it, for ``amp``."""
    import torch

    return torch.autocast(device.type) if precision == "amp" else nullcontext()
