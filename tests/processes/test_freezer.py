"""Real process trees that are frozen and thawed, by a control group and by signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skymark.machine.freezer import Freezer, GroupFreezer, SignalFreezer, freezer_of
from skymark.machine.processes import MARKER_VARIABLE, members
from tests.waiting import until

BUSY = """
import os, sys, time
from pathlib import Path
for number in range(3):
    if os.fork() == 0:
        if number == 2:
            os.setpgid(0, 0)
        break
else:
    number = 3
file = Path(sys.argv[1]) / str(number)
while True:
    with file.open("a") as opened:
        opened.write(".")
    time.sleep(0.001)
"""
PROCESSES = 4


class Tree:
    """A process with three children, which all write, one in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.marker = folder, f"tree-{os.getpid()}-{folder.name}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", BUSY, str(folder)],
            env={**os.environ, MARKER_VARIABLE: self.marker},
            start_new_session=True,
        )
        until(lambda: len(self.written()) == PROCESSES)

    def written(self) -> list[int]:
        return [one.stat().st_size for one in sorted(self.folder.iterdir())]

    def writes_on(self) -> bool:
        before = self.written()
        try:
            until(lambda: all(a < b for a, b in zip(before, self.written(), strict=True)))
        except AssertionError:
            return False
        return True

    def end(self) -> None:
        for one in members(self.process.pid, self.marker):
            os.kill(one.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    grown = Tree(tmp_path)
    yield grown
    grown.end()


def freezers(tree: Tree) -> list[Freezer]:
    """The ways that this machine has."""
    chosen = freezer_of(tree.process.pid, tree.marker)
    chosen.close()
    kinds = {type(chosen): chosen, SignalFreezer: None}
    return [
        SignalFreezer(tree.process.pid, tree.marker)
        if kind is SignalFreezer
        else freezer_of(tree.process.pid, tree.marker)
        for kind in kinds
    ]


def test_a_frozen_tree_does_nothing_and_a_thawed_one_goes_on(tree: Tree) -> None:
    for freezer in freezers(tree):
        for _ in range(3):
            freezer.freeze()
            before = tree.written()
            time.sleep(0.05)
            assert tree.written() == before
            freezer.thaw()
            assert tree.writes_on()
        freezer.freeze()
        freezer.close()
        freezer.close()
        assert tree.writes_on()


def test_without_a_control_group_to_write_signals_freeze(tree: Tree, tmp_path: Path) -> None:
    freezer = freezer_of(tree.process.pid, tree.marker, groups=tmp_path / "none")
    assert isinstance(freezer, SignalFreezer)
    freezer.close()


def test_a_control_group_is_gone_after_its_use(tree: Tree) -> None:
    freezer = freezer_of(tree.process.pid, tree.marker)
    freezer.close()
    assert not (isinstance(freezer, GroupFreezer) and freezer.group.exists())


FROZEN_FOR_GOOD = """
import os, signal, sys
from skymark.machine.freezer import SignalFreezer
SignalFreezer(int(sys.argv[1]), sys.argv[2]).freeze()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_tree_that_nobody_could_thaw_any_more_is_ended(tree: Tree) -> None:
    subprocess.run(
        [sys.executable, "-c", FROZEN_FOR_GOOD, str(tree.process.pid), tree.marker], check=False
    )
    tree.process.wait(timeout=30)
    until(lambda: not members(tree.process.pid, tree.marker))
