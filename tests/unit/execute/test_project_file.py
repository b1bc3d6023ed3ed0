"""A project's own defaults: between the profile and the command line, and harmless."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import skymark
from skymark.cli.main import main
from skymark.execute.planner import words_of
from skymark.execute.project_file import FILES, KEYS, project_defaults, results_directory
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.requests import Work
from tests.unit.cli.test_options import parsed

OWN = """\
# of this project
scenarios = ["TAB-1:tiny"]
adapters = ["numpy", "grain"]
time = "5m"
output = "bench"

[settings]
workers = 1
prefetch = 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*words) -> Plan:
    return parsed(*words).plan()


def adapters_of(made: Plan) -> list[str]:
    return [one.cell.adapter for one in made.cells]


def test_a_project_s_values_are_taken_in_place_of_the_profile_s():
    assert plan().project is None
    Path("skymark.toml").write_text(OWN)
    made = plan()
    assert adapters_of(made) == ["numpy", "grain"]
    assert {one.cell.label for one in made.cells} == {"TAB-1:tiny"}
    assert made.settings == {"workers": 1, "prefetch": 3}
    assert set(made.settings_from.values()) == {"skymark.toml"}
    assert made.allotment.time_s == 300
    assert made.project.keys == (
        *("scenarios", "adapters", "time", "settings.workers", "settings.prefetch"),
    )


def test_the_command_line_s_values_are_taken_in_place_of_the_project_s():
    Path("skymark.toml").write_text(OWN)
    made = plan("--adapters", "numpy", "--workers", "0", "--rounds", "3")
    assert adapters_of(made) == ["numpy"]
    assert made.settings == {"workers": 0, "prefetch": 3}
    assert made.settings_from == {"workers": "command line", "prefetch": "skymark.toml"}
    assert made.allotment is None
    assert made.project.keys == ("scenarios", "settings.prefetch")


def test_a_table_in_pyproject_is_read_the_same_way_and_its_own_file_counts_first():
    text = OWN.replace("[settings]", "[tool.skymark.settings]")
    Path("pyproject.toml").write_text(f"[project]\nname = 'x'\n\n[tool.skymark]\n{text}")
    assert plan().settings == {"workers": 1, "prefetch": 3}
    assert plan().project.file == "pyproject.toml"
    Path("skymark.toml").write_text('adapters = ["numpy"]')
    assert adapters_of(plan("--scenarios", "TAB-1")) == ["numpy"]
    assert plan().project.file == "skymark.toml"


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "[tool.ruff]\nskymark = 1\n"])
def test_a_pyproject_without_the_table_changes_nothing(text):
    Path("pyproject.toml").write_text(text)
    assert project_defaults() is None
    assert results_directory() == Path("results")


def test_the_defaults_count_for_profiles_of_their_suite_only():
    Path("skymark.toml").write_text(OWN)
    assert plan("--profile", "clip").project is None
    Path("skymark.toml").write_text('suite = "clip"\n[settings]\nbatch_size = 8')
    assert plan("--profile", "clip").settings["batch_size"] == 8
    assert plan().project is None


def test_the_words_of_a_request_have_the_project_s_values():
    Path("skymark.toml").write_text(OWN)
    request = parsed("--prefetch", "2").work()
    words = words_of(request)
    Path("skymark.toml").unlink()
    assert [one.cell.hash for one in plan(*words).cells] == [
        one.cell.hash for one in skymark.plan(request).cells
    ]
    assert plan(*words).allotment == skymark.plan(request).allotment


def test_a_program_takes_them_by_one_argument():
    Path("skymark.toml").write_text(OWN)
    assert skymark.plan(Work()).project is None
    made = skymark.plan(Work(defaults=skymark.project_defaults()))
    assert adapters_of(made) == ["numpy", "grain"]


