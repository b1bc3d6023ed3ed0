"""The command line of `skymark exec`: options before --, a command with its own behind it."""

from __future__ import annotations

import re

import pytest

from skymark.cli.main import app, main


def bound(*words):
    _, found, _ = app.parse_args(["exec", *words], exit_on_error=False, print_error=False)
    return found.args, found.kwargs


def test_behind_the_dashes_everything_is_the_command():
    args, given = bound("box", "-n", "mine", "-d", "--", "python", "x.py", "--env", "-n", "2")
    assert args == ("box", "python", "x.py", "--env", "-n", "2")
    assert (given["name"], given["detach"]) == ("mine", True)


def test_a_yaml_stands_between_options():
    args, given = bound("box", "--env", "A=1", "job.yaml", "--env", "B=2", "--gpus", "H100:0.5")
    assert args == ("box", "job.yaml")
    assert given["variables"].env == ("A=1", "B=2")
    assert given["gpus"] == "H100:0.5"


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (("--scenarios", "CV-1"), "--scenarios"),
        (("--deadline", "5m"), "--deadline"),
        (("--store", "wandb"), "--store"),
        (("--split", "even"), "--split"),
        (("--profile", "cpu"), "--profile"),
    ],
)
def test_a_command_takes_no_option_of_a_run(option, shown, capsys):
    assert main(["exec", "box", *option, "--", "true"]) == 2
    assert re.search(f"^skymark: {shown} .*command", capsys.readouterr().err)


def test_a_job_takes_one_machine_at_least(capsys):
    assert main(["exec", "box", "--num-nodes", "0", "--", "true"]) == 2
    assert "--num-nodes" in capsys.readouterr().err


def test_logs_takes_a_job_by_place_or_by_name_and_not_two(capsys):
    assert main(["logs", "box", "1", "--job-id", "2"]) == 2
    assert "give one" in capsys.readouterr().err


def test_cancel_wants_jobs_or_all(capsys):
    assert main(["cancel", "box"]) == 2
    assert main(["cancel", "box", "1", "--all"]) == 2
    assert "skymark queue box" in capsys.readouterr().err
