"""Records and manifests from JSON, of this schema version or an earlier one.

Each step changes the content of one version into that of the next. A figure of an
earlier version is the same figure in this one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from skymark.model.base import Frozen
from skymark.model.manifest import Manifest
from skymark.model.record import SCHEMA_VERSION, Record
from skymark.model.sealed import KEY, is_sealed, unsealed

Content = dict[str, Any]
Step = Callable[[Content], Content]
Model = TypeVar("Model", bound=Frozen)

CURRENT = re.compile(rb'\A\s*\{\s*"schema_version":\s*%d\b' % SCHEMA_VERSION)
"""How the content of this version begins; it is validated as it is, which is twice as fast."""


def is_current(content: bytes) -> bool:
    """Whether JSON is of this schema version, as files of ours begin."""
    return CURRENT.match(content) is not None


CORE_OF_A_ROUND = {"round", "started_at", "setup_s", "timed_ns", "resources", "extra"}
CORE_OF_AN_EFFORT = {
    "name", "min_rounds", "max_rounds", "target_relative_interval", "cell_timeout_s",
}  # fmt: skip


def parse_record(data: bytes) -> Record:
    """Read a record.

    Raises:
        ValueError: it is no JSON, no record, of a newer schema (pydantic's ValidationError), or not
            what its own digest says.
    """
    return _parse(data, Record, RECORD_STEPS)


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ValueError: it is no JSON, no manifest, of a newer schema (pydantic's ValidationError), or
            not what its own digest says.
    """
    return _parse(data, Manifest, MANIFEST_STEPS)


def _parse(data: bytes, model: type[Model], steps: dict[int, Step]) -> Model:
    with_seal = is_sealed(data)
    if with_seal:
        data = unsealed(data)
        if is_current(data):
            return model.model_validate_json(data)
    try:
        content = json.loads(data)
        version = content.get("schema_version", 1) if isinstance(content, dict) else None
        if not with_seal and version == SCHEMA_VERSION:
            raise ValueError(f"it lacks the digest of its content ({KEY})")
        while isinstance(content, dict) and (step := steps.get(content.get("schema_version", 1))):
            content = step(content)
        # By way of JSON: that refuses lone surrogates, which no terminal and no file takes.
        return model.model_validate_json(json.dumps(content))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"it is of an earlier schema, and not whole: {error!r}") from error


def _second(content: Content) -> Content:
    """Change version 1 into 2, whose new fields may all be absent."""
    return {**content, "schema_version": 2}


def _third_record(content: Content) -> Content:
    """Change a record of version 2 into 3: figures, of rounds too, become metrics by name."""
    content = {**content, "schema_version": 3}
    content.pop("environment_settings", None)
    conditions = {"page_cache": content.pop("page_cache", None)}
    figures = content.pop("figures", None)
    content["metrics"] = {} if figures is None else _metrics(figures)
    content["rounds"] = [_third_round(one) for one in content.get("rounds", ())]
    if verification := content.get("verification"):
        conditions["operators"] = verification.get("operators")
        content["verification"] = _third_verification(verification)
    content["conditions"] = _known(conditions)
    return content


def _third_round(content: Content) -> Content:
    own = {name: value for name, value in content.items() if name not in CORE_OF_A_ROUND}
    core = {name: content[name] for name in CORE_OF_A_ROUND - {"extra"} if name in content}
    return {**core, "metrics": _known(own | content.get("extra", {}))}


def _third_verification(content: Content) -> Content:
    _refuse_others(content, KEPT_OF_A_VERIFICATION | CHANGED_OF_A_VERIFICATION)
    return {
        **{name: content[name] for name in content.keys() & KEPT_OF_A_VERIFICATION},
        "verified_elements": content.get("indexed_elements", 0),
        "compared_elements": content.get("content_elements", 0),
        "counts": {"epochs": content.get("epochs", 0)},
    }


KEPT_OF_A_VERIFICATION = {"passed", "cause", "fields", "tolerance", "max_difference"}
CHANGED_OF_A_VERIFICATION = {"operators", "indexed_elements", "content_elements", "epochs"}


def _metrics(figures: Content) -> Content:
    own = {name: value for name, value in figures.items() if name != "extra"}
    return {
        name: value if isinstance(value, dict) else {"value": value}
        for name, value in _known(own | figures.get("extra", {})).items()
    }


def _third_manifest(content: Content) -> Content:
    """Change a manifest of version 2 into 3: the plan says its suite, the machine its name."""
    content = {**content, "schema_version": 3}
    content["machine"] = content.pop("environment")
    plan = dict(content["plan"])
    effort = plan["effort"]
    plan["effort"] = {name: effort[name] for name in CORE_OF_AN_EFFORT if name in effort} | {
        "limits": {name: effort[name] for name in effort if name not in CORE_OF_AN_EFFORT}
    }
    plan["suite"] = plan["cells"][0]["cell"]["suite"]
    plan["cells"] = [
        {
            **planned,
            "group": planned["cell"]["adapter"],
            "shard_key": f"{planned['cell']['scenario']}:{planned['cell']['variant']}",
        }
        for planned in plan["cells"]
    ]
    return {**content, "plan": plan}


def _refuse_others(content: Content, names: set[str]) -> None:
    """Refuse keys that no earlier version had; they would pass for metrics."""
    if unknown := sorted(content.keys() - names):
        raise ValueError(f"{', '.join(unknown)}: no key of an earlier schema")


def _known(content: Content) -> Content:
    """Return what is not null."""
    return {name: value for name, value in content.items() if value is not None}


RECORD_STEPS: dict[int, Step] = {1: _second, 2: _third_record}
MANIFEST_STEPS: dict[int, Step] = {1: _second, 2: _third_manifest}
