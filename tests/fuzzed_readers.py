"""Change bytes of small data sets at random, and see what the loading suite's readers say.

    python -m tests.fuzzed_readers --count 100000

Each changed set is planned and imported as a run does. It must give elements, as many as a second
and independent count finds, or a refusal in one message: no error of another kind, no hang.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from skymark.model.data import DataTaken
from skymark.model.errors import DataError
from skymark.suites.loading.cells import specification_of
from skymark.suites.loading.dataset.importing import RealData, import_data
from skymark.suites.loading.registry import scenario_class
from tests.unit.suites.loading.dataset import test_kinds_of_data as seeds

LONGEST_S = 10
SEED = 20_261_127


class Late(BaseException):
    """A reader took longer than `LONGEST_S`."""


@dataclass(frozen=True)
class Seed:
    """A small data set of one file, the scenario that reads it, and an independent count."""

    name: str
    content: bytes
    scenario: str
    elements: Callable[[bytes], int] = lambda content: 1


def headers(content: bytes) -> int:
    """Count the members of a tar archive whose header has the right sum (POSIX, ustar)."""
    count = 0
    for at in range(0, len(content) - 511, 512):
        block = content[at : at + 512]
        said = block[148:156].split(b"\0")[0].strip()
        summed = sum(block) - sum(block[148:156]) + 8 * 32
        is_member = said.isdigit() and block[257:262] == b"ustar" and block[156:157] in b"0\0"
        count += is_member and int(said, 8) == summed
    return count


def lines(content: bytes) -> int:
    """Count the lines that hold anything."""
    return sum(bool(line.strip()) for line in content.decode("utf-8-sig").splitlines())


def rows(content: bytes) -> int:
    """Count the rows that PyArrow's other reader finds."""
    import io

    return len(pq.read_table(io.BytesIO(content)))


def all_seeds() -> list[Seed]:
    """Return a set of each kind of file."""
    shard = seeds.tar(seeds.labelled(range(4)))
    table = seeds.parquet(image=[seeds.jpeg(k) for k in range(4)], label=[0, 1, 0, 1])
    text = "".join(seeds.LINES.splitlines(keepends=True)[:6]).encode()
    images = [Seed(f"0/a.{kind.lower()}", seeds.jpeg(0, kind), "CV-1") for kind in IMAGE_KINDS]
    sounds = [
        Seed(f"0/a.{suffix}", content, "AU-1")
        for suffix, content, said in seeds.SOUNDS.values()
        if said == seeds.ONE
    ]
    clips = [
        Seed(f"0/a.{suffix}", content, "CV-5")
        for suffix, content, said in seeds.CLIPS.values()
        if said.startswith("1 of")
    ]
    return [
        Seed("a.tar", shard, "CV-1", lambda content: (headers(content) + 1) // 2),
        Seed(
            "a.tar.gz",
            gzip.compress(shard),
            "CV-1",
            lambda c: (headers(gzip.decompress(c)) + 1) // 2,
        ),
        Seed("a.parquet", table, "CV-1", rows),
        Seed("a.jsonl", text, "NLP-2", lines),
        Seed("a.jsonl.gz", gzip.compress(text), "NLP-2", lambda c: lines(gzip.decompress(c))),
        Seed("a.json", json.dumps(seeds.ROWS[:6]).encode(), "NLP-2", lambda c: len(json.loads(c))),
        Seed("a.csv", seeds.CSV["commas"][0].encode(), "TAB-1", lambda c: lines(c) - 1),
        *images,
        *sounds,
        *clips,
    ]


IMAGE_KINDS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")


def changed(content: bytes, random: np.random.Generator) -> bytes:
    """Change a file as disks, copies and editors do."""
    data = bytearray(content)
    kind = random.integers(6)
    at, more = (int(random.integers(len(data))) for _ in range(2))
    if kind == 0:
        data[at] ^= int(random.integers(1, 256))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        del data[min(at, more) : max(at, more)]
    elif kind == 3:
        data[at:at] = content[more : more + int(random.integers(1, 600))]
    elif kind == 4:
        size = int(random.integers(1, 64))
        data[at : at + size] = random.bytes(len(data[at : at + size]))
    else:
        for place in random.integers(len(data), size=8).tolist():
            data[place] = int(random.integers(256))
    return bytes(data)


def taken(folder: Path, scenario: str) -> DataTaken | None:
    """Plan and import a folder as a run does.

    Raises:
        DataError: the data is refused.
    """
    cls = scenario_class(scenario)
    real = RealData(str(folder))
    specification, data, _ = specification_of(cls, "tiny", 7, real)
    bound = cls(size=specification.size, seed=7)
    import_data(str(folder), bound, folder.parent / "out", None)
    return data


def outcome(seed: Seed, content: bytes, folder: Path) -> str:
    """Return what became of a changed set: ``refused``, ``taken``, or a fault in words."""
    (path := folder / seed.name).parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    signal.alarm(LONGEST_S)
    try:
        data = taken(folder, seed.scenario)
    except DataError:
        return "refused"
    except Late:
        return f"fault: {seed.name} hangs"
    except Exception as error:
        return f"fault: {seed.name} ends in {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    try:
        counted = seed.elements(content)
    except Exception:
        return "taken"  # what the independent reader refuses, it does not count
    if data is None or data.found != counted:
        return f"fault: {seed.name} has {counted} elements, and is said to have {data}"
    return "taken"


def outcomes(count: int, seed: int = SEED) -> Iterator[str]:
    """Try so many changed sets."""
    random = np.random.default_rng(seed)
    known = all_seeds()

    def late(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            one = known[number % len(known)]
            folder = Path(name) / one.name.replace("/", "-") / "in"
            said = outcome(one, changed(one.content, random), folder)
            yield f"{said} (change {number})" if said.startswith("fault") else said


def main() -> int:
    """Try, print the faults, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    began, found = time.monotonic(), Counter[str]()
    for said in outcomes(asked.count, asked.seed):
        found[said.partition(":")[0]] += 1
        if said.startswith("fault"):
            print(said[:400], flush=True)
    print(dict(found), f"in {time.monotonic() - began:.0f} s")
    return int(found["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