def test_a_plan_says_what_came_from_the_file(capsys):
    Path("skymark.toml").write_text(OWN)
    assert main(["plan", "--workers", "2"]) == 0
    assert (
        "scenarios, adapters, time, settings.prefetch: from skymark.toml" in capsys.readouterr().out
    )
    assert main(["plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["project"]["file"] == "skymark.toml"


def test_runs_go_into_the_project_s_directory(capsys):
    Path("skymark.toml").write_text(OWN)
    assert results_directory() == Path("bench")
    assert main(["report"]) == 2
    assert "run in bench;" in capsys.readouterr().err
    assert main(["run", "--resume"]) == 2
    said = capsys.readouterr().err
    assert "unfinished run" in said
    assert " in bench;" in said


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('x = 1\n\nadaptrs = ["numpy"]', 1, "no key 'x'; .*adapters"),
        ('\nstore = ["s3://b/p"]', 2, "command line .*'store'"),
        ('infra = "gcp"', 1, "command line .*'infra'"),
        ("max_cost = 900", 1, "command line .*'max_cost'"),
        ('deadline = "9h"', 1, "command line .*'deadline'"),
        ('profile = "gpu_h100"', 1, "command line .*'profile'"),
        ('[env]\nPATH = "."', 1, "command line .*'env'"),
        ('time = "5m"\nadapters = ["./e.py:E"]', 2, r"adapters: '\./e\.py:E'"),
        ('adapters = ["e.py:E"]', 1, r"adapters: 'e\.py:E'"),
        ('suite = "clip"\nadapters = ["ViT-B-32:w.pt"]', 2, r"adapters: 'ViT-B-32:w\.pt'"),
        ('adapters = ["grain@0.1"]', 1, r"adapters: 'grain@0\.1'"),
        ('scenarios = ["/etc"]', 1, "scenarios: '/etc'"),
        ('output = "../x"', 1, r"output: '\.\./x'"),
        ('output = "/tmp/x"', 1, "output: '/tmp/x'"),
        ('time = "20"', 1, "time: "),
        ("time = 20", 1, "time=20: give a text"),
        ("[settings]\nworkers = [1]", 2, r"settings\.workers"),
        ('[settings]\n\ndata = "/etc"', 3, "command line .*'data'"),
        ('settings = { "skip-damaged" = true }', 1, "command line .*'skip.damaged'"),
        ('suite = "loadin"', 1, "'loadin'.*'loading'"),
    ],
)
def test_a_wrong_or_forbidden_key_is_refused_with_its_line(text, line, words, capsys):
    Path("skymark.toml").write_text(text)
    assert main(["plan", "--scenarios", "TAB-1"]) == 2
    assert re.search(rf"skymark: skymark\.toml:{line}: .*{words}", capsys.readouterr().err)


def test_a_file_that_is_no_toml_is_refused_with_the_place_of_its_fault(capsys):
    Path("skymark.toml").write_text("time = \n")
    assert main(["plan"]) == 2
    assert re.search(r"skymark\.toml: .*\b1\D+8\b", capsys.readouterr().err)


def test_the_line_in_pyproject_counts_from_the_file_s_beginning(capsys):
    own = "[tool.skymark]\ntime = '5m'\n\n[tool.skymark.settings]\ndata = 'x'"
    text = f"[project]\nname = 'x'\n\n{own}"
    Path("pyproject.toml").write_text(text)
    assert main(["plan"]) == 2
    assert re.search(r"pyproject\.toml:8: .*'data'", capsys.readouterr().err)


def test_an_unknown_setting_is_refused_as_on_the_command_line():
    Path("skymark.toml").write_text("[settings]\nworkrs = 1")
    with pytest.raises(UsageError, match="unknown setting 'workrs'"):
        plan("--scenarios", "TAB-1", "--adapters", "numpy")


def test_a_link_out_of_the_project_is_no_directory_of_runs(tmp_path_factory):
    Path("bench").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    Path("skymark.toml").write_text('output = "bench"')
    with pytest.raises(UsageError, match=r"skymark\.toml:1: output: 'bench'"):
        results_directory()


def test_the_keys_are_few():
    """A new key needs a thought: the folder is not trusted."""
    assert KEYS == ["adapters", "effort", "output", "scenarios", "settings", "suite", "time"]
    assert list(FILES) == ["skymark.toml", "pyproject.toml"]
