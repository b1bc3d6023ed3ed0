"""The options that say which work, and the request that they make."""

# Annotations are objects here, and no texts: a subclass elsewhere reads them among its own names.

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from cyclopts import Parameter

import skymark
from skymark.cli.help import RARE, of_suite
from skymark.cli.parameters import COUNT, HOW, NAME, SOME_SECONDS, TIME, WHAT, Several
from skymark.execute.planner import load_profile, read_plan, words_of
from skymark.execute.project_file import project_defaults
from skymark.model.effort import Goal
from skymark.model.errors import UsageError
from skymark.model.option import Option, read_pair
from skymark.model.plan import Plan, Profile
from skymark.model.requests import DEFAULT_PROFILE, Work
from skymark.suite.contract import Suite
from skymark.suite.registry import suites

OPTIONS_OF_COMMANDS = (
    *("plan", "output", "json", "resume", "retry", "store", "store_wait", "env", "share", "group"),
    *("shard", "split", "rank", "explain", "total_cpus", "total_memory", "measured"),
    *("cache_policy", "cache_root", "against", "gate", "practical", "slots", "gpu_fraction"),
    *("on", "infra", "spot", "machine", "disk_size", "detach", "dry_run", "yes"),
    *("deadline", "max_cost", "secret"),
)
"""Options of `run` and `plan` besides the work's: no suite's option can have such a name."""
OPTIONS_OF_ALL = (
    *("profile", "scenarios", "adapters", "effort", "rounds", "time", "goal", "timeout", "set"),
)
"""Options of the work that every suite has."""
METAVARS = {"text": "TEXT", "file": "PATH", "integer": "N", "number": "NUMBER", "flag": ""}
TYPES = {"text": str, "file": str, "integer": int, "number": float, "flag": bool}
GROUPS = {"what": WHAT, "how": HOW}


@dataclass(frozen=True)
class DeclaredOption:
    """An option of suites, with the names of the suites that have it."""

    option: Option
    suites: tuple[str, ...]

    @property
    def annotation(self) -> Any:
        """The option's type, with its help, for cyclopts."""
        option = self.option
        default = "" if option.default is None else f" [default: {option.default}]"
        groups = (
            GROUPS[option.group],
            *map(of_suite, self.suites),
            *((RARE,) if option.rare else ()),
        )
        metavar = METAVARS[option.kind] + "..." * option.several
        shown = Parameter(
            group=groups,
            metavar=None if option.choices or option.kind == "flag" else metavar,
            help=f"{option.help}{default}",
            negative=(),
        )
        kind: Any = Literal[option.choices] if option.choices else TYPES[option.kind]
        if option.several:
            return Annotated[tuple[kind, ...], Several, shown]
        return Annotated[kind, shown]


def declared_options(chosen: Iterable[Suite]) -> dict[str, DeclaredOption]:
    """Return the options of suites by name; suites share an option of one name.

    Raises:
        UsageError: two suites mean different kinds of values by one name, or every suite has an
            option of that name.
    """
    declared: dict[str, DeclaredOption] = {}
    for suite in chosen:
        for option in suite.options:
            if option.name in OPTIONS_OF_ALL or option.name in OPTIONS_OF_COMMANDS:
                raise UsageError(
                    f"the suite {suite.name!r} declares an option {option.name!r}, which every "
                    "suite has; rename it in the package that has the suite"
                )
            known = declared.get(option.name)
            merged = option if known is None else _merged(known, suite.name, option)
            others = () if known is None else known.suites
            declared[option.name] = DeclaredOption(merged, (*others, suite.name))
    return declared


def _merged(known: DeclaredOption, suite: str, option: Option) -> Option:
    """Return the option that two suites share, with the choices of both."""
    first = known.option
    same = (first.kind, first.several, first.setting, bool(first.choices))
    if same != (option.kind, option.several, option.setting, bool(option.choices)):
        raise UsageError(
            f"the suites {known.suites[0]!r} and {suite!r} declare different options "
            f"{option.name!r}; rename it in the package of either suite"
        )
    help = first.help
    if option.help != first.help:
        before = f"{known.suites[0]}: {help}" if len(known.suites) == 1 else help
        help = f"{before} {suite}: {option.help}"
    return Option(
        name=first.name,
        kind=first.kind,
        help=help,
        group=first.group,
        choices=tuple(dict.fromkeys((*first.choices, *option.choices))),
        several=first.several,
        default=first.default if first.default == option.default else None,
        setting=first.setting,
        rare=first.rare and option.rare,
    )


def typed_options(declared: Mapping[str, DeclaredOption]) -> Any:
    """Return suites' options as the type of a dictionary: it has the options that were given."""
    annotations = {name: one.annotation for name, one in declared.items()}
    return TypedDict("OptionsOfSuites", annotations, total=False)  # type: ignore[operator]


DECLARED = declared_options(suites())
"""The options of all installed suites by name."""

if TYPE_CHECKING:
    OptionsOfSuites = dict[str, Any]
