"""What SPDL, DALI and Ray are fed with and give back, as far as that needs no library."""

from __future__ import annotations

import dataclasses
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.dali import BatchSource, CropSource, ElementSource
from skymark.suites.loading.adapters.deeplake import DeepLake
from skymark.suites.loading.adapters.ray import columns_of, raw_elements
from skymark.suites.loading.adapters.spdl import EpochSource
from skymark.suites.loading.dataset.canonical import Dataset
from skymark.suites.loading.dataset.formats import FORMATS
from skymark.suites.loading.dataset.parquet import arrow_table
from skymark.suites.loading.dataset.tar import Members
from skymark.suites.loading.registry import scenario_class
from skymark.suites.loading.work import Size

IMAGE_SIZE = {"height": 24, "width": 32, "side": 16, "classes": 3}


def make_job(directory, name="NLP-2", values=None, **fields) -> LoadingJob:
    """Return a job of 50 elements in batches of 8."""
    cls = scenario_class(name)
    values = values or cls.variants["small"].values
    scenario = cls(size=Size(elements=50, batch_size=8, values=values), seed=3)
    scenario.generate(directory)
    job = LoadingJob(scenario, Dataset(directory), directory, "canonical", batch_size=8, seed=3)
    return dataclasses.replace(job, **fields)


def spdl_indices(job: LoadingJob, epoch: int) -> list[list[int]]:
    """Return the batches of indices that SPDL's source yields for an epoch."""
    source = EpochSource(job)
    source.asked.put(epoch)
    return [indices for _, indices in source]


def dali_batches(source: BatchSource, epoch_idx: int) -> list[tuple]:
    """Call a DALI source as DALI does, until it ends the epoch."""
    batches = []
    while True:
        try:
            batches.append(source(SimpleNamespace(epoch_idx=epoch_idx, iteration=len(batches))))
        except StopIteration:
            return batches


def dali_indices(job: LoadingJob, epoch: int) -> list[list[int]]:
    """Return the indices of the batches that DALI's source gives for an epoch."""
    source = ElementSource(job, first_epoch=epoch)
    position = list(source.fields([0], epoch)).index("index")
    return [np.asarray(batch[position]).tolist() for batch in dali_batches(source, 0)]


@pytest.mark.parametrize("indices", [spdl_indices, dali_indices])
@pytest.mark.parametrize("world", [1, 3])
def test_the_ranks_of_a_source_share_every_element_once(tmp_path, indices, world):
    job = make_job(tmp_path, world=world)
    ranks = [indices(dataclasses.replace(job, rank=rank), epoch=2) for rank in range(world)]
    batches = chain.from_iterable(ranks)
    assert sorted(chain.from_iterable(batches)) == list(range(50))


@pytest.mark.parametrize("indices", [spdl_indices, dali_indices])
def test_the_order_of_a_source_depends_on_seed_and_epoch_alone(tmp_path, indices):
    job = make_job(tmp_path)
    assert indices(job, 1) == indices(dataclasses.replace(job, workers=7), 1)
    assert indices(job, 1) != indices(job, 2)
    assert indices(job, 1) != indices(dataclasses.replace(job, seed=4), 1)


@pytest.mark.parametrize("indices", [spdl_indices, dali_indices])
def test_a_source_drops_the_last_short_batch_only_if_asked(tmp_path, indices):
    job = make_job(tmp_path)
    assert [len(batch) for batch in indices(job, 0)] == [8] * 6 + [2]
    dropping = indices(dataclasses.replace(job, drop_last=True), 0)
    assert [len(batch) for batch in dropping] == [8] * 6


def test_a_closed_spdl_source_ends_without_an_element(tmp_path):
    source = EpochSource(make_job(tmp_path))
    source.asked.put(None)
    assert list(source) == []


def test_dali_counts_epochs_from_the_first_of_the_pipeline(tmp_path):
    source = BatchSource(make_job(tmp_path, "TAB-1", {"features": 4}), first_epoch=5)
    again = BatchSource(source.job, first_epoch=7)
    for batch, other in zip(dali_batches(source, 2), dali_batches(again, 0), strict=True):
        assert all(np.array_equal(one, two) for one, two in zip(batch, other, strict=True))


def test_dali_gets_the_boxes_and_flips_that_the_reference_draws(tmp_path):
    job = make_job(tmp_path, "CV-1", IMAGE_SIZE)
    inputs = CropSource(job, first_epoch=0).fields([7, 3], epoch=4)
    boxes = job.scenario.boxes(4, job.dataset)
    assert inputs["corner"].tolist() == boxes[[7, 3], :2].tolist()
    assert inputs["shape"].tolist() == boxes[[7, 3], 2:].tolist()
    assert all(inputs[name].flags.c_contiguous for name in ("corner", "shape"))
    assert inputs["flip"].tolist() == job.scenario.table(4)["flip"][[7, 3]].tolist()
    assert [bytes(jpeg) for jpeg in inputs["jpeg"]] == [
        bytes(job.dataset[index]["jpeg"]) for index in (7, 3)
    ]


def same(elements, dataset: Dataset) -> bool:
    """Whether elements are those of a dataset, in its order."""
    return all(
        np.array_equal(element[name], value) and np.asarray(element[name]).dtype == value.dtype
        for element, expected in zip(elements, dataset, strict=True)
        for name, value in expected.items()
        if name != "index"
    )


def test_ray_rows_of_parquet_and_of_tar_are_the_dataset_again(tmp_path):
    pa = pytest.importorskip("pyarrow")
    job = make_job(tmp_path, "CV-1", IMAGE_SIZE)
    parquet = dataclasses.replace(job, format="parquet")
    assert same(raw_elements(parquet, arrow_table(job.dataset)), job.dataset)
    layout = Members(job.dataset.columns)
    members = [layout.write(element) for element in job.dataset]
    rows = {name: pa.array([m[name] for m in members], pa.binary()) for name in layout.suffixes}
    rows["__key__"] = pa.array([f"{index:08d}" for index in range(len(job.dataset))])
    tar = dataclasses.replace(job, format="tar")
    elements = raw_elements(tar, pa.table(rows))
    assert [element["index"] for element in elements] == list(range(len(job.dataset)))
    assert same(elements, job.dataset)


def test_ray_columns_hold_arrays_of_varying_length_one_by_one(tmp_path):
    job = make_job(tmp_path)
    elements = [job.transform(job.dataset[index], 0) for index in range(5)]
    columns = columns_of(elements, job)
    assert columns["tokens"].dtype == object
    assert [len(row) for row in columns["tokens"]] == [len(e["tokens"]) for e in elements]
    assert columns["index"].tolist() == list(range(5))
    equal = columns_of([elements[0]] * 3, job)["tokens"]
    assert equal.dtype == object, "equal lengths must not be stacked: other blocks differ"


def test_deep_lake_takes_its_own_format_for_columnar_files_and_none_for_memory():
    source = scenario_class("IO-1")
    assert DeepLake.format_for(source, {"source": "columnar"}) == "deeplake"
    assert DeepLake.format_for(source, {"source": "memory"}) == "memory"
    assert DeepLake.format_for(source, {"source": "http"}) == "http-deeplake"
    assert "deeplake" not in FORMATS


def test_an_option_with_an_unknown_value_is_refused_with_the_known_ones(tmp_path):
    job = make_job(tmp_path, options={"ray_shuffle": "globally"})
    with pytest.raises(UsageError, match=r"'globally' .*\bbuffer, global\b"):
        job.choice("ray_shuffle", "buffer", "global")
    assert job.choice("dali_device", "cpu", "gpu") == "cpu"
