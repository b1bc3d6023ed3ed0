"""Ctrl-C while a request is made counts when it is known, so that it can be taken back."""

from __future__ import annotations

import os
import signal

import pytest

from skymark.cloud.lifecycle.queued_jobs import RequestInFlight


def test_ctrl_c_while_a_request_is_made_counts_once_it_is_known():
    made = []

    def call():
        os.kill(os.getpid(), signal.SIGINT)
        made.append("asked")
        return "asked"

    request = RequestInFlight()
    with pytest.raises(KeyboardInterrupt):
        request.make(call)
    assert made == ["asked"]
    assert request._asked == "asked"  # what `take_back` ends


def test_a_second_ctrl_c_counts_at_once():
    def call():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second did not count")

    with pytest.raises(KeyboardInterrupt):
        RequestInFlight().make(call)


def test_what_was_granted_is_not_taken_back():
    before = signal.getsignal(signal.SIGINT)
    request = RequestInFlight()
    assert request.make(lambda: "asked") == "asked"
    request.granted()
    request.take_back()  # would ask SkyPilot, which is not here
    assert signal.getsignal(signal.SIGINT) is before
