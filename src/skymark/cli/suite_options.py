"""Options of the command line that the installed suites declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from skymark.cli.parameters import HOW, WHAT, Several
from skymark.model.errors import UsageError
from skymark.model.option import Option
from skymark.suite.contract import Suite

TYPES: Mapping[str, type] = {
    "text": str,
    "file": str,
    "integer": int,
    "number": float,
    "flag": bool,
}
GROUPS = {"what": WHAT, "how": HOW}


@dataclass(frozen=True)
class DeclaredOption:
    """One option with the suites that have it."""

    option: Option
    suites: tuple[str, ...]


def declared_options(
    suites: Iterable[Suite], taken: Iterable[str] = ()
) -> dict[str, DeclaredOption]:
    """Return the options of suites by name; those of one name are one option.

    Args:
        suites: in the order of help.
        taken: names of options that all suites have.

    Raises:
        UsageError: two suites mean different kinds of values by one name, or a name is taken.
    """
    reserved = set(taken)
    found: dict[str, DeclaredOption] = {}
    for suite in suites:
        for option in suite.options:
            if option.name in reserved:
                raise UsageError(
                    f"the suite {suite.name!r} declares an option {option.name!r}, which every "
                    "suite has; rename it in the package that has the suite"
                )
            known = found.get(option.name)
            merged = option if known is None else _merged(known, suite.name, option)
            others = () if known is None else known.suites
            found[option.name] = DeclaredOption(merged, (*others, suite.name))
    return found


def _merged(known: DeclaredOption, suite: str, option: Option) -> Option:
    """Return the option that two suites share: its choices are those of both."""
    one = known.option
    same = (one.kind, one.several, one.setting, bool(one.choices))
    if same != (option.kind, option.several, option.setting, bool(option.choices)):
        raise UsageError(
            f"the suites {known.suites[0]!r} and {suite!r} declare different options "
            f"{option.name!r}; rename one of them in the package that has the suite"
        )
    help = one.help
    if option.help != one.help:
        before = f"{known.suites[0]}: {help}" if len(known.suites) == 1 else help
        help = f"{before} {suite}: {option.help}"
    return one.model_copy(
        update={
            "help": help,
            "choices": tuple(dict.fromkeys((*one.choices, *option.choices))),
            "default": one.default if one.default == option.default else None,
        }
    )


def field_of(option: Option) -> tuple[str, Any, Any]:
    """Return an option as a field for `dataclasses.make_dataclass`.

    A value that is not given is None, or empty for several values, whatever the suite's default
    is: the default is in the help, so that a given value can be told from it.
    """
    default = "" if option.default is None else f" [default: {option.default}]"
    no_negative: dict[str, Any] = {"negative": ()} if option.kind == "flag" else {}
    help = f"{option.help}{default}"
    parameter = Parameter(group=GROUPS[option.group], help=help, **no_negative)
    type_: Any = Literal[option.choices] if option.choices else TYPES[option.kind]
    if option.several:
        annotated: Any = Annotated[tuple[type_, ...], Several, parameter]
        return option.name, annotated, dataclass_field(default=())
    return option.name, Annotated[type_ | None, parameter], dataclass_field(default=None)
