"""Is a model better: comparisons of runs image by image, their gate, orders, tables and flips."""

from __future__ import annotations

import importlib.util
import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from skymark.model.errors import GateError, UsageError
from skymark.model.record import Cell, Resources, RoundResult, Verification
from skymark.report.compare import compare_runs, gate
from skymark.report.ranking_table import ranked
from skymark.report.sheet import as_text, grid_of, of_run
from skymark.report.terminal import print_report
from skymark.rundir.reader import open_run
from skymark.statistics.difference import Verdict
from skymark.suites.clip.flips import flips_at, page_of
from skymark.suites.clip.metrics import SAMPLE_COLUMNS
from skymark.suites.clip.suite import ClipSuite
from tests.clip.drawing import CLASSES, pictures
from tests.clip.shards import write_shards

IMAGES = 1200
RIGHT = np.arange(IMAGES) < 516
MAKE_RUN = Path(__file__).parents[3] / "data" / "make_run.py"


@pytest.fixture(scope="module")
def make():
    """The module that makes runs without measuring, for this suite."""
    spec = importlib.util.spec_from_file_location("make_clip_run", MAKE_RUN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SUITE = ClipSuite()
    return module


def outcome(right, elements="same", label=None):
    """The round of a model with these images right."""
    right = np.asarray(right)
    labels = np.zeros(len(right), int) if label is None else label
    parts = tuple(float(one) for one in right)
    return RoundResult(
        round=0,
        started_at=datetime(2026, 1, 15, tzinfo=UTC),
        setup_s=1.0,
        timed_ns=10**9,
        metrics={"acc1": float(right.mean()), "score": float(right.mean()), "images": len(right)},
        resources=Resources(),
        samples=dict.fromkeys(SAMPLE_COLUMNS, ())
        | {
            "batch": (0,),
            "encoder_ns": (10**9,),
            "images": (len(right),),
            "label": tuple(labels.tolist()),
            "predicted": tuple(((labels + 1 - right) % len(CLASSES)).tolist()),
            "correct": tuple(right.tolist()),
            "score_part": parts,
        },
        verification=Verification(
            passed=True, verified_elements=len(right), compared_elements=1, fields=("image",)
        ),
        conditions={"elements_digest": elements, "labels_digest": "same"},
    )


@pytest.fixture
def run_of(make, tmp_path):
    """A function that makes a run of models by name, each with the images that it has right."""

    def build(name, specification=None, settings=None, **models):
        directory = tmp_path / name
        records = [
            make.with_samples(
                directory,
                Cell(
                    suite="clip",
                    scenario="shapes",
                    variant="zeroshot_classification",
                    adapter=model,
                    settings=settings or {},
                    specification=specification or {},
                ),
                [right if isinstance(right, RoundResult) else outcome(right)],
            )
            for model, right in models.items()
        ]
        return open_run(make.write_run(directory, records))

    return build


def changed(more=0, fewer=0):
    """The images that are right, and some more and fewer."""
    right = RIGHT.copy()
    right[516 : 516 + more] = True
    right[:fewer] = False
    return right


def verdicts(comparison):
    return {
        one.metric: one.difference.verdict
        for cell in comparison.cells
        for one in cell.metrics
        if one.difference is not None
    }


@pytest.mark.parametrize(("more", "fewer"), [(1, 0), (3, 0), (40, 38)])
def test_a_few_images_are_neither_better_nor_a_reason_for_the_gate(run_of, more, fewer):
    before, after = run_of("a", model=RIGHT), run_of("b", model=changed(more, fewer))
    for one, other in ((before, after), (after, before)):
        found = compare_runs(one, other)
        assert not {Verdict.BETTER, Verdict.WORSE} & set(verdicts(found).values())
        gate(found)


def test_many_images_are_better_and_a_loss_of_them_fails_the_gate(run_of):
    before, after = run_of("a", model=RIGHT), run_of("b", model=changed(60, 10))
    assert verdicts(compare_runs(before, after))["acc1"] is Verdict.BETTER
    with pytest.raises(GateError):
        gate(compare_runs(after, before))
    gate(compare_runs(after, before, practical=0.2))


def test_other_images_are_compared_by_their_intervals_alone(run_of):
    before = run_of("a", model=RIGHT)
    after = run_of("b", model=outcome(changed(60, 10), elements="others"))
    assert verdicts(compare_runs(before, after))["acc1"] is Verdict.INCONCLUSIVE


def test_two_checkpoints_or_settings_are_compared_across_cells(run_of):
    before, after = run_of("a", one=RIGHT), run_of("b", two=changed(60, 10))
    with pytest.raises(UsageError, match="--across cells"):
        compare_runs(before, after)
    found = compare_runs(before, after, across=["cells", "versions"])
    assert verdicts(found)["acc1"] is Verdict.BETTER
    assert (found.only_before, found.only_after, found.unjudged) == ((), (), {})


def test_orders_are_ranges_where_no_difference_is_shown(run_of):
    run = run_of("a", best=changed(100), second=changed(2), third=RIGHT, last=changed(0, 120))
    (records,) = run.by_label().values()
    rows = ranked(records, run.declaration, run.directory)
    orders = {row.record.cell.adapter: (row.place.first, row.place.last) for row in rows}
    assert orders == {"best": (1, 1), "second": (2, 3), "third": (2, 3), "last": (4, 4)}
    print_report(run, Console(file=io.StringIO(), width=100))


def test_tables_have_the_interval_of_each_figure(run_of):
    run = run_of("a", one=RIGHT, two=changed(60))
    readings = of_run(run)
    grid = grid_of(readings, run.declaration, ("zeroshot_classification",), ("score",), "model")
    assert grid.head == ["model", "shapes", "shapes low", "shapes high"]
    for name, value, low, high in grid.rows():
        assert low < value < high, name
    assert "0.4300 (0.4023–0.4582)" in as_text(grid, "md")
    assert len(as_text(grid, "csv").splitlines()[1].split(",")) == 4


@pytest.fixture
def shapes(tmp_path):
    """A set of pictures, and the specification that scores it."""
    drawn = pictures(30, seed=1)
    place = tmp_path / "shapes"
    write_shards(place / "test", [{"jpg": one.file, "cls": one.label_text} for one in drawn])
    (place / "classnames.txt").write_text("\n".join(CLASSES))
    (place / "zeroshot_classification_templates.txt").write_text("{c}\n")
    content = {
        "model": {"architecture": "ViT-B-32", "weights": {"tag": "openai"}},
        "source": {
            "name": "shapes",
            "kind": "directory",
            "address": str(place),
            "layout": "webdataset",
        },
        "task": "zeroshot_classification",
    }
    return content, np.array([one.label for one in drawn])


def test_flips_are_counted_and_shown_as_thumbnails(run_of, shapes, tmp_path, monkeypatch):
    from skymark.model.base import digest_of
    from skymark.suites.clip.reading.opening import open_split
    from skymark.suites.clip.specification import Source

    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))
    content, labels = shapes
    source = Source.model_validate(content["source"])
    samples = open_split(source, "test", content["task"], tmp_path / "cache").samples
    digest = digest_of([samples.content_digest])[:16]
    one, other = np.arange(30) < 20, (np.arange(30) > 2) & (np.arange(30) < 21)
    run = run_of(
        "a",
        specification=content,
        one=outcome(one, digest, labels),
        other=outcome(other, digest, labels),
    )
    (found,) = flips_at([str(run.directory)], "one", "other")
    assert (found.images, found.lost, found.won) == (30, 3, 1)
    assert [flip.image for flip in found.flips] == [0, 1, 2, 20]
    page = page_of([found], "one", "other")
    assert page.count("<figure>") == 4
    assert page.count("data:image/jpeg;base64,") == 4
    with pytest.raises(UsageError, match=r"third\b.* one, other"):
        flips_at([str(run.directory)], "one", "third")
