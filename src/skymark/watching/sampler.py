"""Samples of a process: the stacks of its threads, and what Linux tells of it.

Stacks are looked at some fifty times a second. A look needs Python's lock (GIL), so its delay tells
how hard that is to get. A file that this kernel or container does not have leaves its figures out.
"""

from __future__ import annotations

import _thread
import linecache
import os
import re
import sys
from time import perf_counter_ns
from types import FrameType
from typing import Any, Callable

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOOPBACK = "lo"


def text_of(path: str) -> str:
    """Return a file's text, or nothing where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def usable_cores() -> float:
    """Return the cores that this process may use: of its affinity and its cgroup's quota."""
    cores = float(len(os.sched_getaffinity(0)))
    quota = text_of("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        return min(cores, int(quota[0]) / int(quota[1]))
    quota = text_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").split()
    period = text_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us").split()
    if quota and period and int(quota[0]) > 0:
        return min(cores, int(quota[0]) / int(period[0]))
    return cores


def run_delay_ns(thread: int) -> int | None:
    """Return the time that a thread of this process stood in line for a core, in ns."""
    fields = text_of(f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[1]) if len(fields) > 1 else None


def thread_cpu_ns(thread: int) -> int | None:
    """Return the CPU time of a thread of this process, in ns."""
    fields = text_of(f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[0]) if fields else None


def cpu_by_thread() -> dict[str, int]:
    """Return the CPU time of this process's threads in ns, by their names without numbers."""
    times: dict[str, int] = {}
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return times
    for thread in threads:
        cpu = thread_cpu_ns(int(thread))
        name = text_of(f"/proc/self/task/{thread}/comm").strip().rstrip("0123456789")
        if cpu is not None:
            times[name] = times.get(name, 0) + cpu
    return times


def _process() -> dict[str, int]:
    times = os.times()
    facts = {"cpu_ns": int((times.user + times.system) * 1e9)}
    main = os.getpid()
    fields = text_of(f"/proc/self/task/{main}/schedstat").split()
    if len(fields) > 1:
        facts["main_cpu_ns"], facts["main_run_delay_ns"] = int(fields[0]), int(fields[1])
    for line in text_of("/proc/self/io").splitlines():
        name, _, value = line.partition(":")
        if name in {"rchar", "read_bytes"}:
            facts[name] = int(value)
    pages = text_of("/proc/self/statm").split()
    if len(pages) > 1:
        facts["memory_bytes"] = int(pages[1]) * os.sysconf("SC_PAGESIZE")
    return facts


def _machine() -> dict[str, int]:
    facts = {}
    ticks = [int(field) for field in text_of("/proc/stat").partition("\n")[0].split()[1:9]]
    if len(ticks) > 4:
        facts["all_ns"] = sum(ticks) * 10**9 // TICKS_PER_S
        facts["idle_ns"] = (ticks[3] + ticks[4]) * 10**9 // TICKS_PER_S
    pressure = text_of("/proc/pressure/io").partition("\n")[0].rpartition("total=")[2]
    if pressure.isdigit():
        facts["io_pressure_ns"] = int(pressure) * 1000
    for line in text_of("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            facts["available_bytes"] = int(line.split()[1]) * 1024
    for line in text_of("/proc/net/dev").splitlines()[2:]:
        name, _, counts = line.partition(":")
        kind = "loopback_bytes" if name.strip() == LOOPBACK else "network_bytes"
        facts[kind] = facts.get(kind, 0) + int(counts.split()[0])
    try:
        shared = os.statvfs("/dev/shm")  # noqa: S108  # its room is asked for, no file is made
    except OSError:
        return facts
    facts["shm_bytes"] = shared.f_blocks * shared.f_frsize
    facts["shm_free_bytes"] = shared.f_bavail * shared.f_frsize
    return facts


def snapshot() -> dict[str, Any]:
    """Return counters of this process and its machine, with the time."""
    return {"time_ns": perf_counter_ns(), **_process(), **_machine()}


INTERVAL_S = 0.019
"""No divisor of usual periods, so that no loop stays in step with it."""
RECENT = 8
"""Looks over which a delay is averaged."""
DEEPEST = 60
MOST_PLACES = 400
"""Kinds of stacks that are told apart; more are counted without their place."""
FLUSH_NS = 500_000_000
FLUSH_DELAYS = 3000
"""Mean delays of a look that lie between two flushes at least. A flush takes the lock some 150
times, and while it waits there are no looks."""
HERE = os.path.dirname(os.path.abspath(__file__))

IDLE = "idle"
BY_FILE = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"/multiprocessing/(queues|connection|reduction)|/torch/multiprocessing/", "hand-over"),
        (r"/torch/utils/data/_utils/(collate|pin_memory)|/data_collator\.py", "collate"),
        (
            r"/PIL/(ImageFile|\w+ImagePlugin)|/torchvision/io/|/imageio|/(simple|turbo)?jpeg|/av/|/decord/",
            "decode",
        ),
        (r"/torchcodec/|/soundfile|/json/decoder|/csv\.py|/datasets/features/", "decode"),
        (r"/PIL/|/torchvision/transforms|/albumentations|/kornia|/skimage|/scipy/", "transform"),
        (r"/tokenization|/tokenizers/|/torchaudio/transforms", "transform"),
        (r"/(h5py|zarr|lmdb|fsspec|s3fs|gcsfs|boto3|botocore|urllib3?|requests|aiohttp)/", "read"),
        (r"/http/|/(zipfile|tarfile|gzip|bz2|lzma|socket|ssl|pathlib)[./]|/tariterators", "read"),
        (r"/pyarrow/|/safetensors/|/numpy/lib/.*npyio", "read"),
    )
)
"""Stage by the path of a stack's file."""
BY_NAME = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"collate|pad_batch|stack_batch|to_batch", "collate"),
        (r"decode|parse|imread|unpack|loads$|decompress", "decode"),
        (r"augment|transform|normali[sz]e|resize|crop|tokeni[sz]e|preprocess|encode", "transform"),
        (r"^_?(read|load|open|fetch|download)", "read"),
        (r"send_to_device|move_data_to_device|batch_to_device|to_device", "copy"),
    )
)
"""Stage by the name of a function."""
BY_LINE = tuple(
    (re.compile(pattern), stage)
    for pattern, stage in (
        (r"\.(to|cuda)\(|device_put\(", "copy"),
        (r"\b(imread|imdecode|decode\w*|Image\.open)\(", "decode"),
        (r"\b(np|numpy)\.(load|fromfile|memmap)\(|\.read\w*\(|\bopen\(|\bpread\w*\(", "read"),
        (r"\b(np|numpy|torch)\.(stack|concatenate|cat)\(", "collate"),
    )
)
"""Stage by the text of the line at the end of a stack."""
WAITING = re.compile(
    r"/(threading|queue|selectors|subprocess|socketserver)\.py$|/concurrent/futures/"
    r"|/ray/_private/|/asyncio/|/multiprocessing/(popen_fork|synchronize|util)"
)
"""Files whose functions at the end of a stack only wait for others."""
LISTENS = {"accept", "_recv"}
"""Functions at the end of a stack that wait for another process: a server's, and a pool's."""
LIBRARIES = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")
WORKER = re.compile(r"/multiprocessing/process\.py$")
"""File at the beginning of a worker's own stack: under it a fork has the stack of its parent."""


