"""Make docs/api.md from the docstrings of the public names; `nox -s api_page` runs it."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import skymark
from skymark.report.results import Run

FUNCTIONS = ("plan", "run", "open", "compare")
REQUESTS = ("Work", "Results", "Machine", "Limits")
HEAD = """# Use skymark from Python

Every command is a call of these functions. `nox -s api_page` makes this page from their docstrings.

```python
import skymark

work = skymark.Work(scenarios=("TAB-1:small",), adapters=("numpy",), rounds=1)
plan = skymark.plan(work)
run = skymark.run(plan, skymark.Results(output="results/a"), own_venvs=False)
print(run.table())
print(skymark.compare("results/a", run).compared)
```

`skymark schema NAME` prints the JSON Schema of a request, plan, record, manifest or comparison.
"""


def page() -> str:
    """Return the page."""
    functions = (_entry(f"skymark.{name}", getattr(skymark, name)) for name in FUNCTIONS)
    parts = [HEAD, "## Functions\n", *functions, "## Requests\n"]
    for name in REQUESTS:
        model = getattr(skymark, name)
        fields = "\n".join(f"- `{field}: {kind}`" for field, kind in model.__annotations__.items())
        parts.append(f"### `skymark.{name}`\n\n{_first(model)}\n\n{fields}\n")
    parts.append("## The result of a run\n")
    for name, member in vars(Run).items():
        if not name.startswith("_") and inspect.isfunction(member):
            parts.append(_entry(f"Run.{name}", member))
    return "\n".join(parts)


def _entry(name: str, function: object) -> str:
    parameters = inspect.signature(function).parameters
    listed = ", ".join(one for one in parameters if one != "self")
    return f"### `{name}({listed})`\n\n```text\n{inspect.getdoc(function)}\n```\n"


def _first(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def example() -> str:
    """Return the code of the page's example."""
    return HEAD.partition("```python\n")[2].partition("```")[0]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
