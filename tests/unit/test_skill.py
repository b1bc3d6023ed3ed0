"""The skill for coding assistants: short, and true of the commands and of their JSON."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skymark.cli.caller import print_json
from skymark.cli.cost import as_json
from skymark.cli.main import add_suites, app, main
from skymark.cloud.sky.clusters import LiveMachine
from skymark.model.record import StabilityWarning
from skymark.report.tuning import Choice
from tests.unit.cloud.cost.conftest import offer, quote_of
from tests.unit.report.test_tuning import CHEAP, FAST, tuned

TEXT = Path("skills/skymark/SKILL.md").read_text()
MOST_WORDS = 700
RUN = "tests/data/run"
BLOCKS = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
COMMANDS = [*re.findall(r"`(skymark [^`\n]+)`", TEXT), *BLOCKS.splitlines()]
ROWS = re.findall(r"^\| `skymark (\w+)[^`]* --json` \| (.+) \|$", TEXT, re.MULTILINE)
FIELDS = [(command, path) for command, row in ROWS for path in re.findall("`([^`]+)`", row)]
MACHINE = LiveMachine(
    name="a",
    status="UP",
    machine="1 × gpu",
    nodes=1,
    launched_at=datetime(2026, 10, 3, tzinfo=UTC),
    idle_minutes=10,
    hourly_price_usd=2.0,
    cost_usd=0.5,
)


def printed(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def output_of(command, capsys):
    """Return an example of what a command prints; of those that ask providers, as they write it."""
    match command:
        case "report":
            return printed(capsys, "report", RUN)
        case "compare":
            return printed(capsys, "compare", RUN, RUN)
        case "tune":
            return json.loads(Choice(tuned((FAST, CHEAP), (FAST, CHEAP))).to_json())
        case "cost":
            print_json(as_json(quote_of(offer(2.0))))
            return json.loads(capsys.readouterr().out)
        case "status":
            return [MACHINE.model_dump(mode="json")]
        case "doctor":
            found = printed(capsys, "doctor", "--skip", "noise", "copies", "self-tests")
            one = StabilityWarning(kind="drift", message="", action="")
            return {**found, "warnings": [*found["warnings"], one.model_dump()]}
    raise AssertionError(command)


def has(value, steps):
    """Whether JSON has a field below some keys; ``[]`` stands for any item of a list."""
    if not steps:
        return True
    first, *others = steps
    if first == "[]":
        return any(has(one, others) for one in value)
    return isinstance(value, dict) and first in value and has(value[first], others)


def test_the_skill_is_short_and_names_itself():
    assert len(TEXT.split()) <= MOST_WORDS
    assert TEXT.startswith("---\nname: skymark\ndescription: ")


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_of_the_skill_is_understood(line):
    words = shlex.split(line)[1:]
    add_suites(words)
    app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("command", dict(ROWS))
def test_each_field_of_the_skill_is_in_the_command_s_json(command, capsys):
    output = output_of(command, capsys)
    paths = [path for name, path in FIELDS if name == command]
    assert paths
    lacking = [one for one in paths if not has(output, re.findall(r"\[\]|[^.\[\]]+", one))]
    assert lacking == []


def test_a_field_that_is_not_there_is_found_out(capsys):
    assert not has(output_of("report", capsys), ["records", "[]", "metrics", "samples_per_second"])
