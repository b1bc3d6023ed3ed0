"""Make the table of docs/adapters.md that follows from the adapters' classes.

python -m tests.adapter_table docs/adapters.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from skymark.suites.loading.adapter import ABILITIES, Adapter
from skymark.suites.loading.registry import adapters
from tests.faults.table import renew

COLUMNS = ("adapter", "framework", "seen by", "own builds for", "lacks")


def lacks(cls: type[Adapter]) -> str:
    """Return the abilities that an adapter lacks, each with its reason."""
    lacking = {name: cls.lacks([name]) for name in ABILITIES}
    # That it reads no tar shards, say, is plain from its formats, unless it has more to say.
    plain = f"it reads {', '.join(cls.formats)}"
    said = {name: reasons[0] for name, reasons in lacking.items() if reasons}
    parts = [f"`{name}`: {why}" for name, why in said.items() if plain not in why]
    return "; ".join([*parts, *([f"rows of numbers: {cls.media_only}"] if cls.media_only else [])])


def rows() -> dict[str, list[str]]:
    """Return the columns of each adapter that comes with skymark."""
    own = [cls for _, cls in sorted(adapters().items()) if cls.__module__.startswith("skymark.")]
    return {
        f"`{cls.slug}`": [
            cls.framework or "",
            ", ".join(sorted(set(cls.acceleration.seen_by.values()))),
            ", ".join(cls.acceleration.builds),
            lacks(cls),
        ]
        for cls in own
    }


if __name__ == "__main__":
    renew(Path(sys.argv[1]), "lacks", COLUMNS, list(rows()), rows())
