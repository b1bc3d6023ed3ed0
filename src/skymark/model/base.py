"""The base of every configuration and result type: frozen, strict about unknown keys."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value that refuses unknown keys. Building one does no I/O."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def digest_of(value: Any) -> str:
    """Return the SHA-256 hex digest of a JSON-serialisable value in canonical form.

    Canonical means sorted keys, no white space and no NaN, so equal values have equal digests.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
