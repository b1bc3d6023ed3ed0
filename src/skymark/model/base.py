"""Base of every configuration and result type: frozen, strict about unknown keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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


ACCEPTED = {
    "string_type": "a text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a dict",
    "path_type": "a path",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
}
"""Accepted values by the kind of Pydantic's fault."""
KINDS_OF_VALUES = frozenset({"bool", "int", "float", "str"})
"""Ends of a place that stand for one of several types of the value there."""


def faults_of(
    error: ValidationError,
    unknown: Callable[[str, Any], str] = lambda key, _: f"{key}: there is no such field",
    secret: Collection[str] = (),
) -> list[str]:
    """Return each fault as ``place=value: reason``; the place is a path of keys joined by dots.

    Args:
        error: of a model.
        unknown: gives the message on an unknown field from its place and value.
        secret: fields whose values are left out.
    """
    by_place: dict[str, list[ErrorDetails]] = {}
    for fault in error.errors():
        place = fault["loc"]
        if len(place) > 1 and place[-1] in KINDS_OF_VALUES:
            place = place[:-1]
        by_place.setdefault(".".join(map(str, place)), []).append(fault)
    found = []
    for key, faults in by_place.items():
        fault = faults[0]
        if fault["type"] == "extra_forbidden":
            found.append(unknown(key, fault["input"]))
            continue
        # Other messages have the value, or none is there.
        has_value = key and fault["type"] in ACCEPTED and fault["loc"][0] not in secret
        value = f"={shortened(fault['input'])}" if has_value else ""
        found.append(f"{key}{value}: {remedy_of(faults)}".removeprefix(": "))
    return found


def remedy_of(faults: Sequence[ErrorDetails]) -> str:
    """Return what to give in place of a value with these faults, one for each accepted type."""
    if any(fault["type"] not in ACCEPTED for fault in faults):
        return faults[0]["msg"].removeprefix("Value error, ")
    *others, last = dict.fromkeys(
        ACCEPTED[fault["type"]].format_map(
            {
                name: f"{bound:g}" if isinstance(bound, int | float) else bound
                for name, bound in fault.get("ctx", {}).items()
            }
        )
        for fault in faults
    )
    return f"give {', '.join(others)}{' or ' if others else ''}{last}"


def digest_of(value: Any) -> str:
    """Return the SHA-256 hex digest of a JSON-serialisable value in canonical form.

    Canonical means sorted keys, no white space and no NaN, so equal values have equal digests.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
