"""Ceilings of a run's scenarios: what the machine itself can do, measured before the rounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from skymark.execute.measurer import Measurer
from skymark.execute.venvs import Venvs, import_root
from skymark.machine.children import absolute_path, worker_variables
from skymark.machine.private_directory import closed_umask
from skymark.model.effort import LEAST_ROUNDS
from skymark.model.record import Cell, MachineLimits
from skymark.suite.contract import CeilingRequest, Suite

TIMEOUT_S = 60.0
"""It works for about a second; the rest is for imports from a cold disk."""


def measure_limits(measurer: Measurer) -> dict[str, MachineLimits]:
    """Return the limits of the open cells' scenarios by label, each measured in one venv.

    Nothing is measured in runs of one round, beside other processes, or with an earlier revision's
    code.
    """
    suite, earlier = measurer.suite, measurer.interpreters.package is not None
    if measurer.effort.max_rounds < LEAST_ROUNDS or measurer.shared or earlier:
        return {}
    labels: dict[str, dict[Path | None, Cell]] = {}
    for group, cells in measurer.open.groups().items():
        for cell in filter(suite.codec, cells):
            labels.setdefault(cell.label, {}).setdefault(measurer.pythons[group], cell)
    if labels and suite.ceilings is not None:
        measurer.observer.stage("measuring what this machine can decode")
    return {
        label: _first(suite, choices, measurer.interpreters.current, measurer.cache)
        for label, choices in labels.items()
    }


def limits_of_data_here(
    suite: Suite, cells: Iterable[Cell], cache: Path, *, own: bool
) -> dict[str, MachineLimits]:
    """Return the limits of one scenario for each codec by label, if its data is on this disk.

    Args:
        suite: the suite that planned the cells.
        cells: any cells, the preferred ones first.
        cache: directory of the data and the venvs; nothing is made there.
        own: use an adapter's venv if it is made; else the running interpreter.
    """
    venvs, current = Venvs(cache), Path(sys.executable)
    limits: dict[str, MachineLimits] = {}
    codecs: set[str] = set()
    for cell in cells:
        codec, spec = suite.codec(cell), suite.venv(cell)
        if codec is None or codec in codecs or suite.unprepared([cell], cache):
            continue
        of_adapter = None if spec is None or not own else spec.built_for("cpu")
        if of_adapter is not None and not venvs.is_built(of_adapter):
            continue
        python = None if of_adapter is None else venvs.ensure(of_adapter).python
        measured = _first(suite, {python: cell}, current, cache)
        if measured.ceilings:
            codecs.add(codec)
            limits[cell.label] = measured
    return limits


def _first(
    suite: Suite, choices: Mapping[Path | None, Cell], current: Path, cache: Path
) -> MachineLimits:
    """Return what the first venv that has the packages measures; else why the last one did not.

    Args:
        suite: the cells' suite.
        choices: a cell of the same data for each interpreter; None for the current one.
        current: the interpreter beside venvs.
        cache: directory of the data.
    """
    limits = MachineLimits(missing="no venv was made")
    for own, cell in choices.items():
        limits = _asked(suite, own, current, cell, cache)
        if limits.ceilings:
            break
    return limits


def _asked(suite: Suite, own: Path | None, current: Path, cell: Cell, cache: Path) -> MachineLimits:
    if suite.ceilings is None:
        return MachineLimits(missing=f"the suite {suite.name} measures none")
    root = None if own is None else import_root(cache, suite.runner)
    path = absolute_path(os.environ.get("PYTHONPATH", "")) if root is None else str(root)
    try:
        done = subprocess.run(
            [own or current, "-P", "-m", suite.ceilings],
            input=CeilingRequest(cell=cell, cache=cache.absolute()).model_dump_json(),
            env={**worker_variables(), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            umask=closed_umask(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return MachineLimits(missing=f"it took longer than {TIMEOUT_S:g} s")
    if done.returncode != 0:
        tail = " ".join(done.stderr.split())[-300:]
        return MachineLimits(missing=f"status {done.returncode}: {tail}")
    return MachineLimits.model_validate(json.loads(done.stdout.splitlines()[-1]))
