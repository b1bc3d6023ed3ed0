"""A suite's settings and options of the command line: fields of its models, and their reading."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError

from skymark.model.base import Frozen, remedy_of
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.option import Option
from skymark.model.record import Setting

Given = TypeVar("Given", bound=Frozen)
KINDS: Mapping[Any, str] = {int: "integer", float: "number", bool: "flag"}
"""Kind of an option by the type of its values; others are texts."""
SWITCH = ("on", "off")
"""Values of a setting that is true or false."""


def options_of(model: type[Frozen], common: Collection[str], **more: Any) -> tuple[Option, ...]:
    """Return the options of a model's fields that have a description, which is their help.

    Args:
        model: the ``json_schema_extra`` of its fields replaces what follows from their types.
        common: names of the options that ``--help`` shows; only ``--help-all`` shows the others.
        more: what all of them have, such as their group.
    """
    options = []
    for name, field in model.model_fields.items():
        if field.description is not None:
            own: Any = field.json_schema_extra or {}
            told = {"name": name, "help": field.description, "rare": name not in common}
            of_type = _of_type(field.annotation, field.default, is_setting="setting" in more)
            options.append(Option(**{**told, **of_type, **more, **own}))
    return tuple(options)


def _of_type(annotation: Any, default: Any, *, is_setting: bool) -> dict[str, Any]:
    """Return what follows from a field's type; an option also shows a default that is one value."""
    plain, several = annotation, False
    while get_origin(plain) not in {None, Literal}:  # of `tuple[int, ...] | None` it is `int`
        several = several or get_origin(plain) is tuple
        plain = get_args(plain)[0]
    shown = default if type(default) in {int, str} and not is_setting else None
    if get_origin(plain) is Literal:
        return {"choices": get_args(plain), "default": shown}
    if plain is bool and is_setting:
        return {"choices": SWITCH}
    return {"kind": KINDS.get(plain, "text"), "several": several, "default": shown}


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
    faults = error.errors()
    name = faults[0]["loc"][0]
    remedy = remedy_of([fault for fault in faults if fault["loc"][0] == name])
    return UsageError(f"{kind} {name}={values.get(str(name))!r}: {remedy}")
