"""Many processes that start at once on the same data: what became of them, and what it took."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cache_table.source import Source

HERE = Path(__file__).parent
SKYMARK = (sys.executable, "-m", "skymark", "cache")
LIMIT_S = 1200.0
NAMES = ("cats", "dogs")
"""Two data sets whose shards have the same names."""


@dataclass(frozen=True)
class Outcome:
    """What became of the processes of one row."""

    processes: int
    failures: int
    wrong_rows: int
    fetched_bytes: int
    source_bytes: int
    whole_reads: float
    """How often the source was read to its end, file by file."""
    first_s: float | None
    """From the start of all to the first batch of the last; None where one had none."""
    cpu_s: float
    """Of all processes and what they started."""
    peak_bytes: int
    errors: tuple[str, ...]
    """The last lines of those that failed."""


def write_data(directory: Path) -> None:
    """Write 10,000 rows of JSON below a key, and two data sets of 64 tar shards."""
    rows = [{"index": n, "text": f"{n:05d} " * 100} for n in range(10_000)]
    (directory / "rows.json").write_text(json.dumps({"version": 1, "data": rows}))
    for name in NAMES:
        (directory / name).mkdir()
        for shard in range(64):
            with tarfile.open(directory / name / f"{shard}.tar", "w") as file:
                for number in range(20):
                    index = shard * 20 + number
                    content = f"{name} {index}".encode()
                    for key, data in (("txt", content), ("bin", content * 500)):
                        member = tarfile.TarInfo(f"{index:06d}.{key}")
                        member.size = len(data)
                        file.addfile(member, io.BytesIO(data))


def job_of(kind: str, number: int, source: Source, python: str) -> tuple[list[str], list[str]]:
    """Return the command of a job, and the addresses of its data."""
    if kind == "json":
        url = f"{source.address}/rows.json"
        return [python, str(HERE / "read_json.py"), url], [url]
    name = NAMES[number % 2]
    urls = [f"{source.address}/{name}/{shard}.tar" for shard in range(64)]
    return [python, str(HERE / "read_tar.py"), source.address, name], urls


def run_row(
    kind: str, policy: str, processes: int, data: Path, python: str, locks: dict[str, str]
) -> Outcome:
    """Start so many processes at once with a policy, ``plain`` for none, and count.

    Args:
        kind: of data.
        policy: of caches.
        processes: how many.
        data: directory of the sources.
        python: interpreter that has the library.
        locks: variables that make locks lie, or be refused below the caches' directory.
    """
    source = Source(data)
    with tempfile.TemporaryDirectory(prefix="cache-table-") as place:
        root = Path(place)
        variables = {
            **os.environ,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "USE_TORCH": "0",  # 64 processes that import it take more memory than the machine has
            "SKYMARK_CACHE": place,
        }
        variables |= locks and {**locks, "FLOCK_BELOW": place}
        commands = []
        for number in range(processes):
            command, urls = job_of(kind, number, source, python)
            own = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": str(number)}
            field = ["--field", "data"] if kind == "json" else []
            options = [*field, "--cache-root", place, "--python", python]
            if policy == "plain":
                own |= {"HF_DATASETS_CACHE": f"{place}/plain", "WDS_CACHE": f"{place}/plain"}
                (root / "plain").mkdir(exist_ok=True)
            else:
                if policy == "parquet+shared":
                    own["SHARED_PARQUET"] = "1"
                if policy == "prebuilt" and number < (1 if kind == "json" else min(2, processes)):
                    subprocess.run(
                        [*SKYMARK, "build", *urls, *options],
                        env=variables,
                        check=True,
                        capture_output=True,
                    )
                stagger = ["--stagger", "0.5"] if policy == "staggered" else []
                command = [
                    *(*SKYMARK, "use", "--data", *urls, *options),
                    *("--cache-policy", policy, *stagger, "--", *command),
                ]
            commands.append((command, {**variables, **own}))
        watch = Peak(root)
        outcome = _run_all(commands)
        peak = watch.stop()
    source.close()
    errors, first, wrong, cpu_s = outcome
    names = 1 if kind == "json" or processes == 1 else 2
    files = [data / "rows.json"] if kind == "json" else _shards(data, names)
    return Outcome(
        processes=processes,
        failures=len(errors),
        wrong_rows=wrong,
        fetched_bytes=source.sent_bytes,
        source_bytes=sum(file.stat().st_size for file in files),
        whole_reads=source.whole / len(files),
        first_s=None if errors else first,
        cpu_s=cpu_s,
        peak_bytes=peak,
        errors=tuple(errors),
    )


def _shards(data: Path, names: int) -> list[Path]:
    return [path for name in NAMES[:names] for path in (data / name).iterdir()]


def _run_all(
    commands: list[tuple[list[str], dict[str, str]]],
) -> tuple[list[str], float, int, float]:
    begin = time.time()
    before = os.times()
    running = [
        subprocess.Popen(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, variables in commands
    ]
    said = [""] * len(running)

    def collect(number: int) -> None:
        said[number] = running[number].communicate(timeout=LIMIT_S)[0]

    threads = [threading.Thread(target=collect, args=(n,)) for n in range(len(running))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = os.times()
    errors, wrong, first = [], 0, 0.0
    for process, text in zip(running, said, strict=True):
        rows = re.search(r"rows (\d+) wrong (\d+)", text)
        begun = re.search(r"first ([\d.]+)", text)
        if process.returncode or rows is None or begun is None:
            errors.append(text.strip().splitlines()[-1] if text.strip() else "nothing was said")
            continue
        wrong += int(rows[2])
        first = max(first, float(begun[1]) - begin)
    used = after.children_user - before.children_user
    used += after.children_system - before.children_system
    return errors, first, wrong, used


class Peak:
    """Samples the disk that a directory takes."""

    EVERY_S = 0.5

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._over = threading.Event()
        self._peak = 0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """Return the most that it took."""
        self._over.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._over.wait(self.EVERY_S):
            self._peak = max(self._peak, self._size())

    def _size(self) -> int:
        total = 0
        for folder, _, names in os.walk(self._directory):
            for name in names:
                try:
                    total += os.lstat(f"{folder}/{name}").st_blocks * 512
                except OSError:
                    continue
        return total
