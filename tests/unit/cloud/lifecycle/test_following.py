"""A job is followed to its end, and stopped when its time is up."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field

import pytest

from skymark.cloud.lifecycle.following import follow
from skymark.cloud.machine_script import stall_token
from skymark.cloud.sky.jobs import JobEnd
from skymark.cloud.waiting import clock_s
from skymark.model.errors import CloudError, MachineLostError, UsageError
from skymark.store.storing import stalled


@dataclass
class ScriptedJob:
    """A job whose connection breaks when it is told to. Implements `RunningJob`."""

    shows: list[object] = field(default_factory=list)
    """What `show` returns or raises, in turn; the last again and again."""
    ends: list[object] = field(default_factory=list)
    """What `ended` returns or raises, in turn."""
    stops: list[object] = field(default_factory=list)
    """What `stop` raises, in turn; None where it does what it is asked."""
    lost: bool = False
    name: str = "skymark-test"
    stopped: int = 0

    def show(self, log):
        return _next(self.shows)

    def ended(self):
        return _next(self.ends)

    def is_lost(self):
        return self.lost

    def failure(self):
        return None

    def stop(self):
        if self.stops and (fault := self.stops.pop(0)) is not None:
            raise fault
        self.stopped += 1


def _next(answers):
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, Exception):
        raise answer
    if callable(answer):
        return answer()
    return answer


def followed(job, until_s=None):
    said = []
    return follow(job, io.StringIO(), said.append, until_s, retry_s=0.01), said


AWAY = CloudError("the connection is away")


@pytest.mark.parametrize(
    ("code", "end"), [(0, JobEnd.SUCCEEDED), (100, JobEnd.FAILED), (103, JobEnd.CANCELLED)]
)
def test_the_end_that_the_output_tells_is_the_job_s(code, end):
    assert followed(ScriptedJob(shows=[code]))[0] is end


def test_where_the_output_breaks_off_the_job_is_asked_and_shown_again():
    job = ScriptedJob(shows=[ConnectionError("broken"), 0], ends=[None])
    assert followed(job)[0] is JobEnd.SUCCEEDED


def test_a_job_that_ended_while_its_output_was_away_has_its_own_end():
    job = ScriptedJob(shows=[ConnectionError("broken")], ends=[JobEnd.FAILED])
    assert followed(job)[0] is JobEnd.FAILED


def test_a_job_whose_time_is_up_is_stopped():
    job = ScriptedJob(shows=[lambda: time.sleep(5)], ends=[None])
    assert followed(job, clock_s() + 0.2)[0] is JobEnd.TOO_LATE
    assert job.stopped == 1


def test_a_job_whose_time_is_up_while_the_connection_is_away_is_stopped_too():
    """On a machine that is kept it would go on, and measure together with the next one."""
    job = ScriptedJob(shows=[ConnectionError("broken")], ends=[None])
    assert followed(job, clock_s() + 0.05)[0] is JobEnd.TOO_LATE
    assert job.stopped == 1


def test_a_job_that_cannot_be_stopped_yet_is_stopped_once_the_connection_is_back():
    job = ScriptedJob(
        shows=[ConnectionError("broken")], ends=[AWAY, None], stops=[AWAY, AWAY, None]
    )
    end, said = followed(job, clock_s() - 1)
    assert end is JobEnd.TOO_LATE
    assert job.stopped == 1
    assert sum(f"({AWAY})" in line for line in said) == 3


def test_a_job_that_ended_just_before_its_time_was_up_is_not_too_late():
    job = ScriptedJob(shows=[lambda: time.sleep(5)], ends=[JobEnd.SUCCEEDED])
    assert followed(job, clock_s() + 0.05)[0] is JobEnd.SUCCEEDED
    assert job.stopped == 0


@pytest.mark.parametrize("fault", [AWAY, UsageError("there is none")])
def test_a_machine_that_is_no_longer_there_is_an_error(fault):
    job = ScriptedJob(shows=[ConnectionError("broken")], ends=[fault], lost=True)
    with pytest.raises(MachineLostError, match="no longer there"):
        followed(job)


class UnstoredJob(ScriptedJob):
    """A job that waits for a store, and says so in pieces."""

    def show(self, log):
        said = stalled(stall_token())
        for piece in ("(run, pid=7) ", said[:5], said[5:], " s3://results/one\n"):
            log.write(piece)
        time.sleep(60)


def test_a_job_that_only_waits_for_its_store_is_followed_no_longer():
    log = io.StringIO()
    began_s = time.monotonic()
    assert follow(UnstoredJob(), log, tell=lambda _: None, until_s=None) is JobEnd.UNSTORED
    assert time.monotonic() - began_s < 30
    assert stalled(stall_token()) in log.getvalue()


@pytest.mark.parametrize("token", [None, "0" * 16])
def test_the_text_of_a_job_is_no_word_of_the_run_itself(token):
    class ForgingJob(ScriptedJob):
        def show(self, log):
            log.write(f"skymark: {stalled(token)} s3://results/one: it takes nothing\n")
            return 0

    assert followed(ForgingJob())[0] is JobEnd.SUCCEEDED


def test_of_several_machines_one_may_wait_while_others_measure():
    job = UnstoredJob(ends=[None])
    end = follow(job, io.StringIO(), lambda _: None, until_s=clock_s() + 0.5, alone=False)
    assert end is JobEnd.TOO_LATE
