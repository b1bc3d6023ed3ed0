"""Exit statuses, and what goes to standard output and to standard error."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skymark import __version__
from skymark.cli import main as module
from skymark.cli.caller import without_loudness
from skymark.cli.main import add_suites, app, main
from skymark.model.errors import GateError, UsageError
from skymark.model.plan import Plan


class Raising:
    """An app whose every command raises an error."""

    def __init__(self, error):
        self.error = error

    def __contains__(self, name):
        return True

    def __call__(self, *arguments, **options):
        raise self.error


def test_help_and_version_are_results(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__
    assert main(["--help"]) == 0
    assert "skymark" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--bogus"], ["bogus"], ["run", "--rounds", "many"], ["list", "cells"]],
)
def test_what_cannot_be_parsed_is_bad_usage_told_on_standard_error(capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("no; do this"), 2),
        (GateError("slower"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_end_has_its_exit_status(monkeypatch, capsys, error, status):
    monkeypatch.setattr(module, "app", Raising(error))
    assert main(["run"]) == status
    assert capsys.readouterr().err == (f"skymark: {error}\n" if status < 100 else "")


def test_an_unexpected_error_is_shown_whole(monkeypatch):
    monkeypatch.setattr(module, "app", Raising(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        main(["run"])


def test_the_program_exits_with_the_status(monkeypatch):
    monkeypatch.setattr(module, "main", lambda: 3)
    with pytest.raises(SystemExit) as caught:
        module.entry_point()
    assert caught.value.code == 3


SHOWING = (
    ["plan", "--json"],
    ["plan"],
    ["list", "adapters"],
    ["report", "RUN"],
    ["compare", "RUN", "RUN"],
    ["history", "RUN"],
    ["run", "--help"],
)


@pytest.mark.parametrize("arguments", SHOWING, ids=" ".join)
@pytest.mark.parametrize("both", [False, True], ids=["output", "output and errors"])
def test_output_that_nobody_reads_ends_quietly(arguments, both, tmp_path):
    shutil.copytree("tests/data/run", tmp_path / "run")
    words = [str(tmp_path / "run") if word == "RUN" else word for word in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "skymark", *words],
        stdout=writer,
        stderr=writer if both else subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr or b"") == (141, b"")


def test_messages_that_nobody_reads_end_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    words = ["plan", "--scenarios", "TAB-1", "--output", os.devnull]
    command = [sys.executable, "-m", "skymark", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 141


OUTPUTS = (["list", "adapters"], ["plan", "--json"], ["--help"], ["--version"])


@pytest.mark.parametrize("arguments", OUTPUTS, ids=" ".join)
def test_an_output_that_is_full_or_closed_or_of_an_old_encoding_is_no_traceback(arguments):
    command = [sys.executable, "-m", "skymark", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == 1
    assert re.match(f"skymark: .*: {os.strerror(errno.ENOSPC)}", done.stderr)
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], check=False)
    assert closed.returncode == 0
    for encoding in ("latin-1", "ascii"):
        shown = subprocess.run(
            command,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert shown.stdout.decode(encoding)
        assert b"Traceback" not in shown.stderr


def test_a_plan_as_json_reads_back_as_the_plan(capsys):
    assert main(["plan", "--scenarios", "TAB-1", "--adapters", "numpy", "grain", "--json"]) == 0
    plan = Plan.model_validate_json(capsys.readouterr().out)
    assert [planned.cell.id for planned in plan.cells] == [
        "loading.TAB-1.small.numpy",
        "loading.TAB-1.small.grain",
    ]


def test_a_plan_as_a_table_says_what_runs_what_does_not_and_how_long(capsys):
    assert main(["plan", "--scenarios", "TAB-1", "DIST-1", "--adapters", "spdl", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tab = next(line for line in lines if line.startswith("TAB-1:small"))
    assert "spdl numpy" in tab
    assert re.match(r"\d+ cells\D+2\D+3 rounds\D+quick", lines[-1])
    assert re.search(r" \d+ (s|min), ", lines[-1])


def test_a_plan_says_one_thing_and_several_as_they_are(capsys):
    words = ["plan", "--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check"]
    assert main(words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.findall(r"\b1 \w+", last)[:3] == ["1 cell", "1 adapter", "1 round"]
    assert "check" in last


def test_a_plan_with_open_rounds_says_from_how_many_to_how_many(capsys):
    assert main(["plan", "--adapters", "numpy", "--effort", "standard"]) == 0
    assert re.search(r"\b5\D+15 rounds\D+standard", capsys.readouterr().out)


@pytest.mark.parametrize("what", ["scenarios", "adapters", "profiles", "suites"])
def test_lists_as_json_have_a_row_for_each_that_the_table_names(capsys, what):
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert main(["list", what]) == 0
    table = capsys.readouterr().out
    first = next(iter(rows[0]))
    assert all(str(row[first]) in table for row in rows)


def test_list_alone_names_the_kinds_of_things(capsys):
    assert main(["list", "--json"]) == 0
    kinds = [row["kind"] for row in json.loads(capsys.readouterr().out)]
    assert kinds == ["scenarios", "adapters", "profiles", "suites", "causes"]
    assert main(["list"]) == 0
    out, err = capsys.readouterr()
    assert all(kind in out for kind in kinds)
    assert "skymark list KIND" in err
    assert all(main(["list", kind]) == 0 for kind in kinds)


NOT_JSON = {
    "logs": "its output is the job's",
    "ssh": "its output is the command's",
    "rsync": "its output is rsync's",
    "cache use": "its output is the job's",
    "schema": "its output is JSON anyway",
    "render slurm": "its output is a job file",
    "render jobset": "its output is a job file",
    "render aichor": "its output is a job file",
    "render sky": "its output is a job file",
}


def commands(found, words=()):
    """Every command below an app, with its words."""
    if found.default_command is not None:
        yield " ".join(words), found
    for name in found:
        if not name.startswith("-"):
            yield from commands(found[name], (*words, name))


def test_every_command_whose_output_is_its_own_has_it_as_json():
    add_suites([])
    without = {
        words
        for words, command in commands(app)
        if not any("--json" in one.names for one in command.assemble_argument_collection())
    }
    assert without == NOT_JSON.keys()


def test_a_quiet_command_prints_its_result_alone(capsys):
    words = ["plan", "--scenarios", "TAB-1", "--adapters", "numpy"]
    assert main([*words, "--output", os.devnull, "-q"]) == 0
    out, err = capsys.readouterr()
    assert "TAB-1:small" in out
    assert err == ""
    assert main(["plan", "--quiet", "--scenarios", "XX-9"]) == 2
    assert "unknown scenario 'XX-9'" in capsys.readouterr().err


def test_a_verbose_command_shows_where_an_error_came_from(capsys):
    assert main(["plan", "--scenarios", "XX-9"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert main(["plan", "--scenarios", "XX-9", "-v"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("skymark: unknown scenario")
    assert main(["plan", "-v", "-q"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_words_behind_two_dashes_are_a_command_s_own():
    words = ["ssh", "NAME", "-q", "--", "rsync", "-v", "-q"]
    assert without_loudness(words) == ["ssh", "NAME", "--", "rsync", "-v", "-q"]


def test_the_version_has_a_short_name(capsys):
    assert main(["-V"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(capsys, tmp_path, shell):
    script = tmp_path / "skymark"
    assert main(["--install-completion", "--shell", shell, "--output", str(script)]) == 0
    assert str(script) in capsys.readouterr().out
    text = script.read_text()
    assert all(word in text for word in ("launch", "clip", "--max-cost", "--scenarios"))


def test_retrying_without_resuming_is_refused(capsys):
    assert main(["run", "--retry", "failed"]) == 2
    assert "--retry needs --resume" in capsys.readouterr().err
    assert main(["run", "--retry", "flaky", "--resume"]) == 2
    assert "unknown status 'flaky'" in capsys.readouterr().err


CHOSEN = ("--scenarios", "TAB-1", "--adapters", "numpy", "--rounds", "1")


def test_a_plan_is_written_as_it_is_printed(capsys, tmp_path):
    path = tmp_path / "plan.json"
    assert main(["plan", *CHOSEN, "--output", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert out == path.read_text()
    assert err.endswith(f"skymark run --plan {path}\n")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (CHOSEN, "--scenarios and --adapters and --rounds"),
        (("--workers", "2"), "--workers"),
        (("--profile", "ci_cpu"), "--profile"),
    ],
)
def test_options_that_say_what_to_measure_are_refused_beside_a_plan(capsys, tmp_path, more, named):
    path = tmp_path / "plan.json"
    assert main(["plan", *CHOSEN, "--output", str(path)]) == 0
    capsys.readouterr()
    assert main(["run", "--plan", str(path), *more, "--output", str(tmp_path / "out")]) == 2
    assert re.match(f"skymark: {named} .*--plan {re.escape(str(path))}", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_run_of_what_is_no_plan_is_refused(capsys, tmp_path):
    assert main(["run", "--plan", str(tmp_path / "none.json")]) == 2
    assert "none.json: " in capsys.readouterr().err


def test_venvs_are_named_in_one_way_only(capsys):
    assert main(["env", "build", "numpy", "--profile", "ci_cpu"]) == 2
    assert "give only one" in capsys.readouterr().err
