"""The options of `run`, `plan` and the commands for rented machines, and the plan they ask for."""

# Annotations are objects here, and no texts: a subclass elsewhere reads them among its own names.

from collections.abc import Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import JsonValue

from skymark.cli.parameters import COUNT, HOW, SOME_SECONDS, WHAT, Several
from skymark.cli.suite_options import DeclaredOption, declared_options, field_of
from skymark.execute.planner import load_profile, make_plan
from skymark.model.effort import Goal
from skymark.model.errors import UsageError
from skymark.model.option import read_pair
from skymark.model.plan import Plan, Profile, Selection
from skymark.model.record import Setting
from skymark.suite.contract import Suite
from skymark.suite.registry import suites

OPTIONS_OF_COMMANDS = (
    *("plan", "output", "json", "resume", "retry", "store", "store_wait", "env", "share", "group"),
    *("shard", "split", "rank", "explain", "total_cpus", "total_memory", "measured"),
    *("cache_policy", "cache_root", "against", "gate", "practical"),
)
"""Options of `run` and `plan` besides those of a plan: no suite can have one of these names."""


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The options that every suite has."""

    profile: Annotated[
        str,
        Parameter(
            group=WHAT,
            help="Where everything comes from that is not given: a name "
            "that `skymark list profiles` shows, or a .toml file.",
        ),
    ] = "ci_cpu"
    scenarios: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            help="Names that `skymark list scenarios` shows, with a size (NAME:large; else the "
            "profile's), or many at once: tier-1, all.",
        ),
    ] = ()
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            help="Names that `skymark list adapters` shows, one version of a library "
            "(NAME@1.2), or a class of your own (./my_file.py:MyClass); or all.",
        ),
    ] = ()
    effort: Annotated[
        str | None,
        Parameter(
            group=HOW,
            help="quick, standard or rigorous: how many rounds, how long each, and how narrow an "
            "interval to reach; of loaders also check: one round, to see whether all works. "
            "[default: the profile's]",
        ),
    ] = None
    rounds: Annotated[
        int | None,
        COUNT,
        Parameter(group=HOW, help="Exactly so many rounds, whatever the effort says."),
    ] = None
    time: Annotated[
        str | None,
        Parameter(
            group=HOW,
            help="The time of all rounds, such as 20m: each cell gets the effort's least rounds, "
            "at least 3, and the others go to the cells whose rank is undecided. [default: as long "
            "as the effort takes]",
        ),
    ] = None
    goal: Annotated[
        Goal | None,
        Parameter(
            group=HOW,
            help="With --time, what it is spent on. table: rank all, and narrow all intervals; "
            "best: only what may be the best. [default: table]",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        SOME_SECONDS,
        Parameter(
            group=HOW,
            help="Seconds that one round of a cell may take, in place of the effort's; then its "
            "processes are ended.",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            help="NAME=VALUE of any other setting, of the suite or of an adapter; a name that "
            "neither has is answered with those that there are.",
        ),
    ] = ()

    def plan(self) -> Plan:
        """Return the plan that these options ask for.

        Raises:
            UsageError: a name, setting or file is wrong, or an option is another suite's.
        """
        profile = load_profile(self.profile)
        given = self._given_of_suite(profile)
        settings: dict[str, Setting] = dict(read_pair(text) for text in self.set)
        options: dict[str, JsonValue] = {}
        for name, value in given.items():
            if self.declared()[name].option.setting:
                settings[name] = value
            else:
                options[name] = list(value) if isinstance(value, tuple) else value
        selection = Selection(
            scenarios=self.scenarios, adapters=self.adapters, settings=settings, options=options
        )
        return make_plan(
            profile,
            selection,
            self.effort,
            self.rounds,
            timeout_s=self.timeout,
            time=self.time,
            goal=self.goal,
        )

    def given(self) -> tuple[str, ...]:
        """Return the options that differ from their default, as they are typed."""
        return tuple(
            typed(field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )

    def words(self) -> tuple[str, ...]:
        """Return these options as a command line gives them, the profile always among them."""
        found = ["--profile", self.profile]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "profile" or value == field.default or value in {None, ()}:
                continue
            found.append(typed(field.name))
            if value is not True:
                found += map(str, value if isinstance(value, tuple) else (value,))
        return tuple(found)

    @classmethod
    def declared(cls) -> dict[str, DeclaredOption]:
        """Return the options of suites by name; `with_options_of` gives them to a subclass."""
        return {}

    def _given_of_suite(self, profile: Profile) -> dict[str, Any]:
        """Return the given values of the options that only some suites have."""
        given = {name: getattr(self, name) for name in self.declared()}
        given = {name: value for name, value in given.items() if value not in {None, ()}}
        for name in given:
            suites = self.declared()[name].suites
            if profile.suite not in suites:
                raise UsageError(
                    f"{typed(name)} is an option of the suite {' and '.join(suites)}, and the "
                    f"profile {profile.name} is of the suite {profile.suite}; leave it out, or "
                    "give another --profile"
                )
        return given


def with_options_of(chosen: Sequence[Suite]) -> type[SharedOptions]:
    """Return the options that every suite has, with those that the chosen suites declare.

    Raises:
        UsageError: the suites' options do not go together.
    """
    taken = [*(field.name for field in fields(SharedOptions)), *OPTIONS_OF_COMMANDS]
    declared = declared_options(chosen, taken)
    made = make_dataclass(
        "PlanOptions",
        [field_of(one.option) for one in declared.values()],
        bases=(SharedOptions,),
        namespace={
            "__doc__": "The options of `run` and `plan`.",
            "__module__": __name__,
            "declared": classmethod(lambda _: declared),
        },
        frozen=True,
        kw_only=True,
    )
    return Parameter(name="*")(made)


def typed(name: str) -> str:
    """Return an option's name as the command line has it."""
    return f"--{name.replace('_', '-')}"


if TYPE_CHECKING:
    PlanOptions = SharedOptions
else:
    PlanOptions = with_options_of(suites())
"""The options of `run` and `plan`, those of all installed suites among them."""

OPTIONS_OF_SETTINGS = tuple(
    name for name, one in PlanOptions.declared().items() if one.option.setting
)
"""Settings with an option of their own, besides --set."""
