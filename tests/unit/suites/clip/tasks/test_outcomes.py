"""Parts of figures by image: their mean is the figure."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.metric import Metric
from skymark.statistics.difference import Verdict, corrected
from skymark.statistics.outcomes import difference_in_outcomes
from skymark.suites.clip.tasks.outcomes import (
    f1_macro,
    parts_of_class_recall,
    parts_of_texts,
    pseudo_values_of_precision,
    worst_group,
)


def mean_average_precision(scores, relevant):
    """Return the metric by its definition; a class without a relevant image counts as 0."""
    found = []
    for own, truth in zip(scores.T, relevant.T, strict=True):
        hits = truth[np.argsort(-own, kind="stable")]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        found.append(precision[hits == 1].sum() / max(hits.sum(), 1))
    return float(np.mean(found))


@pytest.fixture
def scored():
    random = np.random.default_rng(3)
    relevant = (random.random((40, 6)) < 0.3).astype(int)
    relevant[:, 5] = 0
    relevant[:, 4] = 0
    relevant[7, 4] = 1
    return random.normal(size=(40, 6)) + relevant, relevant


def test_parts_of_mean_average_precision_are_what_the_figure_loses_without_an_image(scored):
    scores, relevant = scored
    whole = mean_average_precision(scores, relevant)
    kept = [np.arange(40) != image for image in range(40)]
    without = np.array([mean_average_precision(scores[one], relevant[one]) for one in kept])
    pseudo = 40 * whole - 39 * without
    found = pseudo_values_of_precision(scores, relevant)
    assert found == pytest.approx(pseudo - pseudo.mean() + whole, abs=1e-9)
    assert found.mean() == pytest.approx(whole)


def test_parts_of_class_recall_average_to_it():
    labels = np.array([0, 0, 0, 1, 3, 3])
    correct = np.array([1, 0, 1, 1, 0, 1])
    expected = np.mean([2 / 3, 1, 1 / 2])
    assert parts_of_class_recall(correct, labels).mean() == pytest.approx(expected)


def test_parts_of_texts_average_to_the_share_of_texts():
    hits = np.array([True, False, True, True, False])
    found = parts_of_texts(hits, np.array([0, 0, 1, 2, 2]), 4)
    assert found.mean() == pytest.approx(hits.mean())
    assert found[3] == 0


def mean_precision_sides(random):
    """Return the parts of the mean average precision of two equal models on the same images."""
    relevant = (random.random((300, 5)) < 0.2).astype(int)
    one, other = (random.normal(size=(300, 5)) + relevant for _ in range(2))

    def drawn():
        swapped = random.random(300)[:, None] < 0.5
        sides = np.where(swapped, one, other), np.where(swapped, other, one)
        return [pseudo_values_of_precision(side, relevant) for side in sides]

    return drawn


def recall_sides(random):
    """Return the parts of a recall of texts, five of each image."""
    image_of_text = np.repeat(np.arange(300), 5)
    easy = random.random(300)
    one, other = (random.random((300, 5)) < easy[:, None] for _ in range(2))

    def drawn():
        swapped = random.random(300)[:, None] < 0.5
        sides = np.where(swapped, one, other), np.where(swapped, other, one)
        return [parts_of_texts(side.ravel(), image_of_text, 300) for side in sides]

    return drawn


@pytest.mark.parametrize("sides", [mean_precision_sides, recall_sides])
def test_of_equal_models_swapped_by_image_few_are_better_after_correction(sides):
    random = np.random.default_rng(11)
    cells = [sides(random) for _ in range(5)]
    metric = Metric(name="m", heading="m", better="higher", scale="exact", outcome="part")
    better = total = 0
    for _ in range(200):
        found = corrected(
            [difference_in_outcomes(*drawn(), metric, practical=0.0) for drawn in cells]
        )
        better += sum(one.verdict is Verdict.BETTER for one in found)
        total += len(found)
    assert better / total <= 0.01


def f1_by_definition(predicted, labels):
    """Return F1 over the classes that occur, as scikit-learn has it for these labels."""
    found = []
    for one in np.unique(labels):
        right = np.sum((predicted == one) & (labels == one))
        found.append(2 * right / (np.sum(predicted == one) + np.sum(labels == one)))
    return float(np.mean(found))


def test_parts_of_f1_are_what_the_figure_loses_without_an_image():
    random = np.random.default_rng(5)
    labels = random.integers(0, 4, 40)  # classes 4 and 5 are predicted, and never right
    labels[7] = 5
    predicted = np.where(random.random(40) < 0.6, labels, random.integers(0, 6, 40))
    value, parts = f1_macro(predicted, labels, 6)
    assert value == pytest.approx(f1_by_definition(predicted, labels))
    kept = [np.arange(40) != image for image in range(40)]
    without = np.array([f1_by_definition(predicted[one], labels[one]) for one in kept])
    pseudo = 40 * value - 39 * without
    assert parts == pytest.approx(pseudo - pseudo.mean() + value)


def test_the_worst_group_is_the_worst_that_occurs():
    groups = np.array([0, 0, 3, 3, 3, 5])
    correct = np.array([True, True, True, False, False, True])
    value, parts = worst_group(correct, groups)
    assert value == pytest.approx(1 / 3)
    assert parts.mean() == pytest.approx(value)
    assert set(parts[groups != 3]) == {0}
