"""Records and manifests from their sealed JSON. Files of another schema are refused."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import ValidationError

from skymark.model.base import Frozen
from skymark.model.manifest import Manifest
from skymark.model.record import SCHEMA_VERSION, Record
from skymark.model.sealed import is_sealed, unsealed

Model = TypeVar("Model", bound=Frozen)


class OtherSchemaError(ValueError):
    """A file of another version of skymark: it is whole, and this version does not read it."""

    def __init__(self, version: object) -> None:
        """Say what to do.

        Args:
            version: of the schema that the file names.
        """
        super().__init__(
            f"has schema version {version}, and this skymark reads {SCHEMA_VERSION}; "
            "use the skymark that wrote it, or measure again"
        )


def parse_record(data: bytes) -> Record:
    """Read a record.

    Raises:
        OtherSchemaError: it has another schema version, or none.
        ValueError: it is no JSON, no record, or not what its own digest says.
    """
    return _parse(data, Record)


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        OtherSchemaError: it has another schema version, or none.
        ValueError: it is no JSON, no manifest, or not what its own digest says.
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
    """Return an error that says in words why a file is not of a model."""
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
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "file"
    more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return ValueError(f"is no {name}: {place}: {first['msg']}{more}")
