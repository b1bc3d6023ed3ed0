"""Every option of SkyPilot's commands, asked of SkyPilot's own command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.cli.main import app
from skymark.cli.sky_words import COMMANDS, DONE_ANYWAY, OPTIONS

PAIRS = {
    "launch": ("launch", "jobs launch"),
    "exec": ("exec",),
    "queue": ("queue",),
    "logs": ("logs", "jobs logs"),
    "cancel": ("cancel",),
    "status": ("status",),
    "down": ("down",),
    "cost": ("launch", "jobs launch"),
    "submit": ("launch", "jobs launch"),
}
"""Commands of SkyPilot's by command of ours."""
WHOLE = ("launch", "exec", "queue", "logs", "cancel", "status", "down")
"""Commands that have the same name, of which each option is known."""
TYPED_BY_USERS = {"-y", "--yes", "--async", "--no-async"}
"""Options of SkyPilot's other commands."""
OTHER_MEANINGS = {"--resize"}
"""Options of the same name for something else: of images here, of a machine there."""
LISTING = """
import json
import click
from sky.client.cli.command import cli

def options(command):
    return {word: not one.is_flag for one in command.params if isinstance(one, click.Option)
            for word in (*one.opts, *one.secondary_opts)}

found = {name: options(one) for name, one in cli.commands.items() if not one.hidden}
found |= {f"jobs {name}": options(one) for name, one in cli.commands["jobs"].commands.items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def sky(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bool]]:
    """Whether each option takes a value, by command of SkyPilot's."""
    home: Path = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LISTING],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, dict[str, bool]] = json.loads(done.stdout)
    return found


def options_of_ours(command: str) -> dict[str, bool]:
    collected = app[command].assemble_argument_collection()
    return {word: one.hint is not bool for one in collected if one.parse for word in one.names}


@pytest.mark.parametrize("command", WHOLE)
def test_every_option_is_ours_or_taken_or_answered(
    sky: dict[str, dict[str, bool]], command: str
) -> None:
    ours = options_of_ours(command)
    names = [name for name in PAIRS[command] if name in {command, "jobs launch"}]
    theirs = {word for name in names for word in sky[name]}
    assert theirs - set(ours) - set(OPTIONS[command]) == set()


@pytest.mark.parametrize("command", OPTIONS)
def test_an_option_that_is_taken_has_as_many_values_as_theirs(
    sky: dict[str, dict[str, bool]], command: str
) -> None:
    ours = options_of_ours(command)
    for name in PAIRS[command]:
        for word, takes_value in sky[name].items():
            if word in OTHER_MEANINGS:
                continue
            answer = OPTIONS[command].get(word, word)
            if answer == DONE_ANYWAY:
                assert not takes_value, word
            elif answer in ours:
                assert ours[answer] == takes_value, word


@pytest.mark.parametrize("command", OPTIONS)
def test_an_answer_hides_no_option_of_ours_and_names_one_of_theirs(
    sky: dict[str, dict[str, bool]], command: str
) -> None:
    theirs = {word for name in PAIRS[command] for word in sky[name]}
    ours, answers = options_of_ours(command), OPTIONS[command]
    assert set(answers) & set(ours) == set()
    assert set(answers) - theirs - TYPED_BY_USERS == set()
    assert {answer for answer in answers.values() if answer.startswith("-")} <= set(ours)


def test_every_command_is_ours_or_answered(sky: dict[str, dict[str, bool]]) -> None:
    assert {name.split()[0] for name in sky} - set(app) - set(COMMANDS) == set()
