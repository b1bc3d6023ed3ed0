"""Page of the Python API: docstrings of the public names."""

from __future__ import annotations

import inspect

import skymark
from skymark import cloud
from skymark.report.results import Comparison, Run
from skymark.report.tuning import Choice
from tests.reference_pages.markdown import documented_fields

FUNCTIONS = ("plan", "run", "open", "compare", "tune", "watch")
REQUESTS = ("Work", "Results", "Machine", "Limits")
RESULTS = (Run, Comparison, Choice)
CLOUD = ("quote", "launch", "execute", "submit", "submit_managed", "status", "collect", "down")
HEAD = """# Use skymark from Python

Every command is a call of these functions. `nox -s reference` makes this page from their
docstrings.

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
        parts.append(f"### `skymark.{name}`\n\n{_first(model)}\n\n{_fields(model)}\n")
    parts.append("## Results\n")
    for kind in RESULTS:
        parts.append(f"### `{kind.__name__}`\n\n{_first(kind)}\n")
        for name, member in vars(kind).items():
            if not name.startswith("_") and (described := _member(name, member)):
                parts.append(described)
    parts.append("## Rented machines\n")
    parts += [_entry(f"skymark.cloud.{name}", getattr(cloud, name)) for name in CLOUD]
    return "\n".join(parts)


def _entry(name: str, function: object) -> str:
    parameters = inspect.signature(function).parameters
    listed = ", ".join(one for one in parameters if one != "self")
    return f"### `{name}({listed})`\n\n```text\n{inspect.getdoc(function)}\n```\n"


def _fields(model: type) -> str:
    """Return a line for each field of a request, with the text below it in the source."""
    said = documented_fields(model)
    return "\n".join(
        f"- `{name}: {kind}`" + (f": {said[name]}" if name in said else "")
        for name, kind in model.__annotations__.items()
    )


def _member(name: str, member: object) -> str | None:
    """Return an entry of a method, or a line of a property; None of anything else."""
    if isinstance(member, property):
        return f"- `{name}`: {_first(member)}\n"
    return _entry(f".{name}", member) if inspect.isfunction(member) else None


def _first(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def example() -> str:
    """Return the code of the page's example."""
    return HEAD.partition("```python\n")[2].partition("```")[0]
