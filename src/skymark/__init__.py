"""Benchmark machine-learning input pipelines and models, with proof that the work was equal.

    import skymark
    work = skymark.Work(profile="ci_cpu", time="20m")
    run = skymark.run(work, skymark.Results(output="results/a"))
    print(run.table())

Every command of ``skymark`` is a call of these functions. A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.api import compare as compare
    from skymark.api import open as open  # noqa: A004  # the name of the public function
    from skymark.api import plan as plan
    from skymark.api import run as run
    from skymark.api import tune as tune
    from skymark.execute.project_file import project_defaults as project_defaults
    from skymark.model.errors import SkymarkError as SkymarkError
    from skymark.model.requests import Limits as Limits
    from skymark.model.requests import Machine as Machine
    from skymark.model.requests import Results as Results
    from skymark.model.requests import Work as Work
    from skymark.watching import watch as watch

__version__ = "0.1.0"

_PLACES = {
    **dict.fromkeys(("compare", "open", "plan", "run", "tune"), "skymark.api"),
    **dict.fromkeys(("Limits", "Machine", "Results", "Work"), "skymark.model.requests"),
    "SkymarkError": "skymark.model.errors",
    "project_defaults": "skymark.execute.project_file",
    "watch": "skymark.watching",
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "cloud":
        return import_module("skymark.cloud")
    if name not in _PLACES:
        raise AttributeError(f"module 'skymark' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
