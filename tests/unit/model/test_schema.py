"""Records and manifests: other schemas and damaged files are refused, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skymark.model.record import SCHEMA_VERSION
from skymark.model.schema import (
    OtherSchemaError,
    parse_manifest,
    parse_record,
    seal,
    sealed,
    unsealed,
)

DATA = Path(__file__).parents[2] / "data" / "run"
RECORDS = sorted((DATA / "records").glob("*.json"))
RECORD = DATA / "records" / "loading.TAB-1.small.numpy.json"
MANIFEST = DATA / "manifest.json"
BOTH = [(parse_record, RECORD), (parse_manifest, MANIFEST)]


def changed(path: Path, without: str = "", **fields: Any) -> bytes:
    """Return a file with other fields, and the digest of those."""
    content = json.loads(unsealed(path.read_bytes())) | fields
    content.pop(without, None)
    return seal(json.dumps(content))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_reads_back_in_any_order_of_its_keys(path: Path) -> None:
    record = parse_record(path.read_bytes())
    assert record.cell.hash == record.cell_hash
    for indent in (None, 1):
        assert parse_record(sealed(record, indent=indent)) == record
    turned = dict(reversed(record.model_dump(mode="json").items()))
    assert parse_record(seal(json.dumps(turned))) == record


def test_a_manifest_reads_back() -> None:
    manifest = parse_manifest(MANIFEST.read_bytes())
    assert parse_manifest(sealed(manifest)) == manifest


@pytest.mark.parametrize(("parse", "path"), BOTH)
@pytest.mark.parametrize("version", [1, 2, SCHEMA_VERSION + 1, "new", None])
def test_another_schema_version_is_refused_with_its_number(
    parse: Any, path: Path, version: Any
) -> None:
    with pytest.raises(OtherSchemaError, match=f"version {version}, .* reads {SCHEMA_VERSION}"):
        parse(changed(path, schema_version=version))


@pytest.mark.parametrize(("parse", "path"), BOTH)
def test_a_file_without_a_schema_version_is_refused(parse: Any, path: Path) -> None:
    with pytest.raises(OtherSchemaError, match="version none"):
        parse(changed(path, without="schema_version"))


@pytest.mark.parametrize("parse", [parse_record, parse_manifest])
@pytest.mark.parametrize(
    "data",
    [
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
        b'{"schema_version": []}',
        b'{"schema_version": 0}',
    ],
    ids=lambda data: repr(data[:24]),
)
def test_a_file_of_something_else_is_a_value_error(parse: Any, data: bytes) -> None:
    for content in (data, seal(data.decode("latin-1"))):
        with pytest.raises(ValueError):
            parse(content)


@pytest.mark.parametrize(
    "fields",
    [
        {"rounds": 5},
        {"rounds": [None]},
        {"rounds": [{"round": 0}]},
        {"metrics": []},
        {"metrics": {"samples_per_s": "fast"}},
        {"metrics": {"samples_per_s": {"worth": 1}}},
        {"verification": "passed"},
        {"verification": {}},
        {"cell": None},
        {"status": "splendid"},
        {"speed": "great"},
        *({"without": name} for name in ("cell", "cell_hash", "status", "started_at", "ended_at")),
    ],
    ids=ascii,
)
def test_a_record_with_a_damaged_part_is_a_value_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=str(fields.get("without", next(iter(fields))))):
        parse_record(changed(RECORD, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"machine": None},
        {"plan": None},
        {"plan": []},
        {"plan": {}},
        {"declaration": None},
        {"run_id": None},
        {"counts": {"splendid": 3}},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_manifest_with_a_damaged_part_is_a_value_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        parse_manifest(changed(MANIFEST, **fields))


def test_a_text_that_no_terminal_and_no_file_takes_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Invalid JSON"):
        parse_record(changed(RECORD, cell_hash="\ud800"))


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(("parse", "path"), BOTH)
def test_a_file_that_is_cut_short_is_a_value_error(parse: Any, path: Path, keep: float) -> None:
    data = path.read_bytes()
    with pytest.raises(ValueError):
        parse(data[: int(len(data.rstrip()) * keep)])


@pytest.mark.parametrize(("parse", "path"), BOTH)
def test_a_file_without_its_digest_is_a_value_error(parse: Any, path: Path) -> None:
    with pytest.raises(ValueError, match="lacks the digest"):
        parse(unsealed(path.read_bytes()))
