"""Base of every configuration and result type: frozen, strict about unknown keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

NonNegative = Annotated[FiniteFloat, Field(ge=0)]
"""A duration, a price or a share."""
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A count, or a number of bytes or nanoseconds."""
Amount = Annotated[FiniteFloat, Field(ge=-1e60, le=1e60)]
"""A measured figure; its square is a number, too."""
Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(1900, 1, 1, tzinfo=UTC), lt=datetime(9000, 1, 1, tzinfo=UTC)),
]
"""A time with its zone, far enough from the ends of the calendar for arithmetic."""


class Frozen(BaseModel):
    """Immutable value that refuses unknown keys. Building it does no I/O."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, without cached values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    def changed(self, **values: Any) -> Self:
        """Return a validated copy with other values of some fields.

        Raises:
            ValidationError, or UsageError of a request: a field is unknown or its value is invalid.
        """
        return type(self)(**{**dict(self), **values})


def faults_of(error: ValidationError) -> list[str]:
    """Return each fault as ``place: reason``; the place is a path of keys joined by dots."""
    return [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]


def digest_of(value: Any) -> str:
    """Return the SHA-256 hex digest of a JSON-serialisable value in canonical form.

    Canonical means sorted keys, no white space and no NaN, so equal values have equal digests.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
