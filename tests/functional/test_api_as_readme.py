"""What README does on the command line, by the public functions alone, as strict mypy reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import skymark

MINE = """\
import numpy as np

from skymark.suites.loading.adapter import Adapter, Loader


class MyLoader(Adapter):
    slug = name = "mine"
    distribution = imports = "numpy"
    requirements = ()
    abilities = frozenset({"map", "shuffle", "seeded"})

    def open(self, job):
        return Pass(job)


class Pass(Loader):
    def __init__(self, job):
        self.job, self.reader = job, job.reader()

    def epoch(self, epoch):
        job = self.job
        order = np.random.default_rng(job.shuffle_seed(epoch)).permutation(len(job.dataset))
        for start in range(0, len(order), job.batch_size):
            chosen = order[start : start + job.batch_size].tolist()
            yield job.collate([job.transform(self.reader[index], epoch) for index in chosen])
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty directory, with a folder of photographs."""
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    for number in range(24):
        path = Path(f"photos/class-{number % 2}/{number}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 255, (20, 24, 3), np.uint8)).save(path)


def measured(output: str, work: skymark.Work) -> skymark.Run:
    """Measure in the running interpreter, and see to it that all is well."""
    run = skymark.run(work, skymark.Results(output=output), own_venvs=False)
    assert run.all_well, run.table()
    return run


def test_what_one_needs_and_nothing_else() -> None:
    work = skymark.Work(scenarios=["CV-1:tiny", "TAB-1:small"], adapters=["numpy"], rounds=1)
    run = measured("results/a", work)
    assert {one.cell.scenario for one in run.records} == {"CV-1", "TAB-1"}
    assert "numpy" in run.table()
    assert run.write_page() == Path("results/a/report.html")
    assert {path.suffix for path in run.write_figures("plots")} == {".svg", ".png"}


def test_more_rounds_or_a_time_that_is_spent_where_ranks_are_undecided() -> None:
    work = skymark.Work(scenarios=["CV-1:medium"], adapters=["numpy"], effort="standard")
    assert skymark.plan(work).effort.name == "standard"
    timed = skymark.plan(skymark.Work(time="20m"))
    assert timed.allotment is not None
    assert timed.allotment.time_s == 1200


def test_two_versions_of_a_library_and_a_step_of_training() -> None:
    versions = ["grain@0.2.17", "grain@0.2.18"]
    cells = skymark.plan(skymark.Work(scenarios=["TAB-1"], adapters=versions)).cells
    assert [one.cell.adapter for one in cells] == versions
    step = skymark.Work(scenarios=["CV-1"], adapters=["pytorch"], settings={"step": "resnet50"})
    assert skymark.plan(step).settings["step"] == "resnet50"


def test_images_of_one_s_own_and_an_accelerator_that_computes() -> None:
    work = skymark.Work(
        scenarios=["CV-1:tiny"],
        adapters=["numpy"],
        rounds=1,
        settings={"data": "./photos", "think_time_ms": 1.0},
    )
    (record,) = measured("results/own", work).records
    assert "utilisation" in record.metrics


def test_a_store_and_back() -> None:
    work = skymark.Work(scenarios=["TAB-1:tiny"], adapters=["numpy"], rounds=1)
    Path("store").mkdir()
    store = f"file://{Path('store').absolute()}"
    results = skymark.Results(output="results/stored", stores=[store])
    run = skymark.run(work, results, own_venvs=False)
    assert run.all_well
    again = skymark.open(f"{store}/stored", into="results/fetched")
    assert again.records == run.records
    assert Path("results/fetched/manifest.json").exists()


def test_a_plan_s_file_and_the_parts_of_four_workers() -> None:
    from skymark.execute.partition.shard import Shard
    from skymark.execute.planner import write_plan

    work = skymark.Work(scenarios=["CV-1:tiny", "TAB-1:tiny"], adapters=["numpy"], rounds=1)
    plan = skymark.plan(work)
    write_plan(plan, Path("plan.json"))
    assert skymark.plan(Path("plan.json")) == plan
    part = skymark.run(
        plan, skymark.Results(output="results/part"), part=Shard.of(0, 2), own_venvs=False
    )
    assert 0 < len(part.records) < len(plan.cells)


def test_runs_are_compared_gated_and_told() -> None:
    work = skymark.Work(scenarios=["TAB-1:tiny"], adapters=["numpy"], rounds=2)
    measured("results/A", work)
    measured("results/B", work)
    comparison = skymark.compare("results/A", "results/B")
    comparison.gate()
    assert "numpy" in comparison.table()
    assert "numpy" in comparison.to_markdown()
    assert '"cells"' in comparison.to_json()


def test_what_keeps_the_accelerator_fed() -> None:
    work = skymark.Work(
        scenarios=["CV-1:small"],
        adapters=["numpy"],
        effort="check",
        settings={"data": "./photos"},
    )
    choice = skymark.tune(
        work,
        step_ms=2,
        batch=8,
        target=0.01,
        grid={"workers": [0, 1]},
        results=skymark.Results(output="tuned"),
        own_venvs=False,
    )
    assert choice.reaches
    assert choice.again is not None
    assert measured("results/again", choice.again).records[0].cell.settings == choice.settings


def test_a_loader_of_one_s_own_is_verified_like_any_other() -> None:
    Path("my_loader.py").write_text(MINE)
    work = skymark.Work(
        scenarios=["CV-1:tiny"], adapters=["numpy", "./my_loader.py:MyLoader"], rounds=1
    )
    run = measured("results/mine", work)
    assert all(one.verification and one.verification.passed for one in run.records)
