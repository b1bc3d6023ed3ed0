"""Messages between engine and worker: typed on both sides, one line of JSON each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from skymark.execute.messages import (
    EVENTS,
    REQUESTS,
    Begin,
    End,
    Failed,
    Go,
    Judged,
    JudgeRound,
    Measure,
    Measured,
    Prepare,
    Prepared,
    Ready,
    TimedRegionBegins,
    TimedRegionEnds,
    line_of,
)
from skymark.model.machine import GpuUse
from skymark.model.record import Cause, Resources, RoundResult, Verification
from skymark.suite.contract import ObservedRound
from tests.scripted_suite import EFFORT, cell_of

CELL = cell_of("a@1.0", workers=2, lines="one\ntwo\u2028three", share=0.1)
LOG = Path("/runs/r/logs/a b.log")
RESULT = RoundResult(
    round=3,
    started_at=datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC),
    setup_s=0.1,
    timed_ns=2**62,
    metrics={"steps_per_s": 1 / 3, "steps": 7},
    resources=Resources(cpu_s=0.5, peak_pss_bytes=2**40, processes=3),
    samples={"step_ns": (1, 2**62), "loss": (0.1, 1e-300)},
    verification=Verification(passed=False, cause=Cause(kind="lie", message="it\nlied")),
    conditions={"mood": "calm", "cold": True, "level": 1, "share": 0.5},
)

ALL_REQUESTS = [
    Begin(cell=CELL, platform="gpu"),
    Prepare(cell=CELL, log=LOG),
    Measure(cell=CELL, round=3, effort=EFFORT, log=LOG),
    JudgeRound(
        cell=CELL,
        claim=RESULT,
        evidence=Path("/proc/7/fd/3"),
        seen=ObservedRound(wall_s=0.5, resources=Resources(cpu_s=0.1)),
        log=LOG,
    ),
    Go(),
    Go(seen=Resources(cpu_s=0.0, peak_pss_bytes=5, processes=1)),
    Go(seen=Resources(gpus=(GpuUse(index=0, name="A GPU", power_w=0.5, samples=2),))),
    End(),
]
ALL_EVENTS = [
    Ready(),
    Prepared(),
    TimedRegionBegins(exclude=(1, 2)),
    TimedRegionEnds(),
    Measured(result=RESULT, versions={"library": "1.0+local"}),
    Measured(result=RESULT, versions={}, evidence=Path("/proc/7/fd/3")),
    Judged(verification=RESULT.verification),
    Failed(kind="RuntimeError", message="it broke\non two lines"),
]


def name_of(message):
    return type(message).__name__


@pytest.mark.parametrize("request_", ALL_REQUESTS, ids=name_of)
def test_a_request_comes_back_as_it_was_from_one_line(request_):
    line = line_of(request_)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert REQUESTS.validate_json(line) == request_
    assert REQUESTS.validate_json(line.encode()) == request_


@pytest.mark.parametrize("event", ALL_EVENTS, ids=name_of)
def test_an_event_comes_back_as_it_was_from_one_line(event):
    line = line_of(event)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert EVENTS.validate_json(line.encode()) == event


def test_a_cell_has_the_same_hash_on_both_sides():
    assert REQUESTS.validate_json(line_of(Begin(cell=CELL, platform="gpu"))).cell.hash == CELL.hash


def test_a_worker_of_an_earlier_revision_is_told_how_to_leave():
    assert json.loads(line_of(Begin(cell=CELL, platform="cpu")))["leaves_at_once"] is False


@pytest.mark.parametrize("message", [*ALL_REQUESTS, *ALL_EVENTS], ids=name_of)
def test_what_one_side_says_the_other_never_takes_for_its_own(message):
    adapter = EVENTS if message in ALL_REQUESTS else REQUESTS
    with pytest.raises(ValidationError):
        adapter.validate_json(line_of(message))


def test_what_is_missing_is_left_out_so_that_earlier_revisions_read_what_they_know():
    assert json.loads(line_of(Go(seen=Resources(cpu_s=0.5)))) == {
        "do": "go",
        "seen": {"cpu_s": 0.5},
    }


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"measured\n",
        b"[]\n",
        b"null\n",
        b"\xff\xfe\n",
        b'{"event": "brewed"}\n',
        b'{"event": "ready", "cups": 2}\n',
        b'{"event": "measured"}\n',
        b'{"event": "measured", "result": {}, "versions": {}}\n',
        b'{"event": "ready"} {"event": "ready"}\n',
        b'{"event": "timed-region-begins", "exclude": ["all"]}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_event_is_refused_and_never_half_read(line):
    with pytest.raises(ValidationError):
        EVENTS.validate_json(line)
