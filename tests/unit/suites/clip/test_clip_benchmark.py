"""CLIP_benchmark's files: written from records, valid JSON, and read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from skymark.model.errors import DataError, UsageError
from skymark.model.metric import Figure
from skymark.model.record import Record, Status
from skymark.suites.clip.clip_benchmark import ClipBenchmarkFormat

FORMAT = ClipBenchmarkFormat()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(planned, status=Status.OK, **metrics):
    return Record(
        cell=planned.cell,
        cell_hash=planned.cell.hash,
        status=status,
        metrics={name: Figure(value=value) for name, value in metrics.items()},
        started_at=NOW,
        ended_at=NOW,
    )


def strict(path):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_pair_is_a_file_with_what_the_peer_writes(planned, tmp_path):
    (one,) = planned()
    found = record(
        one, acc1=0.5, acc5=0.75, mean_per_class_recall=0.5, encoded_images_per_s=9.0, score=0.5
    )
    (path,) = FORMAT.write([found], tmp_path / "out")
    assert path.name == "vtab_cifar10_laion2b_s34b_b79k_ViT-B-32_en_zeroshot_classification.json"
    assert strict(path) == {
        "dataset": "wds/vtab/cifar10",
        "model": "ViT-B-32",
        "pretrained": "laion2b_s34b_b79k",
        "task": "zeroshot_classification",
        "metrics": {"acc1": 0.5, "acc5": 0.75, "mean_per_class_recall": 0.5},
        "language": "en",
    }


def test_what_does_not_exist_is_null_and_never_nan(planned, tmp_path):
    (one,) = planned("wds/vtab/pcam")
    (path,) = FORMAT.write([record(one, acc1=0.5, mean_per_class_recall=0.5)], tmp_path)
    assert strict(path)["metrics"]["acc5"] is None
    assert "acc5" not in FORMAT.read(path).metrics


def test_a_probe_says_how_it_was_trained(planned, tmp_path):
    (one,) = planned(tasks=("linear_probe",), settings={"epochs": 4})
    (path,) = FORMAT.write([record(one, lp_acc1=0.5, weight_decay=0.01)], tmp_path)
    metrics = strict(path)["metrics"]
    assert (metrics["epochs"], metrics["fewshot_k"], metrics["weight_decay"]) == (4, -1, 0.01)
    assert metrics["normalized"] is True


def test_only_good_records_are_written_and_nothing_is_replaced(planned, tmp_path):
    cells = planned("retrieval")
    good = record(cells[0], **{"image_retrieval_recall@5": 0.5, "text_retrieval_recall@5": 0.7})
    bad = record(cells[1], Status.FAILED)
    written = FORMAT.write([good, bad], tmp_path)
    assert len(written) == len(list(tmp_path.iterdir())) == 1
    assert FORMAT.write([good], tmp_path) == written
    other = record(cells[0], **{"image_retrieval_recall@5": 0.6, "text_retrieval_recall@5": 0.7})
    with pytest.raises(UsageError, match=f"{written[0].name} .*other figures"):
        FORMAT.write([other], tmp_path)


def test_pairs_with_one_name_have_two_files(planned, tmp_path):
    models = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "last.pt").write_text(folder)
        models.append(f"RN50:{tmp_path}/{folder}/last.pt")
    found = [record(one, acc1=0.5) for one in planned(models=tuple(models))]
    assert len(FORMAT.write(found, tmp_path / "out")) == 2


def test_a_file_of_the_peer_s_is_read_back(tmp_path):
    path = tmp_path / "any name.json"
    path.write_text(
        '{"dataset": "wds/imagenet1k", "model": "ViT-B-32", "pretrained": "openai", "task": '
        '"zeroshot_classification", "metrics": {"acc1": 0.63, "acc5": NaN, '
        '"mean_per_class_recall": 0.6, "normalized": true}, "language": "cn", "classnames": []}'
    )
    found = FORMAT.read(path)
    assert (found.scenario, found.variant) == ("wds/imagenet1k", "zeroshot_classification")
    assert (found.adapter, found.axes) == ("ViT-B-32:openai", {"language": "cn"})
    assert found.metrics == {"score": 0.63, "acc1": 0.63, "mean_per_class_recall": 0.6}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"metrics": 1}', "[" * 100_000, "\0\xff"])
def test_a_file_of_anything_else_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json .*CLIP_benchmark"):
        FORMAT.read(path)
