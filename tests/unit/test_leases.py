"""A lease has one holder at a time, and that of a dead one is taken over."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skymark.leases import EXPIRY_S, Leases, Tenant
from tests.waiting import until

FOREIGN = Tenant(token="theirs", machine="another machine", pid=1, began_s=0.0)

HOLD = """
import sys, time
from pathlib import Path
from skymark.leases import Leases
held = Leases(Path(sys.argv[1])).take("group")
print("held" if held else "not", flush=True)
time.sleep(600)
"""


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def leases(tmp_path, clock):
    return Leases(tmp_path / "claims", clock=clock)


def foreign_claim(leases, generation=1):
    leases.directory.mkdir(exist_ok=True)
    path = leases.directory / f"group.{generation}"
    path.write_text(FOREIGN.model_dump_json())
    return path


def test_a_lease_is_held_until_it_is_released(leases):
    first = leases.take("group")
    assert first is not None
    assert leases.take("group") is None
    assert leases.take("other") is not None
    first.release()
    assert list(leases.directory.glob("group.*")) == []
    assert leases.take("group") is not None


def test_of_many_that_come_at_once_one_gets_it(tmp_path):
    for attempt in range(20):
        with ThreadPoolExecutor(8) as pool:
            each = [Leases(tmp_path / "claims") for _ in range(8)]
            taken = list(pool.map(lambda one, name=f"group-{attempt}": one.take(name), each))
        held = [lease for lease in taken if lease is not None and lease.is_held]
        assert len(held) <= 1
        assert held or Leases(tmp_path / "claims").take(f"group-{attempt}") is not None


def test_a_holder_that_was_killed_is_not_waited_for(leases):
    command = [sys.executable, "-c", HOLD, os.fspath(leases.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert leases.take("group") is None
        assert leases.is_held("group")
        holder.kill()
    assert not leases.is_held("group")
    assert leases.take("group") is not None


def test_a_holder_that_was_killed_is_not_waited_for_although_nobody_has_reaped_it(leases):
    command = [sys.executable, "-c", HOLD, os.fspath(leases.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert leases.take("group") is None
        holder.kill()
        assert holder.stdout.read() == ""  # it has ended
        until(lambda: leases.take("group"))
        assert holder.returncode is None


def test_a_holder_elsewhere_counts_as_dead_when_it_is_long_untouched(leases, clock):
    path = foreign_claim(leases)
    assert leases.take("group") is None
    clock.now_s = EXPIRY_S - 1
    os.utime(path, (10, 10))  # it lives; its own clock may show anything
    assert leases.take("group") is None
    clock.now_s += EXPIRY_S - 1
    assert leases.take("group") is None
    clock.now_s += 2
    assert leases.take("group") is not None


def test_who_stood_still_learns_that_it_was_replaced(leases, clock):
    slow = leases.take("group")
    (leases.directory / "group.2").write_text(FOREIGN.model_dump_json())
    assert not slow.is_held
    slow.release()
    assert (leases.directory / "group.2").exists()


def test_a_claim_that_comes_between_is_left_to_the_other(leases, clock, monkeypatch):
    foreign_claim(leases)
    leases.take("group")
    clock.now_s = EXPIRY_S + 1
    real = Leases._is_dead

    def another_comes(self, path):
        dead = real(self, path)
        foreign_claim(leases, generation=3)
        return dead

    monkeypatch.setattr(Leases, "_is_dead", another_comes)
    assert leases.take("group") is None
    assert sorted(path.name for path in leases.directory.iterdir()) == ["group.1", "group.3"]


def test_a_claim_without_content_blocks_until_it_expires(leases, clock):
    leases.directory.mkdir()
    (leases.directory / "group.1").touch()
    assert leases.take("group") is None
    clock.now_s = EXPIRY_S + 1
    assert leases.take("group") is not None
