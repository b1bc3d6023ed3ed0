"""Make the table of docs/reference/images.md: kinds of images × libraries with own decoders.

    python -m tests.image_table docs/reference/images.md [--adapters SLUG …] [--anyway]

ends with status 1 where a library gives other pixels than the reference without being refused.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from skymark.suites.loading.registry import adapters
from tests.faults.table import renew
from tests.image_loaders import REFUSED, SAME
from tests.image_modes import MODES
from tests.image_modes import REFUSED as REFUSED_BY_ALL
from tests.in_library import run_in_library

ROOT = Path(__file__).parents[1]
WORDS = {SAME: "✓", REFUSED: "refused"}


def decoding() -> list[str]:
    """Return the libraries that decode images with their own, and install by themselves."""
    return [slug for slug, cls in adapters().items() if cls.decodes and not cls.install_hint]


def outcomes(slug: str, modes: Sequence[str], *, anyway: bool = False) -> dict[str, str]:
    """Return what comes of images of some modes with a library, in its venv."""
    found: dict[str, str] = {}
    while left := [name for name in modes if name not in found]:
        done = run_in_library(slug, "tests.image_loaders", *left, ANYWAY=str(int(anyway)))
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        found |= dict(json.loads(line) for line in lines)
        if len(lines) < len(left):  # the process died in the next one
            said = done.stderr.strip().splitlines()
            found[left[len(lines)]] = f"ends its process: {said[-1] if said else done.returncode}"
    return found


def kinds_in_words(names: Sequence[str]) -> str:
    """Return kinds of images by their formats, such as ``JPEG: plain; grey<br>PNG: palette``."""
    by_format: dict[str, list[str]] = {}
    for name in names:
        format, _, kind = name.partition(", ")
        by_format.setdefault(format, []).append(kind or "plain")
    return "<br>".join(f"{format}: {'; '.join(kinds)}" for format, kinds in by_format.items())


def by_outcome(rows: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return one row for all kinds of images that each library takes or refuses alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, row in rows.items():
        alike.setdefault(tuple(row), []).append(name)
    return {kinds_in_words(names): row for row, names in alike.items()}


def main() -> None:
    """Renew the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--adapters", nargs="+", default=decoding())
    parser.add_argument("--anyway", action="store_true", help="decode also what is refused")
    asked = parser.parse_args()
    found = {slug: outcomes(slug, list(MODES), anyway=asked.anyway) for slug in asked.adapters}
    wrong = [
        f"{slug}: {name}: {came}"
        for slug, by_mode in found.items()
        for name, came in by_mode.items()
        if came not in WORDS
    ]
    print(*wrong, sep="\n")
    if asked.anyway:
        return
    rows = {
        name: ["✓", *(WORDS.get(found[slug][name], "wrong") for slug in asked.adapters)]
        for name in MODES
    }
    rows |= dict.fromkeys(REFUSED_BY_ALL, ["refused"] * (len(asked.adapters) + 1))
    columns = ("image", "all others", *(f"`{slug}`" for slug in asked.adapters))
    merged = by_outcome(rows)
    renew(asked.page, "images", columns, list(merged), merged)
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
