"""`skymark schema`: files of a run are as the schemas say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skymark.cli.main import main

RUN = Path("tests/data/run")


def schema(capsys, name):
    assert main(["schema", name]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["request", "plan", "record", "manifest", "comparison", "report"])
def test_each_schema_names_its_dialect_and_refuses_unknown_keys(capsys, name):
    described = schema(capsys, name)
    assert described["$schema"].startswith("https://json-schema.org/")
    assert described["additionalProperties"] is False


def test_a_record_s_keys_are_those_of_its_schema(capsys):
    described = schema(capsys, "record")
    for path in (RUN / "records").iterdir():
        keys = set(json.loads(path.read_text()))
        assert set(described["required"]) <= keys <= set(described["properties"])


def test_a_manifest_s_keys_are_those_of_its_schema(capsys):
    described = schema(capsys, "manifest")
    keys = set(json.loads((RUN / "manifest.json").read_text()))
    assert set(described["required"]) <= keys <= set(described["properties"])


def test_a_plan_and_a_comparison_have_the_keys_of_their_schemas(capsys):
    for name, words in (
        ("plan", ["plan", "--scenarios", "TAB-1", "--adapters", "numpy", "--json"]),
        ("comparison", ["compare", str(RUN), str(RUN), "--json"]),
    ):
        described = schema(capsys, name)
        assert main(words) == 0
        keys = set(json.loads(capsys.readouterr().out))
        assert set(described["required"]) <= keys <= set(described["properties"])
