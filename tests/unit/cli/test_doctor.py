"""`skymark doctor`: what the machine is, and how well skymark measures on it."""

from __future__ import annotations

import json

import pytest

from skymark.cli import doctor as module
from skymark.cli.main import main
from skymark.model.record import StabilityWarning


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))


def test_the_machine_is_told_as_json_with_what_skymark_itself_costs(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment"]["hardware"]["logical_cores"] >= 1
    assert 0 < found["own_cost_ns_per_batch"] < 100_000
    assert 0 < found["null_loader_utilisation"] <= 1


@pytest.mark.parametrize("warned", [True, False])
def test_the_machine_is_told_as_a_table_with_what_to_do(monkeypatch, capsys, tmp_path, warned):
    warning = StabilityWarning(kind="load", message="it is [busy]", action="wait")
    monkeypatch.setattr(module, "fitness_warnings", lambda _: [warning] if warned else [])
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert str(tmp_path / "cache") in text
    assert "own cost per batch" in text
    assert ("! it is [busy]: wait" in text) == warned
    assert ("nothing was found" in text) != warned
