"""The last words on a rented machine say whether it is there."""

from __future__ import annotations

import json

import pytest

from skymark.cli.terminal import Terminal, show_end
from skymark.cloud.lifecycle.retrieving import GONE
from skymark.cloud.lifecycle.stages import Ended, Finished, Kept, Left, Retrieved
from tests.rented_runs import run_of


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(Retrieved(Finished(run_of()), gone=True)), {"end": "ended", "machine_gone": True}),
        (Ended(Retrieved(Finished(run_of()))), {"end": "ended", "machine_gone": False}),
        (
            Kept(Retrieved(Finished(run_of())), idle_minutes=10, hourly_price_usd=2.0),
            {"end": "kept", "hourly_price_usd": 2.0, "idle_minutes": 10},
        ),
        (Left(run_of()), {"end": "left"}),
    ],
    ids=["gone", "up", "kept", "left"],
)
def test_an_end_is_json_alone_on_standard_output(tmp_path, capsys, ended, words):
    show_end(ended, tmp_path, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found.items() >= {**words, "machine": run_of().name, "run_id": run_of().run_id}.items()


def test_a_price_is_shown_on_standard_error_beside_json(capsys):
    for is_json, stream in ((True, "err"), (False, "out")):
        Terminal(show=print, json=is_json).show("at most 2 USD")
        said = capsys.readouterr()._asdict()
        assert said == {"out": "", "err": "", stream: "at most 2 USD\n"}


@pytest.mark.parametrize("gone", [True, False])
def test_a_machine_that_is_gone_is_not_said_to_be_up(tmp_path, capsys, gone):
    finished = Finished(run_of(keep=True))
    ended = Ended(Retrieved(finished, problems=(GONE,) if gone else (), gone=gone))
    assert show_end(ended, tmp_path) == 1
    said = capsys.readouterr().err
    assert ("skymark down " in said) is not gone
    assert (GONE in said) is gone
