"""Markdown of the reference pages: tables, and docstrings as text."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterable, Sequence

MADE = "<!-- `nox -s reference` makes this page from the code. -->\n"


def document(title: str, *parts: str) -> str:
    """Return a page with a title and a note of its origin."""
    return "\n".join([f"# {title}\n", MADE, *(part.strip("\n") + "\n" for part in parts if part)])


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar in a field is escaped."""
    lines = ["| " + " | ".join(field.replace("|", "\\|") for field in row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *lines])


def code(names: Iterable[object]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def text_of(thing: object) -> str:
    """Return the docstring of a class, function or module as Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", inspect.getdoc(thing) or "", flags=re.DOTALL)


def line_of(thing: object) -> str:
    """Return a docstring in one line."""
    return " ".join(text_of(thing).split())


def documented_fields(model: type) -> dict[str, str]:
    """Return the text below each field of a class in its source, by the field's name."""
    body = ast.parse(inspect.getsource(model)).body[0].body
    return {
        field.target.id: re.sub("``(.+?)``", r"`\1`", " ".join(text.value.value.split()))
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
