"""Retrieval and image-caption selection, and the similarities of features they rest on.

Definitions are those of clip_benchmark 1.6.2, ``metrics/zeroshot_retrieval.py``: a query counts as
found if at least one of its own is among the first k.

Definitions are those of clip_benchmark 1.6.2, ``metrics/image_caption_selection.py``, which scores
SugarCrepe (one image, two captions) and Winoground (two of each).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from skymark.model.errors import UsageError

ROWS = 1024
"""Queries that are compared at a time, so that memory does not grow with their number."""


def unit(features: Any) -> Any:
    """Return features of length 1, in fp32."""
    import torch

    return torch.nn.functional.normalize(features.float(), dim=-1)


def compared(queries: Any, others: Any) -> Iterator[tuple[int, Any]]:
    """Yield similarities of some queries with all others, with the number of the first query."""
    for start in range(0, len(queries), ROWS):
        yield start, queries[start : start + ROWS] @ others.T


def retrieval_metrics(
    image_features: Any, text_features: Any, image_of_text: Any, recall_k: Sequence[int]
) -> dict[str, float]:
    """Return the recall of images and of texts at each k.

    Args:
        image_features: of shape (images, dimensions).
        text_features: of shape (texts, dimensions).
        image_of_text: int64 of shape (texts,): the image that each text belongs to.
        recall_k: numbers of results.
    """
    import torch

    images, texts = unit(image_features), unit(text_features)
    fewest = min(len(images), len(texts))
    if max(recall_k) > fewest:
        raise UsageError(
            f"recall at {max(recall_k)} needs as many images and texts; there are {fewest}"
        )
    numbers = torch.arange(len(images), device=images.device)
    of_images = _recalls(texts, images, image_of_text, numbers, recall_k)
    of_texts = _recalls(images, texts, numbers, image_of_text, recall_k)
    metrics: dict[str, float] = {}
    for k in recall_k:
        metrics[f"image_retrieval_recall@{k}"] = of_images[k]
        metrics[f"text_retrieval_recall@{k}"] = of_texts[k]
    return metrics


def _recalls(
    queries: Any, results: Any, of_query: Any, of_result: Any, recall_k: Sequence[int]
) -> dict[int, float]:
    """Return the share of queries with one of their own among the first k results, by k.

    Args:
        queries: of shape (queries, dimensions).
        results: of shape (results, dimensions).
        of_query: int64 of shape (queries,): the image that each is, or belongs to.
        of_result: int64 of shape (results,): the same of the results.
        recall_k: numbers of results.
    """
    found = dict.fromkeys(recall_k, 0)
    for start, scores in compared(queries, results):
        own = of_query[start : start + len(scores), None]
        for k in recall_k:
            # Not the first k of the largest: equally near ones are in another order there.
            hits = of_result[scores.topk(k, dim=1).indices] == own
            found[k] += int(hits.any(dim=1).sum())
    return {k: count / len(queries) for k, count in found.items()}


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
