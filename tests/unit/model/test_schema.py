"""Files of earlier schemas: nothing that they say is lost, and what is damaged is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skymark.model.record import SCHEMA_VERSION
from skymark.model.schema import parse_manifest, parse_record
from skymark.model.sealed import seal, sealed

DATA = Path(__file__).parents[2] / "data"
OLD_VERSIONS = (1, 2)
FILES = [
    pytest.param(path, id=f"{path.parents[1].name}-{path.stem}")
    for version in OLD_VERSIONS
    for path in sorted((DATA / f"run-v{version}" / "records").glob("*.json"))
]
MANIFESTS = [
    pytest.param(DATA / f"run-v{version}" / "manifest.json", id=f"run-v{version}")
    for version in OLD_VERSIONS
]
MEASURED = DATA / "run-v2" / "records" / "TAB-1.small.numpy.json"
NO_METRIC = {"round", "started_at", "setup_s", "timed_ns", "resources", "extra"}
"""What of a round of schema 1 and 2 is the same field in this one."""


def values_in(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Figures of an object by name, its extra ones among them; null ones are absent."""
    for name, value in {**content, **content["extra"]}.items():
        if name != "extra" and value is not None:
            yield name, value


def changed(path: Path, **fields: Any) -> bytes:
    return json.dumps(json.loads(path.read_text()) | fields).encode()


def test_there_is_a_saved_run_of_every_earlier_schema() -> None:
    assert len(FILES) == 10 * len(OLD_VERSIONS)
    assert set(OLD_VERSIONS) == set(range(1, SCHEMA_VERSION))


# Records


@pytest.mark.parametrize("path", FILES)
def test_every_figure_of_an_old_record_is_a_metric_with_the_same_value(path: Path) -> None:
    old = json.loads(path.read_text())
    expected = {
        name: value if isinstance(value, dict) else {"value": value, "low": None, "high": None}
        for name, value in values_in(old["figures"] or {"extra": {}})
    }
    record = parse_record(path.read_bytes())
    assert {name: one.model_dump() for name, one in record.metrics.items()} == expected


@pytest.mark.parametrize("path", FILES)
def test_every_value_of_an_old_round_is_a_metric_or_a_field_of_the_round(path: Path) -> None:
    old = json.loads(path.read_text())["rounds"]
    rounds = parse_record(path.read_bytes()).rounds
    assert len(rounds) == len(old)
    for one, content in zip(rounds, old, strict=True):
        kept = {name: value for name, value in values_in(content) if name not in NO_METRIC}
        assert one.metrics == kept
        core = one.model_dump(mode="json", exclude={"metrics": True, "resources": {"gpus"}})
        assert one.resources.gpus is None
        assert core == {name: content[name] for name in NO_METRIC - {"extra"}}


@pytest.mark.parametrize("path", FILES)
def test_all_else_of_an_old_record_is_as_it_was(path: Path) -> None:
    old = json.loads(path.read_text())
    new = parse_record(path.read_bytes()).model_dump(mode="json")
    verification = old.pop("verification")
    conditions = {"page_cache": old.pop("page_cache")}
    if verification is not None:
        conditions["operators"] = verification["operators"]
        kept = ("passed", "cause", "fields", "tolerance", "max_difference")
        assert new.pop("verification") == {name: verification[name] for name in kept} | {
            "verified_elements": verification["indexed_elements"],
            "compared_elements": verification["content_elements"],
            "counts": {"epochs": verification["epochs"]},
        }
    stated = {name: value for name, value in conditions.items() if value is not None}
    assert new["conditions"] == stated
    same = old.keys() - {"schema_version", "rounds", "figures", "environment_settings"}
    assert same >= {"cell", "cell_hash", "status", "cause", "warnings", "versions", "price_usd"}
    assert {name: new[name] for name in same} == {name: old[name] for name in same}


@pytest.mark.parametrize("path", FILES)
def test_a_cell_of_an_old_record_has_the_hash_that_it_had(path: Path) -> None:
    record = parse_record(path.read_bytes())
    assert record.cell.hash == record.cell_hash
    assert record.cell.id == f"loading.{path.stem}"


