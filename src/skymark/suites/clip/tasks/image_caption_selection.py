"""Image-caption selection: the right caption of each image, and the right image of each caption.

Definitions are those of clip_benchmark 1.6.2, ``metrics/image_caption_selection.py``, which scores
SugarCrepe (one image, two captions) and Winoground (two of each).
"""

from __future__ import annotations

from typing import Any

from skymark.suites.clip.tasks.similarity import unit


def selection_metrics(image_features: Any, text_features: Any) -> dict[str, float]:
    """Return the share of instances with all images, all texts, and both right.

    Args:
        image_features: of shape (instances, images, dimensions).
        text_features: of shape (instances, texts, dimensions); the i-th is of the i-th image.
    """
    import torch

    images, texts = unit(image_features), unit(text_features)
    scores = images @ texts.transpose(1, 2)
    pairs = min(images.shape[1], texts.shape[1])
    own = torch.arange(pairs, device=scores.device)
    text_right = (scores.argmax(dim=2)[:, :pairs] == own).all(dim=1)
    image_right = (scores.argmax(dim=1)[:, :pairs] == own).all(dim=1)
    count = len(scores)
    return {
        "image_acc": int(image_right.sum()) / count,
        "text_acc": int(text_right.sum()) / count,
        "acc": int((image_right & text_right).sum()) / count,
    }
