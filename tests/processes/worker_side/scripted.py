"""A worker's side that does what the cell says: measures, lies, fails, dies or hangs.

It stands in for a suite because the engine has to be seen with faults that no library shows on
demand; the process, its pipes and its end are real.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Thread, Timer

from skymark.model.effort import Effort
from skymark.model.errors import LibraryAbsentError, UnsupportedError, UsageError
from skymark.model.machine import Platform
from skymark.model.record import Cause, Cell, RoundResult, Verification
from skymark.suite.contract import ObservedRound, TimedRegion

STEPS = 4
IN_SLICES = ("go on", "go on or die")


class TakenApart:
    """Leaves a file when the interpreter that holds it is taken apart."""

    def __init__(self, file: Path) -> None:
        self.create = partial(os.open, file, os.O_CREAT)

    def __del__(self) -> None:
        self.create()


KEPT: list[TakenApart] = []


class ScriptedRunner:
    """Does what ``cell.settings`` say; implements `skymark.suite.contract.Runner`.

    Settings: ``does`` for every round, or ``round0``, ``round1`` …; ``ms`` and ``versions`` hold
    one value per round, with commas between; ``hands-over`` is what the judge finds.
    ``journal.jsonl`` in the cache notes what was asked. ``ended`` is there when what is registered
    for the process's end has run, ``taken-apart`` when its interpreter was.
    """

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        adapter = cell.adapter
        self.adapter, self.cache = adapter, cache
        self.version = "1"
        (cache / f"{adapter}-begun").touch()
        atexit.register((cache / "ended").touch)
        KEPT.append(TakenApart(cache / "taken-apart"))
        self.forks = adapter.startswith("forks")
        if self.forks:
            self.note("import", cell)
            self.imported = imported(adapter)
        if len(words := adapter.split("-")) > 1 and words[1] in ("jax", "torch"):
            importlib.import_module(words[1])
        if adapter == "fails-to-start":
            raise RuntimeError("no such device")
        if adapter == "dies-at-start":
            os.kill(os.getpid(), signal.SIGKILL)
        if adapter == "dies-at-first-start" and not (cache / "started").exists():
            (cache / "started").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if adapter == "never-starts":
            time.sleep(3600)

    def forked(self, *, first: bool) -> None:
        self.note("forked", first=first)

    def versions(self) -> dict[str, str]:
        return {"library": self.version}

    def prepare(self, cell: Cell) -> None:
        self.note("prepare", cell)
        if cell.settings.get("prepare") == "raise":
            raise ValueError("the data is damaged")
        if cell.settings.get("prepare") == "hang":
            time.sleep(3600)

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        self.note("measure", cell, round)
        settings = cell.settings
        self.version = of_round(str(settings.get("versions", "1")), round)
        does = str(settings.get(f"round{round}", settings.get("does", "measure")))
        helper = subprocess.Popen(["sleep", "3600"]) if does == "help" else None
        begin_s = time.monotonic()
        region.begins(() if helper is None else (helper.pid,), in_slices=does in IN_SLICES)
        inner_begin_s = time.monotonic()
        if does in IN_SLICES:
            self.go_on(may_die=does == "go on or die")
        held = misbehave(does)
        inner_s = time.monotonic() - inner_begin_s
        resources = region.ends()
        outer_s = time.monotonic() - begin_s
        if does in IN_SLICES:
            self.note("sliced", cell, round, slices=region.slices)
        del held  # not before the last sample of its memory
        if "hands-over" in settings:
            self.note("timed", cell, round, inner_s=inner_s, outer_s=outer_s)
            evidence = self.cache / "evidence"
            evidence.write_text(str(settings["hands-over"]))
            if settings["hands-over"] == "what goes with it":
                self.own = evidence.open()
                evidence = Path(f"/proc/{os.getpid()}/fd/{self.own.fileno()}")
                Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
            region.hand_over(evidence)
        if helper is not None:
            helper.kill()
            helper.wait()
        timed_ns = int(of_round(str(settings.get("ms", 100)), round)) * 1_000_000
        step_ns = timed_ns // STEPS
        lie = Cause(kind="dropped-tail", message="the tail is missing")
        return RoundResult(
            round=round,
            started_at=datetime.now(UTC),
            setup_s=0.01,
            timed_ns=timed_ns,
            metrics={
                "steps_per_s": math.nan if does == "divide" else STEPS / timed_ns * 1e9,
                "step_ns": step_ns,
            },
            resources=resources,
            samples={"step_ns": (step_ns,) * STEPS},
            verification=Verification(
                passed=not does.startswith("lie"),
                cause=lie if does.startswith("lie") else None,
                verified_elements=STEPS,
                compared_elements=1,
                counts={"steps": STEPS},
                max_difference=0.25 * round,
            ),
            conditions={"mood": str(settings.get("mood", "calm"))},
        )

    def close(self) -> None:
        self.note("close")
        if self.adapter == "never-closes":
            time.sleep(3600)

    def go_on(self, *, may_die: bool) -> None:
        """Work for a while; the first process that may die does so in the middle."""
        time.sleep(0.4)
        with suppress(FileExistsError):
            if may_die:
                (self.cache / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.4)

    def note(
        self, do: str, cell: Cell | None = None, round: int | None = None, **more: object
    ) -> None:
        """Append a line to the journal."""
        line = {"do": do, "adapter": self.adapter, "pid": os.getpid()}
        line |= {"cell": cell and cell.id, "round": round, **more}
        with (self.cache / "journal.jsonl").open("a") as journal:
            journal.write(json.dumps(line) + "\n")


def imported(adapter: str) -> object:
    """Return what an import leaves in its process, by the end of an adapter's name."""
    match adapter.removeprefix("forks").removeprefix("-with-"):
        case "memory":
            block = bytearray(256 << 20)
            block[::4096] = b"x" * len(block[::4096])
            return block
        case "thread":
            Thread(target=time.sleep, args=(3600,), daemon=True).start()
        case "process":
            return subprocess.Popen(["sleep", "3600"])
        case "connection":
            return socket.socketpair()
        case "work":
            end = time.process_time() + 1.0
            while time.process_time() < end:
                pass
    return None


