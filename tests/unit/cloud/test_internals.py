"""SkyPilot is reached by its SDK, and behind the SDK in one module only."""

from __future__ import annotations

import ast
from pathlib import Path

import skymark

PACKAGE = Path(skymark.__file__).parent
PUBLIC = {"sky", "sky.client"}
ALLOWED = {
    "cloud/sky/internals.py",
    "cloud/sky/end_here.py",  # a program for SkyPilot on a rented machine, sent as text
}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name for name in found if name.partition(".")[0] == "sky"}


def test_only_one_module_reaches_behind_skypilot_s_sdk():
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    behind = {name for name, path in modules.items() if imported(path) - PUBLIC}
    assert behind == ALLOWED


def test_no_module_loads_parts_of_skypilot_by_name():
    api = PACKAGE / "cloud" / "__init__.py"  # loads its own modules
    for path in set((PACKAGE / "cloud").rglob("*.py")) - {api}:
        assert "import_module" not in path.read_text(), path
