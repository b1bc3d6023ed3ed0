"""Parts of figures by image: their mean is the figure."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.clip.tasks.outcomes import (
    parts_of_class_recall,
    parts_of_texts,
    pseudo_values_of_precision,
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
