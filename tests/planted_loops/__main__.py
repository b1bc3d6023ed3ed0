"""Run the planted loops under watch and compare each verdict with its answer.

    python -m tests.planted_loops [NAME …] [--once]
    python -m tests.planted_loops --libraries

The answers stand in `answers.json`. Each loop runs twice: as it is, and as its verdict advises.
`--once` leaves the second run out. The exit status is 1 if fewer than 22 of 24 first causes, or
fewer than 20 of 24 predicted rates, agree.

`--libraries` runs a loop over each library, with a slow decode, which the verdict must name, and
without, where it must name none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.sizes import percent
from skymark.suites.loading.suite import LoadingSuite

HERE = Path(__file__).parent
ANSWERS: dict[str, list[str]] = json.loads((HERE / "answers.json").read_text())
LIBRARIES = {"torch": "pytorch", "tfdata": "tfdata", "grain": "grain", "plain": "pytorch"}
IN_TURN = ("pytorch", "tfdata", "grain", "hf-datasets", "webdataset", "litdata", "ray")
NEEDED_CAUSES = 22
NEEDED_RATES = 20
NEAR = 0.15
SMALL_MEMORY = 'mount -t tmpfs -o size=25m tmpfs /dev/shm && exec "$@"'


def planted(name: str, changes: dict[str, object]) -> dict[str, object]:
    """Run a loop under watch, and return the verdict's JSON."""
    script = (str(HERE / "loops.py"), name, json.dumps(changes))
    small = ("unshare", "--mount", "sh", "-c", SMALL_MEMORY, "sh")
    before = small if name.endswith("-shm") and not changes else ()
    return watched(LIBRARIES[name.partition("-")[0]], script, before)


def watched(slug: str, script: Sequence[str], before: Sequence[str] = ()) -> dict[str, object]:
    """Run a script under watch in the venv of a library, and return the verdict's JSON.

    Its `printed` is what the script printed.
    """
    command = [*before, str(python_of(slug)), *script]
    done = subprocess.run(
        [sys.executable, "-m", "skymark", "watch", "--json", "--", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{' '.join(script)}: no verdict; {done.stderr[-500:]}")
    verdict: dict[str, object] = json.loads(lines[-1])
    return {**verdict, "printed": done.stdout.removesuffix(f"{lines[-1]}\n")}


def python_of(slug: str) -> Path:
    """Return the Python of the venv of a library."""
    return Venvs(cache_directory()).ensure(LoadingSuite().venvs([slug])[slug]).python


def print_libraries() -> int:
    """Print a line per library, and return 1 if a verdict is wrong."""
    wrong = 0
    for slug in IN_TURN:
        causes = []
        for speed in ("slow", "fast"):
            cause = watched(slug, (str(HERE / "libraries.py"), slug, speed))["causes"][0]
            causes.append(f"{cause['stage']}: {cause['cause']}")
        is_right = causes[0].startswith("decode") and causes[1].endswith("none")
        wrong += not is_right
        print(f"{slug:12} {'right' if is_right else 'WRONG'}  {'; '.join(causes)}", flush=True)
    return int(wrong > 0)


def main() -> int:
    """Print a line per loop and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ANSWERS))
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--libraries", action="store_true")
    options = parser.parse_args()
    if options.libraries:
        return print_libraries()
    right = near = 0
    for name in options.names:
        verdict = planted(name, {})
        cause = verdict["causes"][0]
        is_right = [cause["stage"], cause["cause"]] == ANSWERS[name]
        right += is_right
        waits = f"{percent(verdict['waiting'])} waits, {verdict['batches_per_s']:.3g}/s"
        told = f"{name:24} {'right' if is_right else 'WRONG'}  {cause['stage']}: {cause['cause']}"
        line = f"{told:60} {waits}"
        if not options.once:
            said = cause["rate"] or verdict["batches_per_s"]
            after = planted(name, cause["settings"] or {"free": True})["batches_per_s"]
            near += abs(after - said) <= NEAR * said
            line += f"; {said:.3g}/s said, {after:.3g}/s after"
        print(line, flush=True)
    count = len(options.names)
    print(f"first causes right: {right} of {count}; rates as said: {near} of {count}")
    return int(right < min(NEEDED_CAUSES, count) or (near < NEEDED_RATES and not options.once))


if __name__ == "__main__":
    sys.exit(main())
