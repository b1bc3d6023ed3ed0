"""Page of the command line: each command with its options, from the program itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from inspect import cleandoc
from textwrap import dedent
from types import MappingProxyType

from skymark.cli.caller import in_suite_s_words
from skymark.cli.main import COMMANDS, OWN_WORDS, add_suites, app
from skymark.suite.registry import suites
from tests.reference_pages.markdown import code, document, table

HEAD = """
`skymark COMMAND --help-all` prints the same. Options that several commands take stand once, under
[shared options](#shared-options). A value in capitals is yours; `...` takes several values.
"""
SHARED = """
Not every command takes each of these options: the section of a command lists its own.
`[suite: …]` marks options of one suite, such as `clip`.
"""
SEVERAL = 3
"""Commands that take an option alike, from which on it is a shared one."""
OF_COMMAND = ("Arguments", "Parameters")
"""Headings of what each command has for itself."""


@dataclass
class Group:
    """Options or arguments of a command under one heading."""

    heading: str
    items: list[str] = field(default_factory=list)
    """Each as in the list: its names in code, a colon, its meaning."""


@dataclass
class Command:
    """A command as cyclopts documents it."""

    name: str
    text: str
    """Usage and description."""
    groups: list[Group] = field(default_factory=list)

    @property
    def parent(self) -> str | None:
        """The command that it is a part of, such as ``skymark cache``; None for none."""
        return self.name.rpartition(" ")[0] if self.name.count(" ") > 1 else None


Shared = Mapping[str, Sequence[str]]
"""Items that several commands take alike, by heading."""


def commands_page() -> str:
    """Return the page of commands."""
    commands = list(_commands(_documented()))
    shared = _shared(one for one in commands if one.parent is None)
    return document(
        "Look up a command",
        HEAD,
        *_overview(),
        "## Shared options",
        SHARED,
        *(
            part
            for heading, items in shared.items()
            for part in (f"### {heading}", "\n".join(f"- {_with_suite(one)}" for one in items))
        ),
        *(part for command in commands for part in _section(command, commands, shared)),
    )


def _shared(commands: Iterable[Command], among: Shared = MappingProxyType({})) -> Shared:
    """Return the options that several commands take alike; of two of one name, the usual one.

    Args:
        commands: to compare.
        among: options that are shared already.
    """
    counted = Counter(
        (group.heading, item)
        for command in commands
        for group in command.groups
        for item in group.items
        if group.heading not in OF_COMMAND and item not in among.get(group.heading, ())
    )
    usual: dict[tuple[str, str], str] = {}
    for (heading, item), count in counted.most_common():
        if count >= SEVERAL:
            usual.setdefault((heading, _name(item)), item)
    found: dict[str, list[str]] = {}
    for heading, item in counted:
        if usual.get((heading, _name(item))) == item:
            found.setdefault(heading, []).append(item)
    return found


def _name(item: str) -> str:
    """Return the first name of an option."""
    return re.split(r"[`, ]", item)[1]


def _overview() -> Iterator[str]:
    """Yield a table of the commands for each group of the program's help."""
    groups = {title: {n: one[1] for n, one in named.items()} for title, named in COMMANDS.items()}
    groups[OWN_WORDS.name] = {name: app[name].help for name in _suites_commands()}
    for title, named in groups.items():
        yield f"**{title}**"
        rows = ((f"[`{name}`](#skymark-{name})", summary) for name, summary in named.items())
        yield table(("command", "purpose"), rows)


def _suites_commands() -> list[str]:
    add_suites([])
    known = {name for named in COMMANDS.values() for name in named}
    return [name for name in app if not name.startswith("-") and name not in known]


def _documented() -> str:
    add_suites([])
    return app.generate_docs(output_format="markdown")


def _description(name: str) -> str:
    """Return a command's docstring, with its examples as a block of code."""
    command = reduce(lambda group, word: group[word], name.split()[1:], app)
    own = command.default_command
    text = cleandoc((own.__doc__ if own is not None else None) or command.help)
    add_suites(name.split()[1:])
    text = in_suite_s_words(text)
    examples = re.compile(r"^Examples:\n((?:  .+\n?)+)", re.MULTILINE)
    return examples.sub(lambda found: f"```sh\n{dedent(found[1]).rstrip()}\n```\n", text).rstrip()


def _commands(documented: str) -> Iterator[Command]:
    """Yield the commands of cyclopts's document."""
    _, *parts = re.split(r"^#{2,} (skymark .+)$", documented, flags=re.MULTILINE)
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        text, *groups = re.split(r"^\*\*(.+)\*\*:$", part, flags=re.MULTILINE)
        # cyclopts names this process's program, too, in the usage of a command's command.
        usage, taken = rf"^```console\n{name}\b.*?", r"((?: --[\w-]+| \[[A-Z.]+\]| [A-Z]+)*)\n```$"
        shown = re.search(usage + taken, text, flags=re.MULTILINE)
        block = "" if shown is None else f"```text\n{name}{shown[1]}\n```\n\n"
        command = Command(name, block + _description(name))
        for heading, listed in zip(groups[::2], groups[1::2], strict=True):
            items = re.findall(r"^\* (.+)$", listed, re.MULTILINE)
            command.groups.append(Group(heading, [_plain(item) for item in items]))
        yield command


def _plain(item: str) -> str:
    """Return an item without the negative names and the empty defaults that the program hides."""
    names, _, meaning = item.partition("`: ")
    words = [word.strip("`") for word in names.split(", ")]
    negative = {f"--{no}-{word.split()[0][2:]}" for word in words for no in ("no", "empty")}
    shown = [word for word in words if word not in negative]
    meaning = re.sub(r" \*\[default: (?:False|\(\))\]\*", "", meaning)
    meaning = re.sub(r"(\*\[default: \d+)\.0\]", r"\1]", meaning)
    return f"`{', '.join(shown)}`: {meaning}".replace("\\[", "[")


def _with_suite(item: str) -> str:
    """Return an item with the suites that have it, where not all do, and their defaults."""
    option = re.sub(r"^`--([\w-]+).*", r"\1", item, flags=re.DOTALL).replace("-", "_")
    having = {one.name: found for one in suites() for found in one.options if found.name == option}
    if not having:
        return item
    suite = f" *[suite: {', '.join(having)}]*" * (len(having) < len(suites()))
    defaults = [f"{n} {one.default}" for n, one in having.items() if one.default is not None]
    default = f" *[default: {', '.join(defaults)}]*" * ("[default:" not in item and bool(defaults))
    return f"{item}{suite}{default}"


def _section(command: Command, commands: Sequence[Command], shared: Shared) -> Iterator[str]:
    """Yield the section of a command."""
    yield f"{'#' * len(command.name.split())} {command.name}"
    yield command.text
    parts = [one for one in commands if one.parent == command.name]
    for heading, items in _shared(parts, shared).items():
        yield f"**{heading}**, of several of these commands"
        yield "\n".join(f"- {item}" for item in items)
    siblings = [one for one in commands if command.parent == one.parent is not None]
    of_parent = _shared(siblings, shared)
    for group in command.groups:
        yield f"**{group.heading}**"
        usual = {
            _anchor(group.heading): shared.get(group.heading, ()),
            _anchor(command.parent or ""): of_parent.get(group.heading, ()),
        }
        others = [item for items in usual.values() for item in items]
        yield "\n".join(f"- {item}" for item in group.items if item not in others)
        for anchor, items in usual.items():
            if names := [_name(item) for item in items if item in group.items]:
                yield f"[Shared](#{anchor}): {code(names)}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
