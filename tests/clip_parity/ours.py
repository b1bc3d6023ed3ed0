"""Score cells with the clip suite's runner, and print the results as lines of JSON.

Runs with the interpreter of the clip suite's environment. Each line of standard input is a cell's
specification.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from skymark.machine.children import leave
from skymark.model.effort import Effort
from skymark.model.record import Cell, Resources
from skymark.suites.clip.encoding.libraries import import_open_clip
from skymark.suites.clip.runner import ClipRunner
from skymark.suites.clip.specification import ClipSpecification

ONCE = Effort(
    name="once", min_rounds=1, max_rounds=1, target_relative_interval=0.1, cell_timeout_s=3600
)


class Region:
    """Timed region whose process nobody samples."""

    def begins(self, exclude: tuple[int, ...] = ()) -> None:
        """Begin."""

    def ends(self) -> Resources:
        """Return nothing."""
        return Resources()


def main() -> None:
    """Score all cells in one process, which begins and ends as a worker does."""
    import_open_clip()
    import open_clip

    open_clip.add_model_config(Path(__file__).with_name("architectures"))
    runner: ClipRunner | None = None
    for line in sys.stdin:
        specification = ClipSpecification.model_validate_json(line)
        cell = Cell(
            suite="clip",
            scenario=specification.source.name,
            variant=specification.task,
            adapter=specification.model.architecture,
            specification=specification.json_content(),
        )
        runner = runner or ClipRunner(cell, Path(sys.argv[1]), "cpu")
        begin = time.perf_counter()
        runner.prepare(cell)
        result = runner.measure(cell, 0, ONCE, Region())
        answer = {
            "metrics": result.metrics,
            "passed": result.verification.passed,
            "cause": str(result.verification.cause),
            "wall_s": time.perf_counter() - begin,
        }
        sys.stderr.write(f"{json.dumps(answer)}\n")
    leave()


if __name__ == "__main__":
    main()
