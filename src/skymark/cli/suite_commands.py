"""`skymark SUITE`: the commands of a suite that brings words of its own for what it measures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from skymark.references import extensions

if TYPE_CHECKING:
    from skymark.cli.options import SharedOptions
    from skymark.suite.commands import SuiteCommands

GROUP = "skymark.commands"
"""Entry points that declare them; see `skymark.suite.commands`."""


@cache
def helps() -> dict[str, str]:
    """Return the help of each suite's commands by its name; nothing of the suite is imported."""
    return {one.name: _first_line(one.module) for one in extensions(GROUP)}


def _first_line(module: str) -> str:
    """Return the first line of a module's docstring."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    documentation = ast.get_docstring(ast.parse(Path(spec.origin).read_text("utf-8")))
    return (documentation or "").partition("\n")[0]


def __getattr__(suite: str) -> App:
    """Return the commands of a suite: they are made when the command line names it."""
    if suite not in helps():
        raise AttributeError(suite)
    (entry,) = (one for one in extensions(GROUP) if one.name == suite)
    return app_of(entry.load())


def app_of(declared: SuiteCommands) -> App:
    """Return ``skymark SUITE`` with its commands."""
    from skymark.cli import suite_plan, suite_status
    from skymark.cli.run import run
    from skymark.cli.submit import submit

    options = options_of(declared)
    app = App(name=declared.suite, help=helps()[declared.suite])
    for name, function in (
        ("plan", suite_plan.plan),
        ("run", run),
        ("submit", submit),
        ("status", suite_status.status),
        ("table", suite_status.table),
    ):
        app.command(_bound(function, declared, options), name=name)
    return app


def options_of(declared: SuiteCommands) -> type[SharedOptions]:
    """Return the options of a suite alone, with its words for scenarios and adapters."""
    from skymark.cli.options import with_options_of
    from skymark.cli.parameters import WHAT, Several
    from skymark.suite.registry import suite_named

    base = with_options_of([suite_named(declared.suite)])
    chosen: list[tuple[str, Any, Any]] = [
        (
            field,
            Annotated[
                tuple[str, ...],
                Several,
                Parameter(name=f"--{words.option}", group=WHAT, help=words.help),
            ],
            (),
        )
        for field, words in (("adapters", declared.adapters), ("scenarios", declared.scenarios))
    ]
    profile = Annotated[
        str,
        Parameter(
            group=WHAT,
            help="Where everything comes from that is not given; another for another machine.",
        ),
    ]
    made = make_dataclass(
        "SuiteOptions",
        [("profile", profile, declared.profile), *chosen],
        bases=(base,),
        namespace={"__doc__": "The options of a suite.", "__module__": __name__},
        frozen=True,
        kw_only=True,
    )
    return Parameter(name="*")(made)


def _bound(
    function: Callable[..., int], declared: SuiteCommands, options: type[SharedOptions]
) -> Callable[..., int]:
    """Return a command with the options of a suite, which is told which suite's it is.

    A plan file names its suite by itself, and is run by ``skymark run --plan``.
    """
    signature = inspect.signature(function, eval_str=True)
    told = {"declared": declared} if "declared" in signature.parameters else {}
    shown = signature.replace(
        parameters=[
            one.replace(annotation=options, default=options()) if one.name == "options" else one
            for one in signature.parameters.values()
            if one.name not in {"declared", *(() if told else ("plan",))}
        ]
    )

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> int:
        given = shown.bind(*arguments, **named)
        given.apply_defaults()
        return function(*given.args, **given.kwargs, **told)

    call.__dict__["__signature__"] = shown
    call.__annotations__ = {one.name: one.annotation for one in shown.parameters.values()}
    del call.__dict__["__wrapped__"]
    return call
