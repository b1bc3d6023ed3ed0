"""The runner of one group: its options, and what is handed on."""

from __future__ import annotations

import pytest

from benchmarks.runners import full_runner, group_runner
from skymark.model.errors import UnknownNameError

MODEL = ("--model", "ViT-B-32", "--pretrained", "laion2b_s34b_b79k", "--output", "out")


def test_a_group_is_one_model_with_all_its_data_sets():
    request = group_runner.read([*MODEL, "--datasets", "wds/mnist", "retrieval"])
    assert request.command == ("clip", "run")
    plan = full_runner.parsed(request.passed_on, request.command)[0]
    assert {one.group for one in plan.cells} == {"ViT-B-32:laion2b_s34b_b79k"}
    assert len(plan.cells) == 4


def test_a_model_that_would_give_wrong_figures_starts_nothing(capsys, tmp_path):
    wrong = ("--model", "ViT-B-32", "--pretrained", "openai", "--output", str(tmp_path / "out"))
    assert group_runner.entry_point(wrong) == 2
    assert "ViT-B-32-quickgelu:openai" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_command_without_a_model_ends_with_status_2():
    with pytest.raises(SystemExit) as ended:
        group_runner.read(["--output", "out"])
    assert ended.value.code == 2


def test_a_suite_without_words_of_its_own_is_refused():
    with pytest.raises(UnknownNameError, match=r"suite .*'loading'"):
        group_runner.read([*MODEL, "--suite", "loading"])
