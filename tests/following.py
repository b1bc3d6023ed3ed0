"""Follow the options of `skymark launch` to SkyPilot: the functions that a value passes on its way.

    nox -s following

Counted are skymark's functions that are called with the value, or with an object that has it as a
field, from the command's own to the call of SkyPilot's SDK that rents the machine. SkyPilot's
server is stood in for: nothing is asked of it that would tell a value anything.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import skymark

PACKAGE = Path(skymark.__file__).parent
MOST = {"profile": 12, "--max-cost": 6}
"""Functions that a value may pass."""
CATALOGUES = Path(__file__).parents[1] / "src" / "sky_rehearsal" / "catalogs"
PROFILE = """\
description = "followed"
suite = "loading"
platform = "gpu"
machine = "gpu-benchmark"
scenarios = ["TAB-1:small"]
adapters = ["numpy"]
"""
CEILING_USD = 97.25


def holds(thing: object, value: object) -> bool:
    """Whether a thing is a value, or has it as a field."""
    if type(thing) is type(value):
        return thing == value
    fields = getattr(thing, "__dict__", {})
    return any(type(one) is type(value) and one == value for one in list(fields.values()))


@contextmanager
def followed(values: dict[str, object]) -> Iterator[dict[str, dict[str, None]]]:
    """Note the functions that values pass, by the values' names, in their order."""
    passed: dict[str, dict[str, None]] = {name: {} for name in values}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names]
        for name, value in values.items():
            if any(holds(one, value) for one in given):
                place = Path(code.co_filename).relative_to(PACKAGE).with_suffix("")
                passed[name][f"{place}:{code.co_qualname}"] = None

    sys.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(None)


def report(passed: dict[str, dict[str, None]]) -> int:
    """Print the functions that values passed; returns 1 where they are too many."""
    for name, functions in passed.items():
        print(f"{name}: {len(functions)} functions, {MOST[name]} at most")
        print("".join(f"  {function}\n" for function in functions), end="", flush=True)
    return int(any(len(functions) > MOST[name] for name, functions in passed.items()))


def stand_in(sky: Any, rent: Callable[..., Any]) -> None:
    """Let SkyPilot's server know no machine and no job, accept every key, and rent as told."""
    from sky.client import sdk

    answers: dict[str, Any] = {"jobs": ([], 0, {}, 0)}
    stubs: dict[str, Callable[..., Any]] = {
        "get": lambda asked: answers.get(asked, []),
        "status": lambda *_, **__: "status",
        "api_status": lambda *_, **__: [],
        "launch": rent,
        "stream_and_get": lambda *_, **__: {"default": ["Lambda"]},
    }
    for name, stub in stubs.items():
        setattr(sky, name, stub)
    sdk.check = lambda *_, **__: "check"
    sky.jobs.queue_v2 = lambda *_, **__: "jobs"


def main() -> int:
    """Follow both values until SkyPilot is asked for the machine, where this process ends."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "SKYMARK_CACHE": f"{home}/cache"}
        os.chdir(home)
        shutil.copytree(CATALOGUES, Path(home, ".sky/catalogs/v8"))
        profile = Path(home, "followed.toml")
        profile.write_text(PROFILE)
        from skymark.cli.main import main as skymark
        from skymark.cloud.sky import catalogue
        from skymark.cloud.sky.client import sdk

        values: dict[str, object] = {"profile": str(profile), "--max-cost": CEILING_USD}
        words = ["launch", str(profile), "--infra", "lambda", "--max-cost", str(CEILING_USD)]
        with followed(values) as passed:

            def rent(*_: object, **__: object) -> None:
                sys.setprofile(None)
                shutil.rmtree(home)
                os._exit(report(passed))  # else the machine would be ended

            stand_in(sdk(), rent)
            catalogue.told_prices_usd = lambda provider: {}
            skymark([*words, "--yes"])
    report(passed)
    return 1  # nothing was rented


if __name__ == "__main__":
    sys.exit(main())
