"""Help pages: about one screen, with the options of the suite that the profile belongs to."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, cast

from cyclopts import App, Group

from skymark.cli.caller import before_dashes, in_suite_s_words
from skymark.model.errors import SkymarkError

if TYPE_CHECKING:
    from cyclopts.argument import Argument
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions


HELP_ALL = "--help-all"
FLAGS = ("--help", "-h", HELP_ALL)
RARE = Group("Rare options", show=False)
"""Second group of the options that only ``--help-all`` shows."""
OF_SUITE = "Options of the suite "
"""Beginning of the names of second groups, of the options that not all suites have."""
MACHINE_TITLE, HOW_TITLE = "The machine", "How to measure it"
"""Groups of options: a page with the first one treats the second one as rare."""
OF_PROFILE = frozenset({"launch", "cost", "rehearse", "slurm", "jobset", "aichor", "sky"})
"""Commands whose first argument is a profile."""
WIDEST = 20
"""Columns of names: the description of a longer name begins on the next line."""


def of_suite(name: str) -> Group:
    """Return the second group of an option that a suite has."""
    return Group(f"{OF_SUITE}{name}", show=False)


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether a command line asks for help: an empty one does, too."""
    return not (words and set(FLAGS).isdisjoint(before_dashes(words)))


class HelpPage:
    """The help of one command as plain text. Implements `cyclopts.help.protocols.HelpFormatter`."""

    def __init__(
        self, name: str, text: str, hidden: Collection[str], rare: Collection[str]
    ) -> None:
        """Describe the page.

        Args:
            name: the command with the program, such as ``skymark run``.
            text: its description.
            hidden: options of other suites.
            rare: options that the page counts instead of showing them.
        """
        self._name = name
        self._text = text
        self._rare = frozenset(rare) - frozenset(hidden)
        self._unseen = frozenset((*hidden, *rare))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage."""
        del options
        _print(console, f"Usage: {usage}".rstrip())

    def render_description(self, console: Console, options: ConsoleOptions, text: Any) -> None:
        """Print the description: paragraphs filled to the width, indented lines unchanged."""
        del text
        for paragraph in in_suite_s_words(cleandoc(self._text)).split("\n\n"):
            lines = paragraph.split("\n")
            if not any(line.startswith(" ") for line in lines):
                lines = textwrap.wrap(" ".join(lines), options.max_width)
            _print(console, "", *lines)

    @property
    def more(self) -> str | None:
        """The line on the options that the page leaves out; None where it has all."""
        if not self._rare:
            return None
        return f"{len(self._rare)} more options: {self._name} {HELP_ALL}"

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a group of options or commands."""
        entries = [one for one in panel.entries if self._unseen.isdisjoint(one.all_options)]
        if entries:
            title = "Options" if panel.title == "Parameters" else panel.title
            console.print(f"\n{title}", style="bold", markup=False, highlight=False)
            _print(console, *_lines(entries, options.max_width))


def _print(console: Console, *lines: str) -> None:
    console.print("\n".join(lines), markup=False, highlight=False, emoji=False, soft_wrap=True)


def _lines(entries: Sequence[HelpEntry], width: int) -> Iterator[str]:
    """Yield the lines of a group: names, and descriptions beside them."""
    names = [_name(one) for one in entries]
    column = max((len(name) for name in names if len(name) <= WIDEST), default=WIDEST) + 4
    for entry, name in zip(entries, names, strict=True):
        text = textwrap.wrap(_description(entry), width - column, break_on_hyphens=False)
        if len(name) > WIDEST:
            yield f"  {name}"
        else:
            first, *text = text or [""]
            yield f"  {name}".ljust(column) + first
        yield from (" " * column + line for line in text)


def _name(entry: HelpEntry) -> str:
    return ", ".join(entry.display_labels_with_metavar)


def _description(entry: HelpEntry) -> str:
    """Return what an entry is for, with its choices and its default."""
    text = entry.description
    notes = [
        *([f"[choices: {', '.join(entry.choices)}]"] if entry.choices else ()),
        *([f"[default: {entry.default}]"] if entry.default is not None else ()),
        *(["[required]"] if entry.required else ()),
    ]
    plain = getattr(text, "primary_renderable", text)
    return in_suite_s_words(" ".join((str(plain), *notes)))


def page_of(app: App, words: Sequence[str]) -> HelpPage:
    """Return the page of the command that words ask for help on."""
    named = [word for word in words if word not in FLAGS]
    chain, apps, _ = app.parse_commands(named)
    command = apps[-1]
    hidden: list[str] = []
    rare: list[str] = []
    if command.default_command is not None:
        arguments = command.assemble_argument_collection()
        groups_of = [_groups(one) for one in arguments]
        own_suite = {f"{OF_SUITE}{_suite_of(chain, named, arguments)}"}
        rented = any(MACHINE_TITLE in groups for groups in groups_of)
        rarely = {RARE.name, HOW_TITLE} if rented else {RARE.name}
        for argument, groups in zip(arguments, groups_of, strict=True):
            suites = {name for name in groups if name.startswith(OF_SUITE)}
            if suites and suites.isdisjoint(own_suite):
                hidden += argument.names
            elif not groups.isdisjoint(rarely) and HELP_ALL not in words:
                rare.append(argument.name)
    return HelpPage(" ".join((app.name[0], *chain)), command.help, hidden, rare)


def _groups(argument: Argument) -> set[str]:
    """Return the names of an argument's groups."""
    return {group.name for group in cast(tuple[Group, ...], argument.parameter.group)}


def _suite_of(chain: Sequence[str], words: Sequence[str], arguments: Iterable[Argument]) -> str:
    """Return the suite of the profile that words name, else of the command's default profile."""
    from skymark.execute.planner import load_profile
    from skymark.model.requests import DEFAULT_PROFILE

    rest = iter(words[len(chain) :])
    named = []
    for word in rest:
        option, _, value = word.partition("=")
        if option == "--profile":
            named.append(value or next(rest, DEFAULT_PROFILE))
    if chain and chain[-1] in OF_PROFILE:
        named += [word for word in words[len(chain) :] if not word.startswith("-")]
    usual = [one.field_info.default for one in arguments if "--profile" in one.names]
    try:
        return load_profile(str((*named, *usual, DEFAULT_PROFILE)[0])).suite
    except SkymarkError:
        return load_profile(DEFAULT_PROFILE).suite
