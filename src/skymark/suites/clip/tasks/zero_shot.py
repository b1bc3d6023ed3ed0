"""Zero-shot tasks: classification, retrieval and image-caption selection.

Definitions follow clip_benchmark 1.6.2:

- ``metrics/zeroshot_classification.py``
- ``metrics/zeroshot_retrieval.py``: a query is found if the first k results have a match for it.
- ``metrics/image_caption_selection.py``: SugarCrepe has one image and two captions per instance,
  Winoground two images and two captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skymark.model.errors import UsageError
from skymark.suites.clip.reading.samples import Association
from skymark.suites.clip.tasks.outcomes import (
    f1_macro,
    parts_of_class_recall,
    parts_of_texts,
    pseudo_values_of_precision,
    worst_group,
)


class Scores(NamedTuple):
    """Metrics of a task, and each image's part of them."""

    metrics: dict[str, float]
    parts: dict[str, Any]
    """Columns of the samples: an array with a value per image or instance."""


ROWS = 1024
"""Queries per comparison, so that memory does not grow with their number."""


def unit(features: Any) -> Any:
    """Return features of length 1, in fp32."""
    import torch

    return torch.nn.functional.normalize(features.float(), dim=-1)


def compared(queries: Any, others: Any) -> Iterator[tuple[int, Any]]:
    """Yield similarities of some queries with all results, with the number of the first query."""
    for start in range(0, len(queries), ROWS):
        yield start, queries[start : start + ROWS] @ others.T


def retrieval_metrics(
    image_features: Any, text_features: Any, image_of_text: Any, recall_k: Sequence[int]
) -> Scores:
    """Return the recall of images and of texts at each k; absent with fewer than k images.

    Args:
        image_features: of shape (images, dimensions).
        text_features: of shape (texts, dimensions).
        image_of_text: int64 of shape (texts,): the image of each text.
        recall_k: numbers of results.
    """
    import torch

    images, texts = unit(image_features), unit(text_features)
    fewest = min(len(images), len(texts))
    if min(recall_k) > fewest:
        raise UsageError(
            f"recall at {min(recall_k)} needs as many images and texts, and there are {fewest}; "
            f"give --recall-k {fewest} or less"
        )
    recall_k = [k for k in recall_k if k <= fewest]
    numbers = torch.arange(len(images), device=images.device)
    of_images = _recalls(texts, images, image_of_text, numbers, recall_k)
    of_texts = _recalls(images, texts, numbers, image_of_text, recall_k)
    metrics: dict[str, float] = {}
    parts: dict[str, Any] = {}
    own = image_of_text.cpu().numpy()
    for k in recall_k:
        metrics[f"image_retrieval_recall@{k}"] = float(of_images[k].mean())
        metrics[f"text_retrieval_recall@{k}"] = float(of_texts[k].mean())
        parts[f"image_hit_{k}"] = parts_of_texts(of_images[k], own, len(images))
        parts[f"text_hit_{k}"] = of_texts[k]
    fewest = min(recall_k)
    parts["score_part"] = (parts[f"image_hit_{fewest}"] + parts[f"text_hit_{fewest}"]) / 2
    return Scores(metrics, parts)


def _recalls(
    queries: Any, results: Any, of_query: Any, of_result: Any, recall_k: Sequence[int]
) -> dict[int, Any]:
    """Return whether each query has a match among the first k results: bool arrays by k.

    Args:
        queries: of shape (queries, dimensions).
        results: of shape (results, dimensions).
        of_query: int64 of shape (queries,): the image of each query.
        of_result: int64 of shape (results,): the image of each result.
        recall_k: numbers of results.
    """
    import torch

    found: dict[int, list[Any]] = {k: [] for k in recall_k}
    for start, scores in compared(queries, results):
        own = of_query[start : start + len(scores), None]
        for k in recall_k:
            # Not the first k of a larger k: results at equal distance have another order there.
            hits = of_result[scores.topk(k, dim=1).indices] == own
            found[k].append(hits.any(dim=1))
    return {k: torch.cat(each).cpu().numpy() for k, each in found.items()}


def selection_metrics(image_features: Any, text_features: Any) -> Scores:
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
    parts = {"image_right": image_right, "text_right": text_right}
    parts["both_right"] = parts["score_part"] = image_right & text_right
    held = {name: part.cpu().numpy() for name, part in parts.items()}
    count = len(scores)
    metrics = {
        "image_acc": int(held["image_right"].sum()) / count,
        "text_acc": int(held["text_right"].sum()) / count,
        "acc": int(held["both_right"].sum()) / count,
    }
    return Scores(metrics, held)


