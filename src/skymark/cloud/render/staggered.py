"""Starts of an array's tasks chained by dependencies, for those who cannot share a cache."""

from __future__ import annotations

from skymark.model.errors import UsageError

PLAIN_READS = "3.78"
SHARED_READS = "1.00"
"""How often 16 jobs read their tar shards, staggered and shared (docs/caches.md, made by
``nox -s cache_table``)."""


def chained_starts(workers: int, minutes: int) -> list[str]:
    """Return the shell lines that submit tasks so that each starts some time after the one before.

    Slurm's ``after:JOB+MINUTES`` counts from the start of a job, or from its cancellation.

    Args:
        workers: tasks of the array.
        minutes: between two starts.

    Raises:
        UsageError: there is only one.
    """
    if workers == 1:
        raise UsageError("--stagger spreads the starts of several tasks; give --split, or leave it")
    return [
        "job=$(sbatch --parsable --array=0 THIS-FILE)",
        f"for task in $(seq 1 {workers - 1}); do",
        f'  job=$(sbatch --parsable --array="$task" --dependency="after:$job+{minutes}" THIS-FILE)',
        "done",
    ]


def why_not(workers: int, minutes: int) -> list[str]:
    """Return the lines that say what chained starts cost."""
    return [
        f"Starts {minutes} min apart, in place of one sbatch. Not recommended: of {workers} tasks",
        f"the last starts {(workers - 1) * minutes} min after the first, and a build of a cache",
        "that takes longer than the delay meets the next one all the same. 16 staggered jobs",
        f"read their source {PLAIN_READS} times, under --cache-policy shared {SHARED_READS} times:",
        "export SKYMARK_CACHE_POLICY=shared before sbatch instead (docs/caches.md).",
    ]
