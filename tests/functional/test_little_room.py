"""Machines with too little room: what is said before a run, and what a cell ends with."""

from __future__ import annotations

import re

import pytest

from skymark.model.record import Status


def small_shm(size: str) -> list[str]:
    """Return the words before a command that give it a small /dev/shm."""
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    return ["unshare", "-m", "bash", "-c", mount, "--"]


def few_files(number: int) -> list[str]:
    return ["bash", "-c", f'ulimit -n {number} && exec "$@"', "--"]


@pytest.mark.needs("root")
def test_batches_that_do_not_fit_into_shared_memory_are_named_in_a_plan(skymark):
    asked = ("--scenarios", "CV-1", "--adapters", "pytorch", "numpy", "--set", "batch_size=400")
    ran = skymark("plan", *asked, prefix=small_shm("64m"))
    assert ran.status == 0
    assert re.search(r"loading\.CV-1\.small\.pytorch: /dev/shm\b.*\b67\.1 MB", ran.stderr)
    assert "--shm-size" in ran.stderr
    assert "numpy:" not in ran.stderr


@pytest.mark.libraries
def test_a_cell_that_needs_more_files_than_there_may_be_fails_before_it_is_measured(skymark):
    asked = ("--scenarios", "CV-1:tiny", "--adapters", "pytorch", "--workers", "4")
    more = ("--prefetch", "16", "--set", "batch_size=1", "--effort", "check")
    ran = skymark("run", *asked, *more, prefix=few_files(128))
    (record,) = ran.records.values()
    assert ran.status == 1
    assert (record.status, record.cause.kind) == (Status.FAILED, "few-open-files")
    assert "ulimit -n" in record.cause.action
    assert not record.rounds


@pytest.mark.needs("root")
@pytest.mark.libraries
def test_a_library_that_waits_for_a_batch_which_found_no_room_is_ended_with_the_cause(skymark):
    asked = ("--scenarios", "AU-1:tiny", "--adapters", "pytorch", "--set", "batch_size=40")
    ran = skymark("run", *asked, "--effort", "check", "--timeout", "900", prefix=small_shm("2m"))
    (record,) = ran.records.values()
    assert (record.status, record.cause.kind) == (Status.FAILED, "shared-memory-full")
    assert "2.10 MB" in record.cause.message
