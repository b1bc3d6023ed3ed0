"""MixUp and CutMix against their definitions, on images where each pixel says whose it is."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.random import uniforms
from skymark.suites.loading.transforms.images import DRAWS, mixed_images, mixed_labels, mixing_from

SIDE = 20


def mixing_of(count: int) -> dict[str, np.ndarray]:
    return mixing_from(uniforms(1, 0, np.arange(count), DRAWS), SIDE)


def owned_images(count: int) -> np.ndarray:
    """Return images of one value each: the element's own number."""
    numbers = np.arange(count, dtype=np.float32).reshape(-1, 1, 1, 1)
    return np.broadcast_to(numbers, (count, SIDE, SIDE, 3)).copy()


def test_half_of_the_elements_are_cut_and_the_others_blended() -> None:
    cut = mixing_of(10_000)["cut"]

    assert abs(cut.mean() - 0.5) < 5 * np.sqrt(0.25 / 10_000)


def test_mixup_blends_with_the_next_and_the_last_with_the_first() -> None:
    share = np.array([0.25, 1.0, 0.5], np.float32)
    mixing = {"cut": np.zeros(3, bool), "share": share, "box": np.zeros((3, 4), np.int32)}

    mixed = mixed_images(owned_images(3), mixing)[:, 0, 0, 0]

    assert mixed.tolist() == [0.25 * 0 + 0.75 * 1, 1.0, 0.5 * 2 + 0.5 * 0]


def test_cutmix_pastes_the_box_and_nothing_else() -> None:
    box = np.array([[2, 3, 5, 7], [0, 0, 0, 0]], np.int32)
    mixing = {"cut": np.ones(2, bool), "share": np.ones(2, np.float32), "box": box}

    mixed = mixed_images(owned_images(2), mixing)

    assert (mixed[0, 2:7, 3:10] == 1).all()
    assert mixed[0].sum() == 5 * 7 * 3
    assert (mixed[1] == 1).all()


def test_the_share_of_a_cut_is_the_part_of_the_image_that_is_left() -> None:
    mixing = mixing_of(400)
    mixed = mixed_images(owned_images(400), mixing)

    own = (mixed == owned_images(400)).mean(axis=(1, 2, 3))

    assert mixing["cut"].sum() > 100
    assert np.abs(own - mixing["share"])[mixing["cut"]].max() < 1e-6
    assert mixing["box"][~mixing["cut"]].sum() == 0


def test_boxes_lie_inside_the_image() -> None:
    box = mixing_of(5000)["box"]

    assert box.min() >= 0
    assert (box[:, :2] + box[:, 2:]).max() <= SIDE


def test_labels_are_mixed_in_the_same_shares() -> None:
    mixed = mixed_labels(np.array([2, 0, 2]), np.array([0.25, 0.5, 0.75], np.float32), 3)

    assert mixed.dtype == np.float32
    assert mixed.tolist() == [[0.75, 0, 0.25], [0.5, 0, 0.5], [0, 0, 1]]


def test_a_batch_of_one_is_mixed_with_itself() -> None:
    mixing = {name: column[:1] for name, column in mixing_of(1).items()}
    image = owned_images(5)[4:]

    assert np.allclose(mixed_images(image, mixing), image)


def test_a_label_beyond_the_classes_is_an_error_that_says_so() -> None:
    with pytest.raises(DataError, match=r" 0\D+12\b.* 10 class"):
        mixed_labels(np.array([0, 12]), np.ones(2, np.float32), 10)
