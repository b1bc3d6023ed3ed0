"""Room of the machine: what is found, what is too little, and what is said."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from skymark.machine.cgroup import (
    FILES_OF_SKYMARK,
    Need,
    Room,
    oom_kills,
    room_here,
    shortage,
)
from skymark.machine.fitness import room_warnings

LITTLE = Room(
    shared_memory_bytes=64 << 20,
    free_shared_memory_bytes=60_000_000,
    open_files=64,
    memory_limit_bytes=400_000_000,
)
AMPLE = Room(
    shared_memory_bytes=8 << 30,
    free_shared_memory_bytes=8 << 30,
    open_files=4096,
    memory_limit_bytes=None,
)


def test_the_room_is_that_of_this_process(tmp_path: Path) -> None:
    room = room_here(tmp_path)
    assert room.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert room.shared_memory_bytes is not None
    assert 0 < room.free_shared_memory_bytes <= room.shared_memory_bytes
    assert room_here(tmp_path / "absent").shared_memory_bytes is None


@pytest.mark.parametrize(
    ("need", "kind", "numbers"),
    [
        (
            Need(shared_memory_bytes=60_000_001),
            "little-shared-memory",
            ("60.0 MB free", "take 60.0 MB"),
        ),
        (Need(open_files=17), "few-open-files", ("64 files", f"{FILES_OF_SKYMARK + 17}")),
        (Need(memory_bytes=500_000_000), "little-memory", ("400 MB", "500 MB")),
    ],
)
def test_what_does_not_fit_is_named_with_both_numbers_and_the_next_step(
    need, kind, numbers
) -> None:
    cause = shortage(need, LITTLE)
    assert cause is not None
    assert cause.kind == kind
    for number in numbers:
        assert number in cause.message
    assert cause.action
    assert shortage(need, AMPLE) is None


@pytest.mark.parametrize("room", [LITTLE, AMPLE, Room()])
def test_a_cell_of_which_nothing_is_known_always_fits(room: Room) -> None:
    assert shortage(Need(), room) is None


def test_too_little_room_is_warned_of_before() -> None:
    kinds = [one.kind for one in room_warnings(LITTLE)]
    assert kinds == ["little-shared-memory", "few-open-files", "little-memory"]
    assert room_warnings(AMPLE) == room_warnings(Room()) == ()


@pytest.mark.parametrize("name", ["memory.events", "memory.oom_control"])
def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path, name: str) -> None:
    controllers = "" if name == "memory.events" else "memory"
    group = tmp_path / "cgroup" / controllers / "job"
    group.mkdir(parents=True)
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(f"4:{controllers}:/job\n")
    (group / name).write_text("oom 5\nunder_oom 0\noom_kill 3\n")
    assert oom_kills(proc, tmp_path / "cgroup") == 3
    (group / name).unlink()
    assert oom_kills(proc, tmp_path / "cgroup") == 0
