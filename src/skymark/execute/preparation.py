"""Preparation of a run's cells: refusals, venvs, accelerators and data, before the first round."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from skymark.cache.sharing import fetching_alone
from skymark.execute.accelerator import no_accelerator
from skymark.execute.asking import Asker, Question, answers, question_of
from skymark.execute.measurer import HOST_ONLY, Measurer
from skymark.execute.process import WorkerError, WorkerProcess
from skymark.execute.seen_devices import TIMEOUT_S as SEE_TIMEOUT_S
from skymark.execute.seen_devices import SeenDevices
from skymark.machine.cgroup import room_here, shortage
from skymark.machine.disk import write_back
from skymark.model.errors import UsageError, VenvBuildError
from skymark.model.record import Cause, Cell, Record, Status, Stop

PREPARE_TIMEOUT_S = 1800.0
"""Time to generate, download or convert the data of one cell."""


def prepare(measurer: Measurer, is_to_run_again: Callable[[Record], bool]) -> None:
    """Prepare the cells of a run for their first round.

    Args:
        measurer: of the run.
        is_to_run_again: whether a cell with an earlier record is measured again. A cell that
            could not be set up always is.

    Raises:
        UsageError: workers run an earlier revision, which speaks another protocol; or no venv could
            be made without a network.
    """
    measurer.open.take_up(is_to_run_again)
    _refuse(measurer)
    _build_venvs(measurer)
    _look_for_accelerators(measurer)
    if measurer.interpreters.package is not None:
        _require_answer(measurer)
    _make_data(measurer)


def _refuse(measurer: Measurer) -> None:
    """End the cells that cannot be run, by the plan or on this machine."""
    room, suite = room_here(), measurer.suite
    for unfinished in list(measurer.open.by_id.values()):
        planned, cell = unfinished.planned, unfinished.planned.cell
        if planned.refusal is not None:
            measurer.end(cell, *planned.refusal)
        elif (cause := suite.absence(cell)) is not None:
            measurer.end(cell, Status.SKIPPED, cause)
        elif (cause := shortage(suite.need(cell), room)) is not None:
            measurer.end(cell, Status.FAILED, cause, Stop.FAILED)


def _build_venvs(measurer: Measurer) -> None:
    """Make the venvs of all groups, and end the cells whose venv could not be made.

    Raises:
        UsageError: no venv could be made, because no network reaches the package index.
    """
    suite, interpreters, groups = measurer.suite, measurer.interpreters, measurer.open.groups()
    failed: dict[str, VenvBuildError] = {}
    for group, cells in groups.items():
        try:
            measurer.pythons[group] = interpreters.of_venv(suite.venv(cells[0]))
        except VenvBuildError as fault:
            failed[group] = fault
    offline = [group for group, error in failed.items() if error.is_offline]
    if offline and len(offline) == len(groups) and not measurer.open.records:
        adapters = ", ".join(dict.fromkeys(groups[group][0].adapter for group in offline))
        raise UsageError(
            "nothing was measured: no network reaches the package index, which has the packages "
            f"of {adapters}; connect this machine, and repeat the command"
        )
    for group, error in failed.items():
        cells = groups[group]
        platform = interpreters.platform
        options = "" if platform == "cpu" else f" --platform {platform}"
        action = f"skymark env build {suite.adapter_reference(cells[0])}{options}"
        message = f"{error}: {error.log_tail}"
        if error.is_offline:
            action += ", on a machine with a network and the same SKYMARK_CACHE"
            message = f"{error}: no network reaches the package index"
        cause = Cause(kind="venv", message=message, action=action)
        for cell in cells:
            measurer.run.write_log(cell, error.log_tail)
            measurer.end(cell, Status.FAILED, cause, Stop.FAILED)


def _look_for_accelerators(measurer: Measurer) -> None:
    """End the cells whose library would fall back to the CPU; record accelerators of the rest."""
    platform = measurer.interpreters.platform
    if platform == "cpu":
        return
    groups = measurer.open.groups()
    askers: dict[Question, list[Asker]] = defaultdict(list)
    for group, cells in groups.items():
        if (library := measurer.suite.device_library(cells[0], platform)) is None:
            for cell in cells:
                measurer.open[cell].accelerator = HOST_ONLY
            continue
        asker = Asker(group, library, partial(measurer.worker_beside, group, cells[0]))
        askers[question_of(library, measurer.pythons[group])].append(asker)
    known = measurer.interpreters.seen
    seen: Mapping[Question, SeenDevices] = known
    if waiting := {
        question: asking for question, asking in askers.items() if question not in known
    }:
        names = ", ".join(dict.fromkeys(question.library for question in waiting))
        measurer.observer.stage(f"asking {names} for the {platform}")
        told = answers(waiting, max(SEE_TIMEOUT_S, measurer.effort.cell_timeout_s))
        known.update({question: answer for question, answer in told.items() if answer.names})
        seen = {**known, **told}
    for question, asking in askers.items():
        if (answer := seen.get(question)) is None:
            continue  # no worker started; the start for the rounds tells why
        for asker in asking:
            if asker.library.measured in answer.absent:
                continue  # the worker tells how to install it
            for cell in groups[asker.group]:
                measurer.open[cell].accelerator = answer.text
                if answer.fault is not None:
                    cause = no_accelerator(question.library, platform, answer.fault)
                    measurer.end(cell, Status.FAILED, cause, Stop.FAILED)


def _make_data(measurer: Measurer) -> None:
    """Have workers make absent data."""
    cells = [unfinished.planned.cell for unfinished in measurer.open.by_id.values()]
    announce = measurer.observer.stage
    with fetching_alone(os.environ, announce):
        measurer.suite.fetch(cells, measurer.cache, announce)
    unprepared = {cell.id for cell in _unprepared(measurer, cells)}
    waiting = measurer.processes(unprepared)
    while waiting:
        group, cells = next(iter(waiting.items()))
        del waiting[group]
        if left := _unprepared(measurer, cells):  # others' workers made data since
            measurer.serve(group, left, partial(_make_data_of, measurer, left[0], waiting))
    if unprepared:
        announce("waiting until the new data is on the disk")
        write_back(measurer.cache)


def _make_data_of(
    measurer: Measurer,
    first: Cell,
    waiting: Mapping[str, Sequence[Cell]],
    worker: WorkerProcess,
    cell: Cell,
) -> None:
    """Have a cell's data made, while the next process imports its library.

    Args:
        measurer: of the run.
        first: of the worker's cells. Until its data is there, others may wait for the same.
        waiting: cells without data by their group, in order.
        worker: makes the data.
        cell: whose data it is.
    """
    if cell is not first:
        after = (group for group, cells in waiting.items() if _unprepared(measurer, cells))
        if (group := next(after, None)) is not None:
            measurer.start_ahead(group, waiting[group])
    if not _unprepared(measurer, [cell]):
        return  # another cell of the same data came before
    measurer.observer.stage(f"preparing {cell.scenario} ({cell.variant}) for {cell.adapter}")
    worker.prepare(cell, measurer.run.log_path(cell), PREPARE_TIMEOUT_S)


def _unprepared(measurer: Measurer, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells whose data is absent.

    All for an earlier revision, because only its own code can tell.
    """
    if measurer.interpreters.package is not None:
        return cells
    return measurer.suite.unprepared(cells, measurer.cache)


def _require_answer(measurer: Measurer) -> None:
    """Start a worker of an earlier revision, of any adapter, and end it.

    Raises:
        UsageError: no adapter's worker speaks this skymark's protocol.
    """
    faults = []
    for group, cells in measurer.open.groups().items():
        fault = _fault_at_start(measurer, group, cells)
        if fault is None:
            return
        faults.append(f"{fault} ({measurer.run.log_path(cells[0])})")
    if faults:
        raise UsageError(
            "the baseline does not speak this skymark's protocol between engine and worker: "
            f"{faults[0]}. It is too old, or cannot be imported; choose a later revision"
        )


def _fault_at_start(measurer: Measurer, group: str, cells: Sequence[Cell]) -> str | None:
    """Return the fault that keeps a worker from answering; None for any answer."""
    try:
        worker = measurer.worker(group, cells)
    except WorkerError as error:
        return error.cause.message
    try:
        worker.await_ready(measurer.effort.cell_timeout_s)
    except WorkerError as error:
        return None if error.alive else error.cause.message
    finally:
        worker.end()
    return None
