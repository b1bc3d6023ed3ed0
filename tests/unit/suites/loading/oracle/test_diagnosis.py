"""The oracle names what a cheating image loader did wrong. Batches are fed to it directly."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
from skymark.suites.loading.oracle import Content, Declared, HostBatch, Oracle
from skymark.suites.loading.scenarios.cv_images import ImageClassification
from skymark.suites.loading.work import Parameters, Size, Stage

INDICES = np.array([5, 0, 11, 7, 2, 9, 4, 3])
EPOCH = 2


@pytest.fixture(scope="module")
def scenario() -> ImageClassification:
    values = {"height": 72, "width": 88, "side": 32, "classes": 10}
    return ImageClassification(size=Size(elements=13, batch_size=8, values=values), seed=5)


@pytest.fixture(scope="module")
def dataset(scenario: ImageClassification, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return scenario.generate(tmp_path_factory.mktemp("data") / "set")


def cause_of(
    scenario: ImageClassification, dataset: Dataset, batch: HostBatch, *, native: bool = False
) -> Cause | None:
    oracle = Oracle(scenario, dataset, Declared(native=native))
    oracle.check(Content(EPOCH, batch))
    return oracle.verdict().cause


def batch_with(
    scenario: ImageClassification,
    dataset: Dataset,
    name: str = "",
    apply: Callable[[Element, Parameters], Element] | None = None,
) -> HostBatch:
    """Return the reference batch, but with the work of one stage replaced."""
    stages = [
        Stage(stage.name, apply) if stage.name == name and apply else stage
        for stage in scenario.stages()
    ]
    return Oracle(scenario, dataset).reference.batch(EPOCH, INDICES, stages=stages)


def test_the_right_batch_passes(scenario: ImageClassification, dataset: Dataset) -> None:
    assert cause_of(scenario, dataset, batch_with(scenario, dataset)) is None


def test_a_skipped_normalise_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    def only_float(element: Element, parameters: Parameters) -> Element:
        del parameters
        return {**element, "image": np.asarray(element["image"], np.float32)}

    for native in (False, True):
        cause = cause_of(
            scenario,
            dataset,
            batch_with(scenario, dataset, "normalise", only_float),
            native=native,
        )

        assert cause is not None
        assert cause.kind == "skipped-stage"
        assert "'normalise'" in cause.message


def test_a_skipped_flip_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    batch = batch_with(scenario, dataset, "flip", lambda element, parameters: element)

    for native in (False, True):
        cause = cause_of(scenario, dataset, batch, native=native)

        assert cause is not None
        assert cause.kind == "skipped-stage"
        assert "'flip'" in cause.message


@pytest.mark.parametrize("stage_name", ["decode", "crop", "flip", "normalise"])
def test_every_known_mistake_is_recognised_as_itself(
    scenario: ImageClassification, dataset: Dataset, stage_name: str
) -> None:
    stage = next(stage for stage in scenario.stages() if stage.name == stage_name)
    assert stage.mistakes

    for description, mistake in stage.mistakes.items():
        cause = cause_of(scenario, dataset, batch_with(scenario, dataset, stage_name, mistake))

        assert cause is not None
        assert cause.kind == "wrong-stage"
        assert description in cause.message


def test_mistakes_are_named_where_stages_write_into_what_they_are_given(
    dataset: Dataset, scenario: ImageClassification
) -> None:
    def in_place(change: Callable[..., Array], by: float) -> Callable[..., Element]:
        def apply(element: Element, parameters: Parameters) -> Element:
            del parameters
            change(element["image"], by, out=element["image"])
            return element

        return apply

    class Writing(ImageClassification):
        def stages(self) -> tuple[Stage, ...]:
            scale = Stage("scale", in_place(np.multiply, 3), {"halved": in_place(np.multiply, 0.5)})
            shift = Stage("shift", in_place(np.add, 2), {"lowered": in_place(np.add, -2)})
            return (*super().stages(), scale, shift)

    writing = Writing(size=scenario.size, seed=scenario.seed)
    stages = writing.stages()
    for place in (-2, -1):
        for description, mistake in stages[place].mistakes.items():
            wrong = list(stages)
            wrong[place] = Stage(stages[place].name, mistake)
            batch = Oracle(writing, dataset).reference.batch(EPOCH, INDICES, stages=wrong)
            cause = cause_of(writing, dataset, batch)
            assert cause is not None
            assert f"the stage {stages[place].name!r} is wrong: {description}" in cause.message
        fewer = [stage for stage in stages if stage is not stages[place]]
        batch = Oracle(writing, dataset).reference.batch(EPOCH, INDICES, stages=fewer)
        cause = cause_of(writing, dataset, batch)
        assert cause is not None
        assert f"the stage {stages[place].name!r} was skipped" in cause.message


def test_decoding_at_part_of_the_size_is_named_under_native_tolerance(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    decode = next(stage for stage in scenario.stages() if stage.name == "decode")
    (description,) = decode.mistakes
    batch = batch_with(scenario, dataset, "decode", decode.mistakes[description])

    cause = cause_of(scenario, dataset, batch, native=True)

    assert cause is not None
    assert description in cause.message


def test_a_wrong_crop_is_named_under_native_tolerance_with_another_resizer(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    crop = next(stage for stage in scenario.stages() if stage.name == "crop")
    batch = batch_with(scenario, dataset, "crop", crop.mistakes["the box is two pixels off"])
    noise = np.random.default_rng(0).normal(0, 0.02, batch["image"].shape)

    cause = cause_of(
        scenario,
        dataset,
        {**batch, "image": (batch["image"] + noise).astype(np.float32)},
        native=True,
    )

    assert cause is not None
    assert "two pixels off" in cause.message


def test_an_ignored_seed_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    other = dataclasses.replace(scenario, seed=0)

    cause = cause_of(scenario, dataset, Oracle(other, dataset).reference.batch(EPOCH, INDICES))

    assert cause is not None
    assert cause.kind == "ignored-seed"
    assert "seed 0" in cause.message


def test_an_ignored_epoch_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    cause = cause_of(scenario, dataset, Oracle(scenario, dataset).reference.batch(0, INDICES))

    assert cause is not None
    assert cause.kind == "ignored-epoch"


def test_a_shuffled_label_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    batch = batch_with(scenario, dataset)
    moved = np.roll(batch["label"], 1)
    assert not np.array_equal(moved, batch["label"])

    cause = cause_of(scenario, dataset, {**batch, "label": moved})

    assert cause is not None
    assert cause.kind == "misplaced"
    assert "'label'" in cause.message


def test_images_of_other_elements_are_named(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    batch = batch_with(scenario, dataset)

    cause = cause_of(scenario, dataset, {**batch, "image": np.roll(batch["image"], 1, axis=0)})

    assert cause is not None
    assert cause.kind == "misplaced"


@pytest.mark.parametrize(
    "owners",
    [np.roll(INDICES, 1), np.array([1, 6, 8, 10, 12, 1, 6, 8])],
    ids=["same batch", "other batches"],
)
def test_images_of_other_elements_are_named_though_native_operators_differ(
    scenario: ImageClassification, dataset: Dataset, owners: Array
) -> None:
    image = Oracle(scenario, dataset).reference.batch(EPOCH, owners)["image"]
    noise = np.random.default_rng(0).normal(0, 0.02, image.shape)
    image = (image + noise).astype(np.float32)
    batch = {**batch_with(scenario, dataset), "image": image}

    native = cause_of(scenario, dataset, batch, native=True)
    exact = cause_of(scenario, dataset, batch)

    assert native is not None
    assert native.kind == "misplaced"
    assert exact is not None
    assert exact.kind == "content"


def test_images_that_are_wrong_in_their_own_place_are_not_called_misplaced(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    batch = batch_with(scenario, dataset)
    darker = (batch["image"] - 0.1).astype(np.float32)

    cause = cause_of(scenario, dataset, {**batch, "image": darker}, native=True)

    assert cause is not None
    assert cause.kind == "content"


@pytest.mark.parametrize("native", [False, True])
def test_a_cast_to_float16_is_named(
    scenario: ImageClassification, dataset: Dataset, native: bool
) -> None:
    batch = batch_with(scenario, dataset)
    half = batch["image"].astype(np.float16)

    for image in (half, half.astype(np.float32)):
        cause = cause_of(scenario, dataset, {**batch, "image": image}, native=native)

        assert cause is not None
        assert cause.kind == "precision"
        assert "float16" in cause.message


def test_unexplained_content_says_what_was_drawn(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    batch = batch_with(scenario, dataset)

    cause = cause_of(scenario, dataset, {**batch, "image": np.ones_like(batch["image"])})

    assert cause is not None
    assert cause.kind == "content"
    assert "flip=" in cause.message


def test_nan_that_no_stage_explains_is_told(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    batch = batch_with(scenario, dataset)
    batch["image"][3, 5, 5, 0] = np.nan

    for native in (False, True):
        cause = cause_of(scenario, dataset, batch, native=native)

        assert cause is not None
        assert cause.kind == "content"
        assert re.search(r" NaN\D+1\D+8 ", cause.message)


def test_a_stage_whose_absence_shows_in_the_dtype_is_named(
    scenario: ImageClassification, dataset: Dataset
) -> None:
    batch = batch_with(scenario, dataset, "normalise", lambda element, parameters: element)
    assert batch["image"].dtype == np.uint8

    cause = cause_of(scenario, dataset, batch)

    assert cause is not None
    assert cause.kind == "skipped-stage"
    assert "'normalise'" in cause.message
    assert re.search("uint8, .* float32", cause.message)


def test_a_missing_image_field_is_named(scenario: ImageClassification, dataset: Dataset) -> None:
    batch = batch_with(scenario, dataset)
    del batch["image"]

    cause = cause_of(scenario, dataset, batch)

    assert cause is not None
    assert cause.kind == "missing-field"