def stage_of(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str | None:
    """Return the stage of the first rule that a path, a name or a line of a program follows."""
    return next((stage for pattern, stage in rules if pattern.search(text)), None)


class Classifier:
    """Stage and place of stacks, remembered by their code."""

    def __init__(self) -> None:
        self._by_code: dict[object, tuple[str | None, bool]] = {}

    def _known(self, frame: FrameType) -> tuple[str | None, bool]:
        """Return a frame's stage by file or name, and whether it is the user's own code."""
        code = frame.f_code
        known = self._by_code.get(code)
        if known is None:
            own = not LIBRARIES.search(code.co_filename)
            stage = stage_of(code.co_name, BY_NAME) if own else stage_of(code.co_filename, BY_FILE)
            known = self._by_code[code] = (stage, own)
        return known

    def classify(self, frame: FrameType) -> tuple[str, str]:
        """Return the stage of a stack, "" for an unknown one, and its place in the user's code."""
        if frame.f_code.co_name in LISTENS or WAITING.search(frame.f_code.co_filename):
            return IDLE, ""
        stage: str | None = None
        where = ""
        current: FrameType | None = frame
        for _ in range(DEEPEST):
            if current is None:
                break
            code = current.f_code
            if code.co_name == "_bootstrap" and WORKER.search(code.co_filename):
                break
            if not code.co_filename.startswith(HERE):
                known, own = self._known(current)
                if own:
                    where = where or f"{code.co_name} ({os.path.basename(code.co_filename)})"
                    line = linecache.getline(code.co_filename, current.f_lineno)
                    known = stage_of(line, BY_LINE) or known
                if stage is None and known is not None:
                    stage = known
                if stage is not None and where:
                    break
            current = current.f_back
        return stage or "", where


class Sampler:
    """A thread that looks at the stacks of all others until it is stopped.

    The program's list of threads does not have it, since it is no `threading.Thread`.
    """

    def __init__(self, phase: Callable[[int], str], flush: Callable[[], None]) -> None:
        """Prepare.

        Args:
            phase: of a thread's number: "wait" or "step" for the loop's thread, else "work".
            flush: called twice a second at most, in this thread.
        """
        self._phase = phase
        self._flush = flush
        self._classifier = Classifier()
        self._stop: _thread.LockType | None = None
        self._done: _thread.LockType | None = None
        self._native = 0
        self.clear()

    def clear(self) -> None:
        """Forget all looks and the thread, as in a process that was forked."""
        self.forget()
        self._stop = self._done = None

    def forget(self) -> None:
        """Forget all looks."""
        self.counts: dict[tuple[str, str, str], int] = {}
        self.looks = 0
        self.late_ns = 0
        self.active = 0

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        return self._stop is not None

    def start(self) -> None:
        """Start the thread, if it is not there."""
        if self._stop is not None:
            return
        self._stop, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._stop.acquire()
        self._done.acquire()
        _thread.start_new_thread(self._run, (self._stop, self._done))

    def stop(self) -> None:
        """End the thread, and return when the system has taken it away: a fork may follow."""
        stop, done, self._stop, self._done = self._stop, self._done, None, None
        if stop is None or done is None:
            return
        stop.release()
        done.acquire(timeout=1)
        for _ in range(200):
            if not text_of(f"/proc/self/task/{self._native}/stat"):
                return
            os.sched_yield()

    def _run(self, stop: _thread.LockType, done: _thread.LockType) -> None:
        me = _thread.get_ident()
        self._native = _thread.get_native_id()
        flushed, mean_late_ns = perf_counter_ns(), 0.0
        delay = run_delay_ns(self._native) or 0
        try:
            while True:
                before = perf_counter_ns()
                if stop.acquire(timeout=INTERVAL_S):
                    return
                now = perf_counter_ns()
                late_ns = max(now - before - int(INTERVAL_S * 1e9), 0)
                self.late_ns += late_ns
                mean_late_ns += (late_ns - mean_late_ns) / RECENT
                self._look(me)
                if now - flushed > max(FLUSH_NS, FLUSH_DELAYS * mean_late_ns):
                    flushed = now
                    delayed = run_delay_ns(self._native) or 0
                    self.late_ns, delay = max(self.late_ns - delayed + delay, 0), delayed
                    self._flush()
        except Exception:  # noqa: S110  # the program must go on as without a watch
            pass
        finally:
            done.release()

    def _look(self, me: int) -> None:
        self.looks += 1
        for thread, frame in sys._current_frames().items():  # noqa: SLF001  # there is no other way
            if thread == me:
                continue
            phase = self._phase(thread)
            if not phase:
                continue
            stage, where = self._classifier.classify(frame)
            if phase == "work" and (stage == IDLE or not (stage or where)):
                continue  # a thread of a library's own, or one that waits
            if stage != IDLE:
                self.active += 1
            key = (phase, stage, where)
            if key not in self.counts and len(self.counts) >= MOST_PLACES:
                key = (phase, stage, "")
            self.counts[key] = self.counts.get(key, 0) + 1
