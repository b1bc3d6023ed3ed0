"""Write ``.skyignore``, which comes as close to the list of ``pyproject.toml`` as SkyPilot can.

`sky launch benchmarks/sky/…` sends the checkout itself. SkyPilot reads patterns of names that stay,
and no exceptions from them. So the patterns are of all names at the top and in ``benchmarks`` but
those of the list, and of secrets and private data anywhere.

    python -m tests.sky_ignore > .skyignore
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from skymark.cloud.sent_files import NAMES

ROOT = Path(__file__).parents[1]
HEAD = "# What `sky launch` leaves at home; made by `python -m tests.sky_ignore > .skyignore`.\n"
PRIVATE = (".*", "__pycache__", "data", "results", "*.db", "*.log", "*.sql", "*.sqlite*")
"""Besides secrets, and wherever they lie; all hidden files among them."""
NOT_NEEDED = (("CHANGELOG.md",), ("LICENSE",), ("benchmarks", "docker"))
"""Of the list, by a machine; each name at the top costs some lines."""


def all_but(folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield patterns of all names in a folder but the given ones."""
    kept = sorted(names)
    for beginning in sorted({name[:end] for name in kept for end in range(len(name) + 1)}):
        longer = [name for name in kept if name.startswith(beginning) and name != beginning]
        following = "".join(sorted({name[len(beginning)] for name in longer}))
        if beginning and beginning not in kept:
            yield f"{folder}{beginning}"
        yield f"{folder}{beginning}[!{following}]*" if following else f"{folder}{beginning}?*"


def text() -> str:
    """Return the content of the file."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    places = [PurePosixPath(one.lstrip("/")).parts for one in build["include"]]
    needed = [one for one in places if not any(one[: len(out)] == out for out in NOT_NEEDED)]
    lines = [
        *all_but("/", {parts[0] for parts in needed}),
        *all_but("/benchmarks/", {parts[1] for parts in needed if parts[0] == "benchmarks"}),
        # Hidden names are among the private ones; modules may be called credentials.py.
        *(name.replace(".*", ".[!p]*") for name in NAMES if not name.startswith(".")),
        *PRIVATE,
    ]
    return HEAD + "".join(f"{one}\n" for one in lines)


if __name__ == "__main__":
    print(text(), end="")
