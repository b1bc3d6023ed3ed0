"""Reading of the user's settings and options of the command line into a suite's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeVar

from pydantic import ValidationError

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.record import Setting

Given = TypeVar("Given", bound=Frozen)


def combinations(values: Mapping[str, Sequence[Setting]]) -> list[dict[str, Setting]]:
    """Return every combination of values, by name."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def read_given(model: type[Given], kind: str, values: Mapping[str, object]) -> Given:
    """Read values by name.

    Args:
        model: has a field for each name that may be given.
        kind: ``setting`` or ``option``, for messages.
        values: the user's values by name.

    Raises:
        UsageError: the name does not exist, or the value is invalid.
    """
    for name in values:
        if name not in model.model_fields:
            raise UnknownNameError(kind, name, model.model_fields)
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise refusal(kind, error, values) from error


def refusal(kind: str, error: ValidationError, values: Mapping[str, object]) -> UsageError:
    """Return the error for the first value that a model refuses."""
    fault = error.errors()[0]
    name = str(fault["loc"][0])
    return UsageError(f"{kind} {name}={values.get(name)!r}: {fault['msg']}")
