"""Measured rates of a machine and its disk, which the choice of a policy rests on."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from pydantic import Field

from skymark.cache.conversion import convert
from skymark.cache.recipe import recipe_of
from skymark.leases import Leases
from skymark.model.base import Frozen
from skymark.plain_files import read_regular
from skymark.whole_files import write_whole

MEASURED = "thresholds.json"
"""File of the cache's root that holds what was measured."""
TRIAL_ROWS = 20_000
TRIAL_ROW_BYTES = 1000
TRIAL_LEASES = 20
LEAST_S = 0.01
"""That a difference of two times can tell."""


class Rates(Frozen):
    """Rates of one machine with one disk.

    The defaults are what ``skymark cache plan --measure`` found, twice, on a busy virtual machine
    of 2 cores with a local ext4 disk.
    """

    convert_bytes_per_s: float = Field(default=9e6, gt=0)
    """JSON rows to Parquet."""
    build_bytes_per_s: float = Field(default=20e6, gt=0)
    """JSON rows to a library's Arrow cache, without its start; that of conversion without one."""
    lease_s: float = Field(default=0.008, gt=0)
    """To take a lease and give it back."""
    measured: bool = False
    """Whether they are this machine's."""


def known_rates(root: Path) -> Rates:
    """Return what was measured for a root; the defaults where nothing was."""
    try:
        return Rates.model_validate_json(read_regular(root / MEASURED))
    except (OSError, ValueError):
        return Rates()


def measure_rates(root: Path, python: str | None) -> Rates:
    """Measure the rates on the disk of a root, and note them there (some seconds).

    Args:
        root: directory of the caches.
        python: interpreter that has `datasets`; None for none.

    Raises:
        CacheError: the interpreter has not the library, or the disk is full.
    """
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".measure-") as place:
        trial = Path(place)
        data = trial / "trial.json"
        rows = [{"index": n, "text": "x" * TRIAL_ROW_BYTES} for n in range(TRIAL_ROWS)]
        data.write_text("\n".join(map(json.dumps, rows)))
        size = data.stat().st_size
        recipe = recipe_of((str(data),), needs_library=False)
        begin = time.monotonic()
        with ExitStack() as stack:
            convert(trial, recipe, stack)
        convert_s = time.monotonic() - begin
        build_s = convert_s if python is None else _build_s(trial, data, python)
        rates = Rates(
            convert_bytes_per_s=size / convert_s,
            build_bytes_per_s=size / build_s,
            lease_s=_lease_s(trial),
            measured=True,
        )
    write_whole(root / MEASURED, rates.model_dump_json(indent=1).encode(), durable=False)
    return rates


def _build_s(trial: Path, data: Path, python: str) -> float:
    """Return the seconds that the library takes for the rows, beyond those for a single one."""
    from skymark.cache.library_variables import library_variables

    single = trial / "single.json"
    single.write_text('{"index": 0, "text": ""}')
    took_s = []
    for number, file in enumerate((single, data)):
        asked = recipe_of((str(file),), python=python)
        variables = library_variables(trial / f"built-{number}", asked.folder)
        begin = time.monotonic()
        asked.fill(variables)
        took_s.append(time.monotonic() - begin)
    return max(took_s[1] - took_s[0], LEAST_S)


def _lease_s(trial: Path) -> float:
    leases = Leases(trial / "leases")
    begin = time.monotonic()
    for _ in range(TRIAL_LEASES):
        lease = leases.take(f"trial-{secrets.token_hex(4)}")
        assert lease is not None
        lease.release()
    return (time.monotonic() - begin) / TRIAL_LEASES
