"""What every image, volume, video and chain scenario must hold to, at a size made for tests."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from skymark.suites.loading.dataset.canonical import Dataset
from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.scenarios.cv_images import (
    BatchMixing,
    ImageClassification,
    MultiResolution,
)
from skymark.suites.loading.scenarios.cv_volumes_and_clips import VideoClips, Volumes
from skymark.suites.loading.scenarios.pc_pipelines import TransformChain, TwoViews
from skymark.suites.loading.transforms.crops import pixel_box
from skymark.suites.loading.work import Size

PICTURES = {"height": 60, "width": 75, "side": 32, "classes": 10}
CLIPS = {"seconds": 1.2, "height": 40, "width": 72, "side": 16, "frames": 3, "stride": 3}
CASES: Mapping[type[Scenario], Mapping[str, float]] = {
    ImageClassification: PICTURES,
    Volumes: {"depth": 12, "height": 13, "width": 14, "edge": 8, "classes": 2},
    BatchMixing: PICTURES,
    MultiResolution: {**PICTURES, "smallest": 32, "side": 96},
    TwoViews: PICTURES,
    VideoClips: {**CLIPS, "classes": 10},
    TransformChain: {"width": 64},
}
INDICES = np.array([5, 0, 11, 7, 2, 9])


def scenario_of(cls: type[Scenario], seed: int = 5, **axes: Any) -> Scenario:
    size = Size(elements=13, batch_size=6, values=dict(CASES[cls]))
    if cls is TransformChain and not axes:
        axes = {"depth": 5}
    return cls(size=size, seed=seed, axes=axes)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[type[Scenario], Dataset]:
    root = tmp_path_factory.mktemp("data")
    return {cls: scenario_of(cls).generate(root / cls.id) for cls in CASES}


@pytest.mark.parametrize("cls", CASES)
def test_batches_have_the_fields_that_the_scenario_states(
    cls: type[Scenario], datasets: dict[type[Scenario], Dataset]
) -> None:
    batch = Oracle(scenario_of(cls), datasets[cls]).reference.batch(1, INDICES)

    fields = {name: (value.dtype.name, value.shape[1:]) for name, value in batch.items()}
    image = ("float32", (32, 32, 3))
    label = ("int64", ())
    expected = {
        ImageClassification: {"image": image, "label": label},
        Volumes: {"volume": ("float32", (8, 8, 8)), "label": label},
        BatchMixing: {"image": image, "label": ("float32", (10,))},
        MultiResolution: {"image": fields.get("image"), "label": label},
        TwoViews: {"view_1": image, "view_2": image, "label": label},
        VideoClips: {"clip": ("float32", (3, 16, 16, 3)), "label": label},
        TransformChain: {"values": ("float32", (64,))},
    }[cls]
    assert fields == {"index": label, **expected}
    assert batch["index"].tolist() == INDICES.tolist()


@pytest.mark.parametrize("cls", [cls for cls in CASES if cls.columns])
def test_synthetic_data_has_the_columns_that_real_data_must_have(
    cls: type[Scenario], datasets: dict[type[Scenario], Dataset]
) -> None:
    assert {column.name for column in datasets[cls].columns} == set(scenario_of(cls).columns or ())


@pytest.mark.parametrize("cls", CASES)
def test_variants_end_in_a_short_batch_so_that_a_dropped_tail_shows(cls: type[Scenario]) -> None:
    for size in cls.variants.values():
        assert size.elements % size.batch_size
    assert list(cls.variants) == ["small", "medium", "large"]


@pytest.mark.parametrize("cls", CASES)
def test_a_scenario_sent_to_another_process_does_the_same_work(
    cls: type[Scenario], datasets: dict[type[Scenario], Dataset]
) -> None:
    scenario = scenario_of(cls)
    sent = pickle.loads(pickle.dumps(scenario))

    here = Oracle(scenario, datasets[cls]).reference.batch(1, INDICES)
    there = Oracle(sent, datasets[cls]).reference.batch(1, INDICES)

    assert all(np.array_equal(here[name], there[name]) for name in here)


@pytest.mark.parametrize("cls", [cls for cls in CASES if cls is not TransformChain])
def test_seed_and_epoch_decide_the_work_and_the_other_elements_do_not(
    cls: type[Scenario], datasets: dict[type[Scenario], Dataset]
) -> None:
    scenario = scenario_of(cls)
    drawn = scenario.draw(1, INDICES)

    for name, column in drawn.items():
        assert np.array_equal(column, scenario.draw(1, INDICES[::-1])[name][::-1])
    assert any(not np.array_equal(v, scenario.draw(2, INDICES)[n]) for n, v in drawn.items())
    other = scenario_of(cls, seed=6)
    assert any(not np.array_equal(v, other.draw(1, INDICES)[n]) for n, v in drawn.items())


@pytest.mark.parametrize("cls", CASES)
def test_every_known_mistake_is_recognised_as_itself(
    cls: type[Scenario], datasets: dict[type[Scenario], Dataset]
) -> None:
    scenario, dataset = scenario_of(cls), datasets[cls]
    stages = scenario.stages()

    for place, stage in enumerate(stages):
        for description, mistake in stage.mistakes.items():
            wrong = [*stages[:place], stage._replace(apply=mistake), *stages[place + 1 :]]
            oracle = Oracle(scenario, dataset)
            oracle.check(Content(1, oracle.reference.batch(1, INDICES, stages=wrong)))

            cause = oracle.verdict().cause
            assert cause is not None
            assert description in cause.message


@pytest.mark.parametrize("depth", [1, 5, 10, 50])
def test_leaving_out_any_link_of_a_chain_is_named(
    depth: int, datasets: dict[type[Scenario], Dataset]
) -> None:
    scenario = scenario_of(TransformChain, depth=depth)
    stages = scenario.stages()
    assert len(stages) == depth

    for place in {0, depth // 2, depth - 1}:
        oracle = Oracle(scenario, datasets[TransformChain])
        without = [*stages[:place], *stages[place + 1 :]]
        oracle.check(Content(1, oracle.reference.batch(1, INDICES, stages=without)))

        cause = oracle.verdict().cause
        assert cause is not None
        assert cause.kind == "skipped-stage"


def test_a_chain_shows_the_absence_of_each_of_its_links_in_every_element(
    datasets: dict[type[Scenario], Dataset],
) -> None:
    scenario, dataset = scenario_of(TransformChain, depth=50), datasets[TransformChain]
    oracle, everything = Oracle(scenario, dataset), np.arange(len(dataset))
    right = oracle.reference.batch(0, everything)["values"]
    stages = scenario.stages()

    for place in range(len(stages)):
        without = [*stages[:place], *stages[place + 1 :]]
        wrong = oracle.reference.batch(0, everything, stages=without)["values"]
        assert np.abs(wrong - right).max(axis=1).min() > 10 * scenario.native_tolerance


def test_a_long_chain_stays_bounded_and_in_float32(
    datasets: dict[type[Scenario], Dataset],
) -> None:
    dataset = datasets[TransformChain]
    scenario = scenario_of(TransformChain, depth=50)

    values = Oracle(scenario, dataset).reference.batch(0, np.arange(len(dataset)))["values"]

    assert np.abs(values).max() < 20
    assert values.std() > 0.5


@pytest.mark.parametrize("cls", [ImageClassification, TwoViews])
def test_the_table_of_boxes_is_what_the_reference_cuts_out(
    cls: type[ImageClassification | TwoViews], datasets: dict[type[Scenario], Dataset]
) -> None:
    scenario, dataset = scenario_of(cls), datasets[cls]
    boxes = scenario.boxes(2, dataset)
    tables = {"": boxes} if cls is ImageClassification else {"_1": boxes[0], "_2": boxes[1]}

    for element in dataset:
        drawn = scenario.parameters(2, element["index"])
        for suffix, table in tables.items():
            crop = {name: drawn[f"{name}{suffix}"] for name in ("area", "aspect", "corner")}
            box = pixel_box(crop, int(element["height"]), int(element["width"]))
            assert tuple(table[element["index"]].tolist()) == box


def test_the_two_views_of_an_element_differ(datasets: dict[type[Scenario], Dataset]) -> None:
    batch = Oracle(scenario_of(TwoViews), datasets[TwoViews]).reference.batch(0, INDICES)

    assert all(
        not np.array_equal(first, second)
        for first, second in zip(batch["view_1"], batch["view_2"], strict=True)
    )


def test_a_batch_has_the_side_drawn_for_its_first_element(
    datasets: dict[type[Scenario], Dataset],
) -> None:
    scenario = scenario_of(MultiResolution)
    oracle, seen = Oracle(scenario, datasets[MultiResolution]), set()

    for first in range(13):
        batch = oracle.reference.batch(3, np.array([first, 1, 2]))
        side = batch["image"].shape[1]
        assert batch["image"].shape == (3, side, side, 3)
        assert side == scenario.draw(3, np.array([first]))["side"][0]
        seen.add(side)

    assert seen == {32, 64, 96}


def test_a_batch_of_another_resolution_is_refused(
    datasets: dict[type[Scenario], Dataset],
) -> None:
    scenario, dataset = scenario_of(MultiResolution), datasets[MultiResolution]
    oracle = Oracle(scenario, dataset)
    sides = scenario.table(0)["side"]
    other = int(np.flatnonzero(sides != sides[0])[0])
    batch = oracle.reference.batch(0, np.array([other, 0, 1]))

    oracle.check(Content(0, {name: value[[1, 0, 2]] for name, value in batch.items()}))

    cause = oracle.verdict().cause
    assert cause is not None
    assert cause.kind == "shape"


def test_labels_that_were_not_mixed_are_refused(datasets: dict[type[Scenario], Dataset]) -> None:
    scenario, dataset = scenario_of(BatchMixing), datasets[BatchMixing]
    oracle = Oracle(scenario, dataset)
    elements = [scenario.transform(dataset[index], 0) for index in INDICES.tolist()]
    collated = scenario.collate(elements)
    hard = np.eye(10, dtype=np.float32)[collated["label"]]

    oracle.check(Content(0, {**collated, "label": hard}))

    cause = oracle.verdict().cause
    assert cause is not None
    assert "'label'" in cause.message
