"""Calls of asynchronous clients, and the end of the thread that makes them."""

from __future__ import annotations

import subprocess
import sys
import threading

from skymark.store.bucket.calls import CLOSED, Calls


async def answer():
    return 1


def test_closing_waits_for_a_thread_that_is_handing_over_its_answer(monkeypatch):
    calls = Calls(answer_s=1)
    assert calls.run(answer()) == 1
    loop = calls._loop
    entered, may_go_on = threading.Event(), threading.Event()
    wake = loop._write_to_self

    def wake_late():
        if threading.current_thread() is late:
            entered.set()
            assert may_go_on.wait(30)
        wake()

    monkeypatch.setattr(loop, "_write_to_self", wake_late)
    late = threading.Thread(target=loop.call_soon_threadsafe, args=(int,))
    late.start()
    assert entered.wait(30)
    closing = threading.Thread(target=calls.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    may_go_on.set()
    closing.join(30)
    assert not closing.is_alive()
    late.join(30)


def test_what_nobody_closed_is_closed_when_the_interpreter_ends():
    program = """
import asyncio, atexit
from skymark.store.bucket.calls import CLOSED, Calls

calls = Calls(answer_s=1)

@atexit.register  # runs after what is registered later
def late():
    try:
        calls.run(asyncio.sleep(0))
    except Exception as error:
        print(error)

calls.run(asyncio.sleep(0))
"""
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert ended.stdout.decode().strip() == CLOSED
