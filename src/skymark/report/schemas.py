"""JSON Schemas of all files of skymark, made from the models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.model.requests import Work
from skymark.model.schema import KEY
from skymark.report.compare import Comparison
from skymark.report.verdicts import RunReport

MODELS: dict[str, type[BaseModel]] = {
    "request": Work,
    "plan": Plan,
    "record": Record,
    "manifest": Manifest,
    "comparison": Comparison,
    "report": RunReport,
}
SEALED = ("record", "manifest")
"""Files that begin with the digest of their content."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a model by its name in `MODELS`.

    Raises:
        KeyError: there is no such model.
    """
    model = MODELS[name]
    if name == "request":
        schema = model.model_json_schema()
    else:
        schema = model.model_json_schema(mode="serialization")
    if name in SEALED:
        digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
        schema["properties"] = {KEY: digest, **schema["properties"]}
    return {"$schema": DIALECT, "title": f"skymark {name}", **schema}
