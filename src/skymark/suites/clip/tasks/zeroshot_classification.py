"""Zero-shot classification: images compared with the mean of each class's prompts.

Definitions are those of clip_benchmark 1.6.2, ``metrics/zeroshot_classification.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skymark.suites.clip.tasks.retrieval import compared, unit

LOGIT_SCALE = 100.0
TOP = 5


@dataclass(frozen=True)
class ClassScore:
    """How well a class was told apart from the others."""

    precision: float
    recall: float
    f1: float
    support: int


def classifier_of(prompt_features: Any, counts: Sequence[int]) -> Any:
    """Return one unit vector per class: float32 of shape (classes, dimensions).

    Args:
        prompt_features: of all prompts, class by class.
        counts: the number of prompts of each class.
    """
    import torch

    by_class = unit(prompt_features).split(list(counts))
    mean = torch.stack([one.mean(dim=0) for one in by_class])
    return mean / mean.norm(dim=-1, keepdim=True)


def logits_of(image_features: Any, classifier: Any) -> Any:
    """Return the logits: float32 of shape (images, classes)."""
    import torch

    parts = [part for _, part in compared(LOGIT_SCALE * unit(image_features), classifier)]
    return torch.cat(parts)


def single_label_metrics(logits: Any, labels: Any) -> dict[str, float]:
    """Return acc1, acc5 from five classes on, and the mean recall of the classes that occur."""
    import torch

    count, classes = logits.shape
    ranked = logits.topk(min(TOP, classes), dim=1).indices
    hits = ranked == labels[:, None]
    metrics = {"acc1": float(hits[:, 0].sum()) / count}
    if classes >= TOP:
        metrics["acc5"] = float(hits.any(dim=1).sum()) / count
    right = torch.bincount(labels[logits.argmax(dim=1) == labels], minlength=classes).double()
    there = torch.bincount(labels, minlength=classes)
    metrics["mean_per_class_recall"] = float((right[there > 0] / there[there > 0]).mean())
    return metrics


def class_scores(predicted: Any, labels: Any, classes: int) -> list[ClassScore]:
    """Return precision, recall, F1 and the number of images of each class; 0 where undefined."""
    import torch

    right = torch.bincount(labels[predicted == labels], minlength=classes).tolist()
    there = torch.bincount(labels, minlength=classes).tolist()
    chosen = torch.bincount(predicted, minlength=classes).tolist()
    return [
        ClassScore(
            precision=hit / named if named else 0.0,
            recall=hit / support if support else 0.0,
            f1=2 * hit / (named + support) if named + support else 0.0,
            support=support,
        )
        for hit, support, named in zip(right, there, chosen, strict=True)
    ]


def average_precisions(logits: Any, labels: Any) -> Any:
    """Return the average precision of each class: float32 of shape (classes,).

    Args:
        logits: of shape (images, classes).
        labels: ones and zeros of the same shape.
    """
    import torch

    ranks = torch.arange(1, len(logits) + 1, device=logits.device).float()
    found = torch.zeros(logits.shape[1])
    for number in range(logits.shape[1]):
        order = torch.sort(logits[:, number], dim=0, descending=True).indices
        truth = labels[order, number]
        precision = truth.float().cumsum(0) / ranks
        found[number] = precision[truth.bool()].sum() / max(float(truth.sum()), 1.0)
    return found


def class_report(names: Sequence[str], predicted: Any, labels: Any) -> str:
    """Return a table of the classes' scores."""
    scores = class_scores(predicted, labels, len(names))
    width = max(map(len, names))
    lines = [f"{'class':{width}}  precision  recall     f1  images"]
    lines += [
        f"{name:{width}}  {one.precision:9.3f}  {one.recall:6.3f}  {one.f1:5.3f}  {one.support:6}"
        for name, one in zip(names, scores, strict=True)
    ]
    return "\n".join(lines)


def precision_report(names: Sequence[str], precisions: Any) -> str:
    """Return a table of the classes' average precision, float32 of shape (classes,)."""
    width, values = max(map(len, names)), precisions.tolist()
    lines = [f"{'class':{width}}  average precision"]
    lines += [f"{name:{width}}  {value:17.3f}" for name, value in zip(names, values, strict=True)]
    return "\n".join(lines)
