"""Text positions after the end token: behind a causal mask, the pooled token does not see them."""

from __future__ import annotations

from typing import Any

STEP = 16
"""Texts keep a multiple of this number of positions. With steps of 16, features in fp32 equalled
the full length's to the last bit; with steps of 8, sums were rounded differently and images at
equal distance changed places. Seen with ViT-B-32 and two models of the parity table, on a CPU with
AVX-512."""


def can_drop(network: Any) -> bool:
    """Whether a text encoder pools at the end token and positions see earlier positions only."""
    text = getattr(network, "text", network)
    if getattr(text, "attn_mask", None) is None or getattr(text, "cls_emb", None) is not None:
        return False
    return _pool_type(text) in {"argmax", "eos"} and not getattr(text, "use_pad_mask", False)


def lengths_of(network: Any, tokens: Any) -> Any:
    """Return the number of positions of each text, its end token included.

    Args:
        network: an open_clip model that `can_drop` accepts.
        tokens: int64 of shape (texts, positions).
    """
    text = getattr(network, "text", network)
    if _pool_type(text) == "argmax":
        return tokens.argmax(dim=-1) + 1
    end = getattr(text, "text_eos_id", None) or text.eos_id
    return (tokens == end).int().argmax(dim=-1) + 1


def kept_positions(lengths: Any, whole: int) -> int:
    """Return the number of positions that a batch keeps: its longest text, rounded up to `STEP`.

    Args:
        lengths: int64 of shape (texts,): positions of each text, from `lengths_of`.
        whole: positions of the encoder.
    """
    return min(whole, -(-int(lengths.max()) // STEP) * STEP)


class Shortened:
    """Context that shortens a text encoder to fewer positions."""

    def __init__(self, network: Any, positions: int) -> None:
        self._text = getattr(network, "text", network)
        self._positions = positions
        self._whole: tuple[Any, Any] | None = None

    def __enter__(self) -> None:
        """Cut the positional embedding and the mask."""
        import torch

        text, count = self._text, self._positions
        self._whole = text.positional_embedding, text.attn_mask
        cut = torch.nn.Parameter(text.positional_embedding[:count], requires_grad=False)
        text.positional_embedding, text.attn_mask = cut, text.attn_mask[:count, :count]

    def __exit__(self, *_: object) -> None:
        """Restore the embedding and the mask."""
        if self._whole is not None:
            self._text.positional_embedding, self._text.attn_mask = self._whole


def _pool_type(text: Any) -> str | None:
    found: str | None = getattr(text, "text_pool_type", None) or getattr(text, "pool_type", None)
    return found