@pytest.mark.parametrize("path", FILES)
def test_a_record_of_today_reads_back_and_is_not_changed_again(path: Path) -> None:
    record = parse_record(path.read_bytes())
    for indent in (None, 1):
        assert parse_record(sealed(record, indent=indent)) == record
    turned = dict(reversed(record.model_dump(mode="json").items()))
    assert parse_record(seal(json.dumps(turned))) == record


def test_a_scenarios_own_figures_of_an_old_record_are_metrics_like_the_others() -> None:
    old = json.loads(MEASURED.read_text())
    own = {"value": 0.5, "low": 0.4, "high": 0.6}
    old["figures"]["extra"] = {"resume_s": own}
    old["rounds"][0]["extra"] = {"resume_s": 0.45}
    record = parse_record(json.dumps(old).encode())
    assert record.metrics["resume_s"].model_dump() == own
    assert record.rounds[0].metrics["resume_s"] == 0.45
    assert "resume_s" not in record.rounds[1].metrics


def test_a_file_without_a_version_is_of_the_first() -> None:
    old = json.loads((DATA / "run-v1" / "records" / MEASURED.name).read_text())
    del old["schema_version"]
    record = parse_record(json.dumps(old).encode())
    assert record.metrics["samples_per_s"].value == old["figures"]["samples_per_s"]["value"]


# Manifests


@pytest.mark.parametrize("path", MANIFESTS)
def test_an_old_manifest_says_the_same_of_its_plan_and_its_machine(path: Path) -> None:
    old, new = json.loads(path.read_text()), parse_manifest(path.read_bytes())
    assert new.machine.model_dump(mode="json") == old["environment"]
    assert new.plan.suite == "loading"
    assert new.declaration is None
    dumped = new.model_dump(mode="json")
    same = old.keys() - {"schema_version", "environment", "plan"}
    assert same >= {"run_id", "plan_hash", "counts", "finished", "created_at"}
    assert {name: dumped[name] for name in same} == {name: old[name] for name in same}
    for name in ("profile", "settings", "settings_from"):
        assert dumped["plan"][name] == old["plan"][name]


@pytest.mark.parametrize("path", MANIFESTS)
def test_the_bounds_of_an_old_effort_are_kept_the_suites_own_as_limits(path: Path) -> None:
    old, new = json.loads(path.read_text()), parse_manifest(path.read_bytes()).effort
    limits = new.model_dump(exclude={"limits"}) | new.limits
    assert limits == old["plan"]["effort"]
    assert set(new.limits) == {"min_seconds", "max_seconds", "verified_elements"}


@pytest.mark.parametrize("path", MANIFESTS)
def test_old_cells_have_the_processes_and_machines_that_they_had(path: Path) -> None:
    old, new = json.loads(path.read_text()), parse_manifest(path.read_bytes())
    for planned, content in zip(new.plan.cells, old["plan"]["cells"], strict=True):
        assert planned.cell.model_dump(mode="json") == content["cell"]
        assert planned.group == content["cell"]["adapter"]
        assert planned.shard_key == f"{content['cell']['scenario']}:small"
        assert planned.refusal == content["refusal"]


@pytest.mark.parametrize("path", MANIFESTS)
def test_a_manifest_of_today_reads_back_and_is_not_changed_again(path: Path) -> None:
    manifest = parse_manifest(path.read_bytes())
    assert parse_manifest(sealed(manifest)) == manifest


def test_machines_and_stores_that_a_run_of_schema_2_went_on_with_are_kept() -> None:
    path = DATA / "run-v2" / "manifest.json"
    machine = json.loads(path.read_text())["environment"]
    found = parse_manifest(changed(path, continued_on=[machine], stores=["s3://b/r"]))
    assert found.continued_on == (found.machine,)
    assert found.stores == ("s3://b/r",)


# Damage


