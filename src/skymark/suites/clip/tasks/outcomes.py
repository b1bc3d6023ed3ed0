"""Each image's part of a figure: the mean over images is the figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]


def parts_of_class_recall(correct: Floats, labels: Floats) -> Floats:
    """Return each image's part of the mean class recall: float64 of shape (images,).

    Args:
        correct: whether each image's class scores highest.
        labels: class of each image.
    """
    counts = np.bincount(labels)
    there = np.count_nonzero(counts)
    found: Floats = correct * len(labels) / (there * counts[labels])
    return found


def worst_group(correct: Floats, groups: Floats) -> tuple[float, Floats]:
    """Return the accuracy of the worst group, and each image's part: float64 of shape (images,).

    Args:
        correct: whether each image is right.
        groups: number of each image's group.
    """
    counts = np.bincount(groups)
    there = np.flatnonzero(counts)
    accuracies = np.bincount(groups, correct)[there] / counts[there]
    worst = there[accuracies.argmin()]
    parts: Floats = np.where(groups == worst, correct * len(groups) / counts[worst], 0.0)
    return float(accuracies.min()), parts


def f1_macro(predicted: Floats, labels: Floats, classes: int) -> tuple[float, Floats]:
    """Return the mean F1 of the classes that occur, and each image's part of it.

    An image's part is a pseudo-value of the jackknife, as in `pseudo_values_of_precision`.

    Args:
        predicted: class of each image that scores highest.
        labels: class of each image.
        classes: number of classes.

    Returns:
        The figure, and float64 of shape (images,), whose mean is the figure.
    """
    right = np.bincount(labels[predicted == labels], minlength=classes)
    named = np.bincount(predicted, minlength=classes)
    there = np.bincount(labels, minlength=classes)
    f1 = _f1(right, named, there)
    occurring = np.count_nonzero(there)
    value = f1.sum() / occurring
    hits = predicted == labels
    # Without an image, its own class has one image less, and the predicted class one less, too.
    own = _f1(right[labels] - hits, named[labels] - hits, there[labels] - 1)
    other = _f1(right[predicted], named[predicted] - 1, there[predicted])
    change = own - f1[labels] + np.where(hits, 0.0, other - f1[predicted])
    without = (f1.sum() + change) / np.maximum(occurring - (there[labels] == 1), 1)
    count = len(labels)
    return float(value), _centred(count * value - (count - 1) * without, float(value))


def _f1(right: Floats, named: Floats, there: Floats) -> Floats:
    """Return F1 of classes: 0 for a class without images, which does not count."""
    found: Floats = np.where(there > 0, 2 * right / np.maximum(named + there, 1), 0.0)
    return found


def _centred(pseudo: Floats, value: float) -> Floats:
    """Return pseudo-values without the jackknife's own bias: their mean is the figure."""
    found: Floats = pseudo - pseudo.mean() + value
    return found


def parts_of_texts(hits: Floats, image_of_text: Floats, images: int) -> Floats:
    """Return each image's part of a share of texts: float64 of shape (images,).

    An image's captions are no independent samples, so the image is the unit.

    Args:
        hits: whether each text has its image among the first results.
        image_of_text: the image of each text.
        images: number of images.
    """
    found: Floats = np.bincount(image_of_text, hits, images) * images / len(hits)
    return found


def pseudo_values_of_precision(scores: Floats, relevant: Floats) -> Floats:
    """Return each element's part of the mean average precision: jackknife pseudo-values.

    An element's part is what the figure would lose without it, in every class. Source: Efron,
    Stein, "The jackknife estimate of variance", Annals of Statistics 9, 1981.

    Args:
        scores: of shape (elements, classes).
        relevant: ones and zeros of the same shape.

    Returns:
        Float64 of shape (elements,), whose mean is the mean average precision.
    """
    parts = [_of_class(*one) for one in zip(scores.T, relevant.T.astype(bool), strict=True)]
    found: Floats = np.mean(parts, axis=0)
    return found


def _of_class(scores: Floats, relevant: Floats) -> Floats:
    """Return the pseudo-values of one class: float64 of shape (elements,).

    Without the element at rank r, each later element moves up by one rank; without a relevant one,
    it also has one relevant element less before it.
    """
    count = len(scores)
    order = np.argsort(-scores, kind="stable")
    hits = relevant[order]
    total = int(hits.sum())
    if total == 0:
        return np.zeros(count)
    ranks = np.arange(1, count + 1, dtype=np.float64)
    before = np.cumsum(hits)
    precision = np.where(hits, before / ranks, 0.0)
    moved = np.maximum(ranks - 1, 1)
    gained = np.where(hits, before / moved - before / ranks, 0.0)
    lost = np.where(hits, (before - 1) / moved - before / ranks, 0.0)
    whole = precision.sum()
    without = np.where(
        hits,
        (whole - precision + _after(lost)) / max(total - 1, 1),
        (whole + _after(gained)) / total,
    )
    value = whole / total
    pseudo = count * value - (count - 1) * without
    found = np.empty(count)
    found[order] = _centred(pseudo, float(value))
    return found


def _after(values: Floats) -> Floats:
    """Return, for each place, the sum of the values after it."""
    found: Floats = values[::-1].cumsum()[::-1] - values
    return found
