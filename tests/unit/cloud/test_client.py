"""A message of SkyPilot on one line says what failed and why, however long it is."""

from __future__ import annotations

import io
import sys

import pytest

from skymark.cloud.sky import client
from skymark.cloud.sky.client import FIRST_CHARACTERS, LAST_CHARACTERS, short


def test_a_message_is_one_line_without_colours():
    assert short(ValueError("\x1b[31mno\n  capacity\x1b[0m")) == "no capacity"


def test_an_error_without_a_message_is_named():
    assert short(TimeoutError()) == "TimeoutError"


def test_a_long_message_keeps_what_failed_and_the_last_words_of_the_program():
    first, last = "set-up failed: ", " no room on the disk"
    said = short(RuntimeError(f"{first}{'usage of kill ' * 200}{last}"))
    assert said.startswith(first)
    assert said.endswith(last)
    assert len(said) == FIRST_CHARACTERS + LAST_CHARACTERS + len(" … ")


def test_a_message_of_the_greatest_length_is_whole():
    text = "x" * (FIRST_CHARACTERS + LAST_CHARACTERS)
    assert short(RuntimeError(text)) == text


@pytest.mark.parametrize(
    ("advice", "here"),
    [
        ("Run `sky api start` first", "Run `/there/sky api start` first"),
        ("please run: sky check lambda", "please run: /there/sky check lambda"),
        ("see sky status, or sky down box", "see skymark status, or skymark down box"),
        (
            "pip install 'skypilot[aws]'",
            f"uv pip install --python {sys.executable} 'skypilot[aws]'",
        ),
        ("see sky logs --provision box", "see /there/sky logs --provision box"),
        ("the sky is blue; /opt/sky api start", "the sky is blue; /opt/sky api start"),
    ],
)
def test_advice_of_skypilot_names_programs_that_are_here(monkeypatch, advice, here):
    monkeypatch.setattr(client, "sky_program", lambda: "/there/sky")
    assert short(RuntimeError(advice)) == here
    stream = io.StringIO()
    print(advice, file=client.OwnWords(stream))
    assert stream.getvalue() == f"{here}\n"


@pytest.fixture
def server(monkeypatch):
    """Whether an API server runs. SkyPilot is stood in for: it is in a venv of its own."""
    state = {"runs": False}
    monkeypatch.setattr(client, "sdk", lambda: None)
    monkeypatch.setattr(client, "is_api_server_here", lambda: True)
    monkeypatch.setattr(client, "api_server_runs_here", lambda: state["runs"])
    monkeypatch.setattr(client, "end_idle_api_server", lambda: state.update(runs=False))
    return state


@pytest.mark.parametrize(
    ("before", "dry_run", "after"), [(False, True, False), (True, True, True), (False, False, True)]
)
def test_a_dry_run_ends_the_server_that_it_started_and_no_other(server, before, dry_run, after):
    @client.leaves_no_server
    def launch(*, dry_run):
        server["runs"] = True
        return dry_run

    server["runs"] = before
    assert launch(dry_run=dry_run) is dry_run
    assert server["runs"] is after


def test_a_dry_run_that_fails_ends_its_server_too(server):
    @client.leaves_no_server
    def launch(*, dry_run):
        server["runs"] = dry_run
        raise KeyError

    with pytest.raises(KeyError):
        launch(dry_run=True)
    assert server["runs"] is False
