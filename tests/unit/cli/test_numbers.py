"""Every number that an option takes has bounds, and is refused beyond them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import reduce
from types import NoneType, UnionType
from typing import Union, get_args, get_origin

import pytest

from skymark.cli.main import COMMANDS, app, main
from skymark.cli.options import DECLARED, typed

NEEDED = {
    "run": (),
    "plan": (),
    "tune": ("--step-ms", "5"),
    "compare": ("before", "after"),
    "history": ("runs",),
    "site": ("runs", "--output", "pages"),
    "export": ("run", "--to", "to.csv"),
    "cost": ("cpu",),
    "launch": ("cpu", "--yes"),
    "exec": ("skymark-none",),
    "submit": ("--cluster", "skymark-none"),
    "logs": ("skymark-none",),
    "ssh": ("skymark-none",),
    "cache build": ("rows.json",),
    "render slurm": ("cpu",),
    "render jobset": ("cpu", "--image", "skymark:cpu"),
    "render aichor": ("cpu", "--scenario", "2"),
    "render sky": ("cpu", "--output", "job.yaml"),
}
"""Arguments without which a command is refused for another reason."""

NO_NUMBERS = {"nan", "inf", "-1", "1e300", "9" * 30}
"""Beyond the bounds of every option."""

NO_NUMBER = "nan"
"""The one of them that no comparison refuses by itself."""

ZERO = {
    "--rounds",
    "--timeout",
    "--prefetch",
    "--num-nodes",
    "--idle-minutes",
    "--max-cost",
    "--gpu-fraction",
    "--step-ms",
    "--batch",
    "--target",
}
"""Options whose value must be above 0."""

DURATIONS = [
    (command, option)
    for command, options in {
        "launch": ("--deadline", "--boot-timeout"),
        "cost": ("--deadline", "--time"),
        "run": ("--time",),
        "plan": ("--time",),
    }.items()
    for option in options
]


def is_number(hint):
    if get_origin(hint) in {UnionType, Union}:
        return any(is_number(one) for one in get_args(hint) if one is not NoneType)
    return hint in {int, float}


def numbers_of(command):
    """The numbers that a command takes, each with what refuses it: its type and its bounds."""
    chosen = reduce(lambda group, name: group[name], command.split(), app)
    found = chosen.assemble_argument_collection()
    return {
        one.name: (one.name, one.hint, one.parameter.validator, one.parameter.converter)
        for one in found
        if is_number(one.hint) and not read_later(command, one.name)
    }


def read_later(command, option):
    """Whether a command reads an option of a suite after other things; `plan` has it too."""
    declared = {typed(name) for name in DECLARED}
    return command in {"run", "tune", "exec", "submit"} and option in declared


GROUPS = {
    "env": ("list", "build", "clean"),
    "cache": ("plan", "build", "use", "list", "verify", "du", "clean"),
    "render": ("slurm", "jobset", "aichor", "sky"),
}
ALONE = [name for names in COMMANDS.values() for name in names if name not in GROUPS]
GROUPED = [f"{group} {name}" for group, names in GROUPS.items() for name in names]
OPTIONS = {
    (command, option): declaration
    for command in (*ALONE, *GROUPED)
    for option, declaration in numbers_of(command).items()
}
NUMBERS = list(OPTIONS)
FIRST = {declaration: place for place, declaration in reversed(OPTIONS.items())}
"""The command and the option where every value is tried; other commands have the same declaration,
and are asked with one value whether they obey it."""


def refusal(capsys, command, option, value):
    """What a command says where it refuses a value."""
    typed = (f"{option}={value}",) if option.startswith("--") else ("--", value)
    assert main([*command.split(), *NEEDED.get(command, ()), *typed]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())


def test_the_options_that_cost_money_are_among_those_that_are_tried():
    launched = {option for command, option in NUMBERS if command == "launch"}
    assert launched >= {"--num-nodes", "--max-cost", "--idle-minutes", "--rounds", "--timeout"}
    assert len(NUMBERS) > len(FIRST) > 30


@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_a_number_beyond_its_bounds_is_refused_by_the_name_of_its_option(capsys, command, option):
    name = option.removeprefix("--")
    values = {NO_NUMBER}
    if FIRST[OPTIONS[command, option]] == (command, option):
        values = NO_NUMBERS | ({"0"} if option in ZERO else set())
    for value in sorted(values):
        said = refusal(capsys, command, option, value)
        assert name in said.replace("_", "-"), (value, said)
        assert "Traceback" not in said


@pytest.mark.parametrize(("command", "option"), DURATIONS)
@pytest.mark.parametrize("value", ["0s", "-1h", "nan", "5", "", "9" * 30 + "h", "400d", "१m"])
def test_a_duration_beyond_its_bounds_is_refused(capsys, command, option, value):
    assert f"{option} {value!r}" in refusal(capsys, command, option, value)


def test_what_is_refused_starts_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "skymark", "launch", "cpu", "--num-nodes", "0", "--yes"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--num-nodes" in done.stderr
    assert not list(tmp_path.iterdir())
