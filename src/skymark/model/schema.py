"""Records and manifests as sealed JSON, with a digest that detects a changed byte.

The digest is the file's second line and covers all other lines: ``sed 2d FILE | sha256sum``.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TypeVar

from pydantic import ValidationError

from skymark.model.base import Frozen, faults_of
from skymark.model.manifest import Manifest
from skymark.model.record import SCHEMA_VERSION, Record

KEY = "content_sha256"

SEAL = re.compile(rb'\A\{\n "%s": "([0-9a-f]{64})",\n' % KEY.encode())


def sealed(value: Frozen, *, indent: int | None = 1) -> bytes:
    """Return a value as sealed JSON, for its file."""
    return seal(value.model_dump_json(indent=indent))


def seal(text: str) -> bytes:
    """Return the text of a JSON object with the digest of its content."""
    rest = text.strip()[1:].lstrip("\n").encode() + b"\n"
    return b'{\n "%s": "%s",\n%s' % (KEY.encode(), _digest(rest).encode(), rest)


def is_sealed(data: bytes) -> bool:
    """Return whether a file has a seal, valid or broken."""
    return SEAL.match(data) is not None


def unsealed(data: bytes) -> bytes:
    """Return the JSON of a sealed file, without the digest.

    Raises:
        ValueError: the digest is missing or does not match the content.
    """
    seal = SEAL.match(data)
    if seal is None:
        raise ValueError(f"it lacks the digest of its content ({KEY})")
    rest = data[seal.end() :]
    if _digest(rest) != seal[1].decode():
        raise ValueError(f"its content is not what its digest says ({KEY}); it was changed")
    return b"{\n" + rest


def _digest(rest: bytes) -> str:
    return sha256(b"{\n" + rest).hexdigest()


Model = TypeVar("Model", bound=Frozen)


class OtherSchemaError(ValueError):
    """File of another schema version: intact, but unreadable by this version of skymark."""

    def __init__(self, version: object) -> None:
        """Name the version and the next action.

        Args:
            version: the file's schema version.
        """
        super().__init__(
            f"has schema version {version}, and this skymark reads {SCHEMA_VERSION}; "
            "use the skymark that wrote it, or measure again"
        )


def parse_record(data: bytes) -> Record:
    """Read a record.

    Raises:
        OtherSchemaError: it has another schema version, or none.
        ValueError: it is no JSON, no record, or its digest does not match.
    """
    return _parse(data, Record)


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        OtherSchemaError: it has another schema version, or none.
        ValueError: it is no JSON, no manifest, or its digest does not match.
    """
    return _parse(data, Manifest)


def _parse(data: bytes, model: type[Model]) -> Model:
    try:
        read = model.model_validate_json(unsealed(data))
    except ValueError as error:
        raise _fault(data, model, error) from error
    if "schema_version" not in read.model_fields_set:
        raise OtherSchemaError("none")
    return read


def _fault(data: bytes, model: type[Frozen], error: ValueError) -> ValueError:
    """Return an error that explains why a file does not fit a model."""
    name = model.__name__.lower()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as fault:
        return ValueError(f"is no JSON ({fault}); it was cut short or edited")
    changed = is_sealed(data) and not isinstance(error, ValidationError)
    if isinstance(content, dict) and not changed:
        version = content.get("schema_version", "none")
        if version != SCHEMA_VERSION:
            return OtherSchemaError(version)
    if not isinstance(error, ValidationError):
        return ValueError(f"is no whole {name}: {error}")
    more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return ValueError(f"is no {name}: {faults_of(error)[0]}{more}")
