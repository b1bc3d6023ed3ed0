"""The modules of skymark import one another in one direction, inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"


def modules(root: Path) -> dict[str, Path]:
    """Return every module below a folder by its dotted name."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that code imports when it runs, wherever the statement stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports are not counted here"
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from imported_names(child)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return the modules that each module below a folder imports from there."""
    known = modules(root)

    def module_of(name: str) -> str | None:
        return name if name in known else module_of(parent) if (parent := parent_of(name)) else None

    def parent_of(name: str) -> str:
        return name.rpartition(".")[0]

    return {
        module: {
            found
            for name in imported_names(ast.parse(path.read_text()))
            if (found := module_of(name)) and found != module
        }
        for module, path in known.items()
    }


def cycle_in(graph: dict[str, set[str]]) -> list[str] | None:
    """Return the modules of one cycle, each importing the next."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return None


def test_no_module_imports_itself_through_others():
    cycle = cycle_in(import_graph(SOURCES))
    assert cycle is None, " imports ".join(cycle)


@pytest.mark.parametrize(
    ("imports", "cycle"),
    [
        ("from package import b", ["package.a", "package.b", "package.a"]),
        ("def later():\n    import package.b", ["package.a", "package.b", "package.a"]),
        ("if TYPE_CHECKING:\n    import package.b", None),
    ],
)
def test_a_cycle_is_found_also_where_an_import_is_deferred(tmp_path, imports, cycle):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/a.py").write_text(imports)
    (tmp_path / "package/b.py").write_text("from package.a import name")
    assert cycle_in(import_graph(tmp_path)) in (cycle, cycle and [*cycle[1:], cycle[1]])
