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
    said = short(RuntimeError(f"set-up failed: {'usage of kill ' * 200} no room on the disk"))
    assert said.startswith("set-up failed: ")
    assert said.endswith(" no room on the disk")
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
