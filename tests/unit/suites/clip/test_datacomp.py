"""DataComp's table: each data set by its own metric, and the mean of all."""

from __future__ import annotations

import pytest

from skymark.model.metric import Figure
from skymark.report.sheet import Reading
from skymark.suites.clip.commands import DATACOMP, _grid
from skymark.suites.clip.datacomp import datacomp_readings, datacomp_sets
from skymark.suites.clip.datasets.choosing import public_sets
from skymark.suites.clip.suite import ClipSuite


def readings(names, value=0.5, axes=""):
    """Return a reading of each data set, whose other metrics are 0."""
    found = []
    for name in names:
        public = public_sets()[name]
        metrics = dict.fromkeys(("acc1", "mean_per_class_recall", "score"), Figure(value=0.0))
        if public.datacomp == "recall@1":
            metrics["image_retrieval_recall@1"] = Figure(value=value - 0.1)
            metrics["text_retrieval_recall@1"] = Figure(value=value + 0.1)
        else:
            metrics[public.datacomp] = Figure(value=value)
        found.append(Reading("run", "model", f"{name}{axes}", public.task, metrics))
    return found


def grid(found, *, is_chosen=True):
    return _grid(DATACOMP, found, ClipSuite(), (), is_chosen=is_chosen)


def test_the_mean_is_over_all_sets_each_by_its_own_metric():
    assert len(datacomp_sets()) == 38
    whole = grid(readings(datacomp_sets()), is_chosen=False)
    assert whole.headings == (*datacomp_sets(), "mean")
    assert [one.value for one in whole.values[0]] == pytest.approx([0.5] * (len(whole.headings)))


def test_without_one_set_there_is_no_mean(capsys):
    names = [one for one in datacomp_sets() if one != "wds/wilds/fmow"]
    assert grid(readings(names), is_chosen=False).values == ()
    part = grid(readings(names))
    assert part.values[0][-1] is None
    assert part.values[0][part.headings.index("wds/wilds/fmow")] is None
    assert "not scored: wds/wilds/fmow" in capsys.readouterr().err


def test_parts_of_sets_other_tasks_and_other_sets_are_left_out():
    cifar = readings(["wds/vtab/cifar10"])
    probe = [Reading("run", "model", "wds/mnist", "linear_probe", {"acc1": Figure(value=1.0)})]
    other = [Reading("run", "model", "mine", "zeroshot_classification", {"acc1": Figure(value=1)})]
    limited = readings(["wds/mnist"], axes=" limit=20")
    assert [one.scenario for one in datacomp_readings([*cifar, *probe, *other, *limited])] == [
        "wds/vtab/cifar10"
    ]