else:
    OptionsOfSuites = typed_options(DECLARED)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The options of `run` and `plan` that say which work; each suite adds its own."""

    profile: Annotated[
        str,
        NAME,
        Parameter(
            group=WHAT,
            help="Profile with the defaults for all options: a name, or a .toml file.",
        ),
    ] = DEFAULT_PROFILE
    scenarios: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            metavar="NAME...",
            help="Scenarios, such as CV-1, CV-1:large, tier-1 or all.",
        ),
    ] = ()
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            metavar="NAME...",
            help="Loaders, such as pytorch, grain@0.2 for one version, ./file.py:Class for your "
            "own, or all.",
        ),
    ] = ()
    effort: Annotated[
        str | None,
        NAME,
        Parameter(
            group=HOW,
            help="quick, standard or rigorous: number and length of rounds; loaders also have "
            "check, one round each.",
        ),
    ] = None
    rounds: Annotated[
        int | None,
        COUNT,
        Parameter(group=(HOW, RARE), help="Exact number of rounds of each cell."),
    ] = None
    time: Annotated[
        str | None,
        TIME,
        Parameter(
            group=HOW,
            help="Time of all rounds, such as 20m: at least 3 for each cell, then more where the "
            "order is undecided. [default: the effort's rounds]",
        ),
    ] = None
    goal: Annotated[
        Goal | None,
        Parameter(
            group=(HOW, RARE),
            help="With --time. table: rank all cells and narrow all intervals. best: measure only "
            "cells that may be the best. [default: table]",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        SOME_SECONDS,
        Parameter(
            group=(HOW, RARE),
            help="Longest time of one round, in seconds; then skymark ends its processes. "
            "[default: the effort's]",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            metavar="NAME=VALUE...",
            help="Any other setting; an unknown name prints the list of valid ones.",
        ),
    ] = ()

    own: Annotated[OptionsOfSuites, Parameter(name="*")] = field(default_factory=dict)
    """The options of suites that were given, by name."""

    def work(self) -> Work:
        """Return the request that these options make.

        Raises:
            UsageError: a setting or a time cannot be read, or an option is another suite's.
        """
        if self.own:
            _require_options_of(self.own, load_profile(self.profile))
        settings = dict(map(read_pair, self.set))
        options = {}
        for name, value in self.own.items():
            if DECLARED[name].option.setting:
                settings[name] = value
            else:
                options[name] = list(value) if isinstance(value, tuple) else value
        return Work(
            profile=self.profile,
            scenarios=self.scenarios,
            adapters=self.adapters,
            settings=settings,
            options=options,
            effort=self.effort,
            rounds=self.rounds,
            time=self.time,
            goal=self.goal,
            timeout_s=self.timeout,
            defaults=project_defaults(),
        )

    def plan(self) -> Plan:
        """Return the plan of that request."""
        return skymark.plan(self.work())

    def given(self) -> tuple[str, ...]:
        """Return the typed names of the options that differ from their default."""
        return (*given_options(self, "own"), *map(typed, self.own))

    def words(self) -> tuple[str, ...]:
        """Return these options as a command line gives them, the profile always among them."""
        return words_of(self.work())


DEFAULT_OPTIONS = PlanOptions()


def _require_options_of(names: Iterable[str], profile: Profile) -> None:
    """Refuse an option that only other suites have than the profile's."""
    for name in names:
        if profile.suite not in (having := DECLARED[name].suites):
            raise UsageError(
                f"{typed(name)} is an option of the suite {' and '.join(having)}, and the "
                f"profile {profile.name} is of the suite {profile.suite}; leave it out, or "
                "give another --profile"
            )


def plan_of_file(path: Path, given: Sequence[str]) -> Plan:
    """Return the plan of a file, beside which no option says what to measure.

    Raises:
        UsageError: one is given, or the file is no plan.
    """
    if given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given beside --plan {path}, which decides the work; "
            "leave out either"
        )
    return read_plan(path)


def typed(name: str) -> str:
    """Return an option's name as the command line has it."""
    return f"--{name.replace('_', '-')}"


def given_options(options: Any, *besides: str) -> list[str]:
    """Return the typed names of a group's options that differ from their default.

    Args:
        options: the group, a dataclass.
        besides: names of fields to leave out.
    """
    return [
        typed(option.name)
        for option in fields(options)
        if option.name not in besides and getattr(options, option.name) != option.default
    ]


def with_options(command: Callable[..., int], options: type[PlanOptions]) -> Callable[..., int]:
    """Return a command of a plan's options as a command of a suite's own.

    A plan's file names its suite by itself: `skymark run --plan` takes it.
    """
    signature = inspect.signature(command, eval_str=True)
    default = options()
    shown = signature.replace(
        parameters=[
            one.replace(annotation=options, default=default) if one.name == "options" else one
            for one in signature.parameters.values()
            if one.name != "plan"
        ]
    )

    def of_suite(*arguments: Any, **named: Any) -> int:
        given = shown.bind(*arguments, **named)
        given.apply_defaults()
        return command(*given.args, **given.kwargs)

    of_suite.__doc__ = command.__doc__
    of_suite.__dict__["__signature__"] = shown
    return of_suite
