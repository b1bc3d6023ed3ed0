"""Stacks of threads lead to a stage and to a place in the user's own code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from skymark.watching import sampler
from skymark.watching.sampler import FLUSH_NS, IDLE, INTERVAL_S, Classifier, Sampler

PROCESS = "/usr/lib/python3.11/multiprocessing/process.py"
PILLOW = "/venv/site-packages/PIL/ImageFile.py"
SOCKET = "/usr/lib/python3.11/socket.py"
TABLE = {
    "a library below a function": (
        [("/home/me/train.py", "photo"), (PILLOW, "load")],
        ("decode", "photo (train.py)"),
    ),
    "a function whose name says it": (
        [("/home/me/train.py", "main"), ("/home/me/data.py", "augment_photo")],
        ("transform", "augment_photo (data.py)"),
    ),
    "a worker that was forked from a loop": (
        [("/home/me/train.py", "train"), (PROCESS, "_bootstrap"), (PILLOW, "load")],
        ("decode", ""),
    ),
    "a function in such a worker": (
        [
            ("/home/me/load.py", "load_all"),
            (PROCESS, "_bootstrap"),
            ("/home/me/data.py", "photo"),
        ],
        ("", "photo (data.py)"),
    ),
    "a server that listens": (
        [(PROCESS, "_serve"), (SOCKET, "accept")],
        (IDLE, ""),
    ),
    "a process of a pool between two tasks": (
        [(PROCESS, "_bootstrap"), ("/usr/lib/python3.11/multiprocessing/connection.py", "_recv")],
        (IDLE, ""),
    ),
    "a download": (
        [("/home/me/train.py", "photo"), (SOCKET, "readinto")],
        ("read", "photo (train.py)"),
    ),
    "a thread that waits for others": (
        [("/home/me/train.py", "photo"), ("/usr/lib/python3.11/queue.py", "get")],
        (IDLE, ""),
    ),
}
FUNCTION = """
def {name}(rest, call, sys):
    return rest[0](rest[1:], call, sys) if rest else call(sys._getframe())
"""


def within(levels: list[tuple[str, str]], call: Callable[[FrameType], object]) -> object:
    """Call a function with the last frame of a stack of functions in files."""
    scope: dict[str, Callable[..., object]] = {}
    functions = []
    for path, name in levels:
        exec(compile(FUNCTION.format(name=name), path, "exec"), scope)
        functions.append(scope[name])
    return functions[0](functions[1:], call, sys)


@pytest.mark.parametrize("case", TABLE)
def test_a_stack_has_a_stage_and_a_place(case):
    levels, expected = TABLE[case]
    assert within(levels, Classifier().classify) == expected


class Clock:
    """A clock, and the lock that a sampler sleeps on: each look is late by so much."""

    def __init__(self, late_s: float, looks: int) -> None:
        self.late_s, self.left, self.now_ns = late_s, looks, 0

    def acquire(self, timeout: float) -> bool:
        self.left -= 1
        self.now_ns += int((timeout + self.late_s) * 1e9)
        return self.left < 0

    def release(self) -> None:
        pass


@pytest.mark.parametrize(("late_s", "pauses"), [(0.0, 1), (0.0001, 1), (0.01, 60), (0.1, 600)])
def test_a_sampler_writes_the_less_often_the_harder_pythons_lock_is_to_get(
    monkeypatch, late_s, pauses
):
    written = []
    clock = Clock(late_s, looks=int(4 * FLUSH_NS / 1e9 * pauses / (INTERVAL_S + late_s)))
    monkeypatch.setattr(sampler, "perf_counter_ns", lambda: clock.now_ns)
    monkeypatch.setattr(sampler, "run_delay_ns", lambda _: 0)
    looks = Sampler(phase=lambda _: "", flush=lambda: written.append(clock.now_ns))
    looks._run(clock, clock)
    assert 3 <= len(written) <= 4
    assert looks.late_ns == pytest.approx(late_s * 1e9 * looks.looks)