MANY_CANDIDATES = 10
"""Fewest candidates of WinoGAViL's hard words, which have 10 or 12; others have 5 or 6."""


def association_metrics(
    image_features: Any, text_features: Any, associations: Sequence[Association]
) -> Scores:
    """Return the Jaccard index of the nearest images of each word with its own, averaged.

    As many images are taken as belong to the word. Definitions follow DataComp's
    ``wino_eval.py``.

    Args:
        image_features: of shape (images, dimensions).
        text_features: of shape (words, dimensions).
        associations: of each word.
    """
    import torch

    images, texts = unit(image_features), unit(text_features)
    found = np.zeros(len(associations))
    for number, (one, text) in enumerate(zip(associations, texts, strict=True)):
        own = np.flatnonzero(one.right)
        scores = images[torch.tensor(one.candidates, device=images.device)] @ text
        chosen = scores.topk(len(own)).indices.cpu().numpy()
        right = len(np.intersect1d(own, chosen))
        found[number] = right / (2 * len(own) - right)
    metrics = {"jaccard": float(found.mean())}
    parts = {"jaccard_part": found, "score_part": found}
    many = np.array([len(one.candidates) >= MANY_CANDIDATES for one in associations])
    if many.any():
        metrics["jaccard_10_12"] = float(found[many].mean())
        parts["jaccard_10_12_part"] = np.where(many, found / many.mean(), 0.0)
    return Scores(metrics, parts)


LOGIT_SCALE = 100.0
TOP = 5


@dataclass(frozen=True)
class ClassScore:
    """Precision and recall of one class."""

    precision: float
    recall: float
    f1: float
    support: int


def classifier_of(prompt_features: Any, counts: Sequence[int]) -> Any:
    """Return one unit vector per class: float32 of shape (classes, dimensions).

    Args:
        prompt_features: of all prompts, class by class.
        counts: number of prompts of each class.
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


def single_label_metrics(logits: Any, labels: Any) -> Scores:
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
    return Scores(metrics, _parts_of_classification(logits, labels, hits))


def _parts_of_classification(logits: Any, labels: Any, hits: Any) -> dict[str, Any]:
    predicted, own = logits.argmax(dim=1).cpu().numpy(), labels.cpu().numpy()
    correct = hits[:, 0].cpu().numpy()
    parts = {"predicted": predicted, "label": own, "correct": correct, "score_part": correct}
    if logits.shape[1] >= TOP:
        parts["correct_5"] = hits.any(dim=1).cpu().numpy()
    parts["class_recall_part"] = parts_of_class_recall(predicted == own, own)
    return parts


def own_figure(name: str, logits: Any, labels: Any, groups: Any) -> Scores:
    """Return a data set's own figure, and each image's part of it.

    Definitions follow WILDS (Koh et al. 2021) and DataComp (Gadre et al. 2023): F1 is averaged over
    the classes that occur, and the worst group is the worst of the groups that occur.

    Args:
        name: ``f1_macro``, ``worst_group_acc1`` or ``worst_group_acc5``.
        logits: of shape (images, classes).
        labels: int64 of shape (images,).
        groups: int64 of the same shape; empty for ``f1_macro``.
    """
    own = labels.cpu().numpy()
    if name == "f1_macro":
        predicted = logits.argmax(dim=1).cpu().numpy()
        value, parts = f1_macro(predicted, own, logits.shape[1])
    else:
        top = 1 if name == "worst_group_acc1" else min(TOP, logits.shape[1])
        ranked = logits.topk(top, dim=1).indices.cpu().numpy()
        value, parts = worst_group((ranked == own[:, None]).any(axis=1), groups)
    return Scores({name: value}, {f"{name}_part": parts, "score_part": parts})


def multilabel_metrics(logits: Any, labels: Any) -> tuple[Scores, Any]:
    """Return the mean average precision, and the average precision of each class.

    Args:
        logits: of shape (images, classes).
        labels: ones and zeros of the same shape.
    """
    precisions = average_precisions(logits, labels)
    parts = pseudo_values_of_precision(logits.cpu().numpy(), labels.cpu().numpy())
    metrics = {"mean_average_precision": float(precisions.mean())}
    return Scores(metrics, {"precision_part": parts, "score_part": parts}), precisions


def class_scores(predicted: Any, labels: Any, classes: int) -> list[ClassScore]:
    """Return precision, recall, F1 and number of images of each class; 0 if undefined."""
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
