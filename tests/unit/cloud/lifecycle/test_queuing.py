"""Jobs are asked for in order, few at once, and of a refusal nothing on its way is forgotten."""

from __future__ import annotations

import pytest

from skymark.cloud.lifecycle.queued_jobs import IN_FLIGHT, put_in_order
from skymark.cloud.sky.jobs import MachineJob
from skymark.model.errors import CloudError

NAMES = [f"job-{number}" for number in range(12)]


class Scripted:
    """A queue that stands in for SkyPilot's, which refuses nothing on demand."""

    def __init__(self, refuses=(), interrupted_at=None, unanswered=False):
        self.refuses = refuses
        self.interrupted_at = interrupted_at
        self.unanswered = unanswered
        self.asked = []
        self.in_flight = set()
        self.most = 0
        self.taken_back = []

    def request(self, name):
        if name == self.interrupted_at:
            raise KeyboardInterrupt
        self.asked.append(name)
        self.in_flight.add(name)
        self.most = max(self.most, len(self.in_flight))
        return name

    def result(self, asked):
        self.in_flight.discard(asked)
        if asked in self.refuses:
            raise CloudError(f"{asked} was refused")
        return MachineJob("cluster", int(asked.removeprefix("job-")))

    def take_back(self, asked):
        if self.unanswered:
            raise CloudError("away")
        self.taken_back = list(asked)


def put(queue):
    granted = []
    try:
        put_in_order(NAMES, queue, lambda name, job: granted.append((name, job.number)))
    finally:
        assert all(name == f"job-{number}" for name, number in granted)
        queue.granted = [name for name, _ in granted]


def test_jobs_are_asked_for_in_order_and_few_at_once():
    queue = Scripted()
    put(queue)
    assert queue.granted == queue.asked == NAMES
    assert queue.most == IN_FLIGHT


def test_nothing_is_asked_for_after_a_refusal_and_what_was_on_its_way_is_told():
    queue = Scripted(refuses=("job-5", "job-7"))
    with pytest.raises(CloudError, match="job-5 was refused"):
        put(queue)
    assert queue.asked == NAMES[: 5 + IN_FLIGHT]
    assert queue.taken_back == NAMES[5 : 5 + IN_FLIGHT]
    assert queue.granted == [*NAMES[:5], "job-6", "job-8"]


def test_an_interrupt_stops_the_asking_and_accounts_for_what_is_on_its_way():
    queue = Scripted(interrupted_at="job-6")
    with pytest.raises(KeyboardInterrupt):
        put(queue)
    assert queue.granted == queue.asked == NAMES[:6]
    assert queue.taken_back == NAMES[3:6]


def test_a_server_that_is_away_is_not_waited_for():
    queue = Scripted(refuses=("job-0",), unanswered=True)
    with pytest.raises(CloudError, match="job-0 was refused"):
        put(queue)
    assert queue.granted == []
