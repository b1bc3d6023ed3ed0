"""Each cell that a shipped profile can plan has epochs with a steady stream."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.execute.planner import load_profile, make_plan, profile_paths
from skymark.model.requests import Work
from skymark.suites.loading.drives.stream import FEWEST_FILLINGS, lead_of
from skymark.suites.loading.registry import scenario_class
from skymark.suites.loading.scenario import STEP_BATCH
from skymark.suites.loading.specification import LoadingSpecification

LOADING = sorted(name for name in profile_paths() if load_profile(name).suite == "loading")
ACCELERATED = [name for name in LOADING if load_profile(name).platform != "cpu"]


def job_of(cell, batch_size=None):
    """The parts of a cell's job that decide whether it has a stream."""
    size = LoadingSpecification.of(cell).size
    return SimpleNamespace(
        workers=cell.settings["workers"],
        prefetch=cell.settings["prefetch"],
        dataset=range(size.elements),
        batch_size=batch_size or size.batch_size,
        world=int(cell.axes.get("ranks", 1)),
    )


def cells_of(profile):
    work = Work(scenarios=("all",), adapters=("numpy",))
    return [planned.cell for planned in make_plan(load_profile(profile), work).cells]


@pytest.mark.parametrize("profile", LOADING)
def test_each_scenario_has_a_steady_stream_at_its_own_batch_size(profile):
    without = [one.id for one in cells_of(profile) if not lead_of(job_of(one))]
    assert without == []


@pytest.mark.parametrize("profile", ACCELERATED)
def test_images_have_one_at_the_batch_size_of_a_training_step_too(profile):
    images = [one for one in cells_of(profile) if scenario_class(one.scenario).images]
    assert images
    assert [one.id for one in images if not lead_of(job_of(one, STEP_BATCH))] == []


def test_the_scenarios_of_one_h100_fill_the_queues_of_eight_workers_four_times():
    for cell in cells_of("gpu_h100"):
        job = job_of(cell)
        assert (job.workers, job.prefetch, lead_of(job)) == (8, 4, 32)
        batches = len(job.dataset) / job.batch_size / job.world
        assert batches >= FEWEST_FILLINGS * 32 == 128
