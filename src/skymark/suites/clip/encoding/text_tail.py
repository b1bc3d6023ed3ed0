"""Text positions after the end token: behind a causal mask, nothing that is pooled sees them."""

from __future__ import annotations

from typing import Any

STEP = 16
"""Numbers of positions are multiples of this. Features in fp32 were then those of the full length
to the last bit, and with steps of 8 they were not (two models of the table of parity and ViT-B-32,
on a CPU with AVX-512): sums were rounded otherwise, and images equally near changed places."""


def can_drop(network: Any) -> bool:
    """Whether a text encoder pools at the end token and no position sees a later one."""
    text = getattr(network, "text", network)
    if getattr(text, "attn_mask", None) is None or getattr(text, "cls_emb", None) is not None:
        return False
    return _pool_type(text) in {"argmax", "eos"} and not getattr(text, "use_pad_mask", False)


def lengths_of(network: Any, tokens: Any) -> Any:
    """Return how many positions each text needs, its end token included.

    Args:
        network: an open_clip model for which `can_drop` holds.
        tokens: int64 of shape (texts, positions).
    """
    text = getattr(network, "text", network)
    if _pool_type(text) == "argmax":
        return tokens.argmax(dim=-1) + 1
    end = getattr(text, "text_eos_id", None) or text.eos_id
    return (tokens == end).int().argmax(dim=-1) + 1


def kept_positions(lengths: Any, whole: int) -> int:
    """Return how many positions a batch keeps: those of its longest text, in steps of `STEP`.

    Args:
        lengths: int64 of shape (texts,): positions that each needs, from `lengths_of`.
        whole: those that the encoder was made for.
    """
    return min(whole, -(-int(lengths.max()) // STEP) * STEP)


class Shortened:
    """Context in which a text encoder takes fewer positions than it was made for."""

    def __init__(self, network: Any, positions: int) -> None:
        self._text = getattr(network, "text", network)
        self._positions = positions
        self._whole: tuple[Any, Any] | None = None

    def __enter__(self) -> None:
        """Cut the positional embedding and the mask, which open_clip adds uncut."""
        import torch

        text, count = self._text, self._positions
        self._whole = text.positional_embedding, text.attn_mask
        cut = torch.nn.Parameter(text.positional_embedding[:count], requires_grad=False)
        text.positional_embedding, text.attn_mask = cut, text.attn_mask[:count, :count]

    def __exit__(self, *_: object) -> None:
        """Put them back."""
        if self._whole is not None:
            self._text.positional_embedding, self._text.attn_mask = self._whole


def _pool_type(text: Any) -> str | None:
    found: str | None = getattr(text, "text_pool_type", None) or getattr(text, "pool_type", None)
    return found
