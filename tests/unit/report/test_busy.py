"""What the table of busy machines is counted from: a log of what a program took, and rounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from skymark.model.record import MachineUse
from skymark.rundir.reader import open_run
from tests.busy import Truth, named

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def truth(tmp_path) -> Truth:
    """A program that took a core in the first ten of twenty seconds; the last line is cut."""
    begin_s = BEGIN.timestamp()
    lines = [f"[{begin_s + second}, {min(second, 10)}]" for second in range(21)]
    log = tmp_path / "log"
    log.write_text("\n".join([*lines, "[17"]))
    return Truth.of(log)


@pytest.mark.parametrize(
    ("after_s", "seconds", "share"),
    [(0, 10, 0.5), (10, 10, 0.0), (5, 10, 0.25), (2.25, 0.5, 0.5), (-5, 5, 0.0), (30, 5, 0.0)],
)
def test_the_share_of_a_time_is_what_the_log_says(truth, after_s, seconds, share):
    began_at = BEGIN + timedelta(seconds=after_s)
    assert truth.share_of(began_at, seconds, cores=2) == pytest.approx(share)


def test_rounds_are_counted_by_the_truth_and_not_by_their_own_note(make, tmp_path, truth):
    uses = [
        MachineUse(
            began_at=BEGIN + timedelta(seconds=at),
            wall_s=2.0,
            cores=2,
            others_cores=others,
            most_share=0.05,
        )
        for at, others in ((2, 1.0), (4, 0.0), (12, 0.0), (14, 1.0))
    ]
    rounds = [
        one.model_copy(update={"machine": use})
        for one, use in zip(make.rounds_of(1000, 4), uses, strict=True)
    ]
    records = [make.measured(make.cell("TAB-1", "numpy"), rounds)]
    run = open_run(make.write_run(tmp_path / "run", records))
    assert named(run, truth, least=1.0) == (1, 2)
    assert named(run, truth, least=-1.0, most=0.5) == (1, 2)