DAMAGES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"3",
    b'"record"',
    b"{}",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"schema_version": 3}',
    b'{"schema_version": 3, "cell": ' + b"[" * 200_000,
    b'{"schema_version": "x"}',
    b'{"schema_version": null}',
    b'{"schema_version": []}',
    b'{"schema_version": 0}',
    b'{"schema_version": -1}',
]


@pytest.mark.parametrize("parse", [parse_record, parse_manifest])
@pytest.mark.parametrize("data", DAMAGES, ids=lambda data: repr(data[:24]))
def test_what_is_no_file_of_skymarks_is_a_value_error(parse: Any, data: bytes) -> None:
    with pytest.raises(ValueError):
        parse(data)


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize(
    "fields",
    [
        {"rounds": 5},
        {"rounds": [None]},
        {"rounds": [{"round": 0}]},
        {"figures": []},
        {"figures": "fast"},
        {"figures": {"samples_per_s": "fast"}},
        {"figures": {"samples_per_s": {"worth": 1}}},
        {"figures": {"extra": None}},
        {"verification": "passed"},
        {"verification": {}},
        {"cell": None},
        {"status": "splendid"},
        {"speed": "great"},
    ],
    ids=str,
)
def test_an_old_record_with_a_damaged_part_is_a_value_error(
    version: int, fields: dict[str, Any]
) -> None:
    path = DATA / f"run-v{version}" / "records" / MEASURED.name
    with pytest.raises(ValueError):
        parse_record(changed(path, **fields))


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize("name", ["cell", "cell_hash", "status", "started_at", "ended_at"])
def test_an_old_record_that_lacks_a_part_is_a_value_error(version: int, name: str) -> None:
    path = DATA / f"run-v{version}" / "records" / MEASURED.name
    old = json.loads(path.read_text())
    del old[name]
    with pytest.raises(ValueError, match=name):
        parse_record(json.dumps(old).encode())


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize(
    "fields",
    [
        {"environment": None},
        {"plan": None},
        {"plan": []},
        {"plan": {}},
        {"plan": {"effort": {}, "cells": []}},
        {"plan": {"effort": None, "cells": [{}]}},
        {"plan": {"effort": {}, "cells": [{"cell": {}}]}},
        {"run_id": None},
        {"counts": {"splendid": 3}},
        {"colour": "red"},
    ],
    ids=str,
)
def test_an_old_manifest_with_a_damaged_part_is_a_value_error(
    version: int, fields: dict[str, Any]
) -> None:
    with pytest.raises(ValueError):
        parse_manifest(changed(DATA / f"run-v{version}" / "manifest.json", **fields))


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("path", [FILES[0], FILES[-1], *MANIFESTS])
def test_a_file_that_is_cut_short_is_a_value_error(path: Path, keep: float) -> None:
    data, parse = path.read_bytes(), parse_manifest if "manifest" in path.name else parse_record
    with pytest.raises(ValueError):
        parse(data[: int(len(data.rstrip()) * keep)])


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 99])
def test_a_newer_schema_is_refused(version: int) -> None:
    newer = parse_record(MEASURED.read_bytes()).model_dump(mode="json")
    with pytest.raises(ValidationError, match="schema_version"):
        parse_record(json.dumps(newer | {"schema_version": version}).encode())
    manifest = parse_manifest((DATA / "run-v2" / "manifest.json").read_bytes())
    newer = manifest.model_dump(mode="json") | {"schema_version": version}
    with pytest.raises(ValidationError, match="schema_version"):
        parse_manifest(json.dumps(newer).encode())


def test_a_key_that_no_version_has_is_refused_in_a_record_of_today() -> None:
    content = parse_record(MEASURED.read_bytes()).model_dump(mode="json")
    with pytest.raises(ValidationError, match="speed"):
        parse_record(seal(json.dumps(content | {"speed": 3})))


def test_a_key_that_old_versions_did_not_have_is_refused() -> None:
    old = json.loads(MEASURED.read_text())
    old["verification"]["sped_per_s"] = 3.0
    with pytest.raises(ValueError, match="sped_per_s"):
        parse_record(json.dumps(old).encode())
