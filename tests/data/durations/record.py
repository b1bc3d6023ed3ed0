"""Record durations for tests of splits, from what was timed for other reasons.

    python tests/data/durations/record.py JUNIT.xml RUN-DIRECTORY

The first is of ``pytest --junitxml``: seconds of each test file, and of each test of 10 ms or more.
The second is a run of skymark's: seconds of the rounds of each cell. Besides, the processor seconds
that it takes to compile each of skymark's modules.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from time import process_time
from xml.etree import ElementTree as ET

from skymark.rundir.history import past_run
from skymark.rundir.reader import open_run

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src" / "skymark"
SHORTEST_S = 0.01


def write(name: str, seconds: list[float], shortest_s: float = SHORTEST_S) -> None:
    rounded = [round(one, 4) for one in seconds if one >= shortest_s]
    (HERE / f"{name}.json").write_text(json.dumps(rounded) + "\n")


def compile_s(path: Path) -> float:
    source, begun = path.read_text("utf-8"), process_time()
    compile(source, path.name, "exec")
    return process_time() - begun


def main(junit: str, run: str) -> None:
    by_file: Counter[str] = Counter()
    tests: list[float] = []
    for case in ET.parse(junit).iter("testcase"):
        tests.append(float(case.attrib["time"]))
        by_file[case.attrib["classname"]] += tests[-1]
    write("tests", tests)
    write("test-files", list(by_file.values()))
    opened = open_run(Path(run))
    past = past_run(opened.manifest, opened.records)
    assert past is not None
    write("cells", [one.rounds * one.round_s for one in past.cells.values()])
    write("modules", [compile_s(path) for path in sorted(SOURCE.rglob("*.py"))], 0.0001)


if __name__ == "__main__":
    main(*sys.argv[1:])
