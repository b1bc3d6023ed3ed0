"""Kept rows that stand in for the real data of a run, told by variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILES = "rows-*.parquet"
KEPT_VARIABLE = "SKYMARK_CACHE_ROWS"
"""Directory of the files."""
OF_VARIABLE = "SKYMARK_CACHE_ROWS_OF"
"""Fingerprint of the data that they stand in for: no run of other data takes them for its own."""


def stand_in_variables(fingerprint: str, directory: Path) -> dict[str, str]:
    """Return the variables by which a run reads kept rows in place of its data."""
    return {KEPT_VARIABLE: str(directory), OF_VARIABLE: fingerprint}


def stand_in(fingerprint: str | None, variables: Mapping[str, str]) -> list[Path]:
    """Return the files that stand in for data of a fingerprint, in order; none where none do."""
    directory = variables.get(KEPT_VARIABLE)
    if directory is None or fingerprint is None or variables.get(OF_VARIABLE) != fingerprint:
        return []
    return sorted(Path(directory).glob(FILES))