class ScriptedJudge:
    """Does what the evidence says; implements `skymark.suite.contract.Judge`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        self.cache = cache
        if cell.settings.get("hands-over") == "cannot start":
            raise RuntimeError("no such judge")

    def judge(
        self, cell: Cell, claim: RoundResult, evidence: Path, seen: ObservedRound
    ) -> Verification:
        says = evidence.read_text()
        line = {"pid": os.getpid(), "cell": cell.id, "round": claim.round, "wall_s": seen.wall_s}
        with (self.cache / "judged.jsonl").open("a") as journal:
            journal.write(json.dumps(line) + "\n")
        misbehave(says)
        while says == "what goes with it":
            evidence.stat()  # fails as soon as its owner has been killed
            time.sleep(0.01)
        while says == "wait until b has begun" and not (self.cache / "b-begun").exists():
            time.sleep(0.01)
        if says == "guilty":
            cause = Cause(kind="dropped-tail", message="the tail is missing")
            return Verification(passed=False, cause=cause)
        return Verification(passed=True, verified_elements=7)

    def close(self) -> None:
        (self.cache / "judge-closed").touch()


def of_round(values: str, round: int) -> str:
    """Return the round's value of several with commas between; the last one stands for the rest."""
    parts = values.split(",")
    return parts[min(round, len(parts) - 1)]


STRAY = {
    "scribble": b"Segmentation \xff\xfe fault",
    "babble": b'{"event": "brewed", "cups": 2}',
    "gush": b"x" * (1 << 20),
}
"""Lines that a library writes to a descriptor which it did not open: the engine's."""


def the_engines() -> int:
    """Return the descriptor at which this worker answers: its last pipe that can be written to."""
    pipes = [
        int(one.name)
        for one in Path("/proc/self/fd").iterdir()
        if one.is_symlink() and str(one.readlink()).startswith("pipe:")
    ]
    return max(one for one in pipes if fcntl.fcntl(one, fcntl.F_GETFL) & os.O_WRONLY)


def misbehave(how: str) -> bytearray | None:
    """Do one thing that a worker should not do; nothing for those that `measure` does.

    Returns memory that is to be kept until the end of the timed region.
    """
    if how in STRAY:
        os.write(the_engines(), STRAY[how] + b"\n")
    match how:
        case "raise":
            raise RuntimeError("the library is broken")
        case "ecc":
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        case "refuse":
            raise UsageError("that setting makes no sense here")
        case "absent":
            raise LibraryAbsentError("library is not installed; run: uv pip install library")
        case "unsupported":
            raise UnsupportedError("the library decodes no such images")
        case "exit":
            sys.exit(4)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "leak":
            subprocess.Popen(["sleep", "3600"], start_new_session=True)
        case "lie for want of room" | "wait for want of room":
            print("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'", flush=True)
            time.sleep(3600 if how.startswith("wait") else 0)
        case "print":
            print("a library that talks")
            os.write(1, b'{"event": "measured"}\n')
        case "gush-out":
            print("first", flush=True)
            for _ in range(16):
                os.write(1, b"x" * (1 << 20))
            print("last", flush=True)
        case "turn":
            os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        case "hide":
            # The library closes every descriptor it did not open, as daemons do, and lives on.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            time.sleep(3600)
        case "allocate":
            end = time.process_time() + 0.3
            block = bytearray(256 << 20)
            block[::4096] = b"x" * len(block[::4096])
            while time.process_time() < end:
                pass
            return block
    return None
