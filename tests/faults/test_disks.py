"""Disks that lose power, are full, or cannot be written."""

from __future__ import annotations

import math
import os
import subprocess
import time

import psutil

from tests.faults.disks import cut_power, image_disk, modes_hold, read_only, small_disk
from tests.faults.runs import Case, started_below, workers_of


def test_a_power_cut_takes_what_was_not_synced(tmp_path):
    """The control: shows that the simulated cut is able to lose something."""
    image, cut = tmp_path / "disk", tmp_path / "cut"
    with image_disk(image, tmp_path / "before") as disk:
        with (disk / "synced").open("w") as file:
            file.write("kept")
            file.flush()
            os.fsync(file.fileno())
        directory = os.open(disk, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        (disk / "unsynced.part").write_text("lost")
        (disk / "unsynced.part").replace(disk / "unsynced")
        cut_power(image, cut)
        assert (disk / "unsynced").read_text() == "lost"
    with image_disk(cut, tmp_path / "after") as disk:
        assert (disk / "synced").read_text() == "kept"
        assert not (disk / "unsynced").exists() or not (disk / "unsynced").read_text()


def test_a_power_cut_loses_nothing_that_was_finished(tmp_path, moments, chance, usual_s, table):
    for moment in range(moments):
        here = tmp_path / str(moment)
        here.mkdir()
        at_s = chance.uniform(0, 0.95 * usual_s)
        with image_disk(here / "disk", here / "before") as disk:
            case = Case(here, output=disk / "out")
            process = case.start()
            time.sleep(at_s)
            running = [psutil.Process(process.pid)]
            running[0].suspend()
            running += started_below(process)
            for one in running[1:]:
                one.suspend()
            begun = len(case.begun())
            cut_power(here / "disk", here / "cut")
            for one in running:
                one.kill()
            process.communicate()
            psutil.wait_procs(running, 20)
        assert len(case.begun()) == begun
        case.ended()
        with image_disk(here / "cut", here / "after") as disk:
            case.output = disk / "out"
            case.faulted()
            status, stderr = case.run("--resume")
            assert status == 0, stderr
            row = case.row()
            table.add("power cut", row)
            assert row.lost == 0, f"cut after {at_s:.3f} s"
            assert row.repeated <= 1, f"cut after {at_s:.3f} s"


ROOMS_KIB = (0, 4, 8, 12, 16, 20, 28, 36)
"""What a disk holds beside the manifest: the usual run fills it at its beginning, in the middle,
near its end."""
PAGE = 4096
"""What a disk in memory gives room in."""


def test_a_run_goes_on_when_a_full_disk_has_room_again(tmp_path, moments, chance, table):
    usual = Case(tmp_path, output=tmp_path / "usual")
    status, stderr = usual.run()
    assert status == 0, stderr
    some_digits_more = 100
    manifest = (usual.output / "manifest.json").stat().st_size + some_digits_more
    needed = math.ceil(manifest / PAGE) * PAGE // 1024
    for room in sorted(chance.sample(ROOMS_KIB, min(moments, len(ROOMS_KIB)))):
        size = needed + room
        with small_disk(tmp_path / f"disk-{size}", f"{size}k") as disk:
            case = Case(tmp_path, output=disk / f"out-{size}")
            status, stderr = case.run()
            assert status == 1, stderr
            assert "disk is full" in stderr
            assert "--resume" in stderr
            case.faulted()
            assert not list(case.output.rglob("*.part"))
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            status, stderr = case.run("--resume")
            assert status == 0, stderr
            row = case.row()
        table.add("full disk", row)
        assert row.lost == 0, f"{size} KiB"
        assert row.repeated <= 1, f"{size} KiB"


def test_a_read_only_directory_is_refused_before_anything_is_measured(tmp_path, table):
    place = tmp_path / "place"
    place.mkdir()
    case = Case(tmp_path, output=place / "out", prefix=modes_hold())
    with read_only(place):
        status, stderr = case.run()
        assert status == 2, stderr
        assert "cannot write to" in stderr
        assert "choose another --output" in stderr
        assert not case.begun()
    status, stderr = case.run()
    assert status == 0, stderr
    row = case.row()
    table.add("read-only directory from the start", row)
    assert (row.lost, row.repeated) == (0, 0)


def test_a_directory_that_turns_read_only_stops_the_run_and_loses_nothing(
    tmp_path, moments, chance, table
):
    for moment in range(moments):
        case = Case(tmp_path, output=tmp_path / f"out-{moment}", prefix=modes_hold())
        process = case.start_and_hold(chance.randint(1, 7))
        with read_only(case.output):
            case.release()
            status, stderr = case.finish(process)
            assert status == 1, stderr
            assert "cannot write" in stderr
            assert "--resume" in stderr
            assert not workers_of(process)
            case.faulted()
        status, stderr = case.run("--resume")
        assert status == 0, stderr
        row = case.row()
        table.add("directory turned read-only in the middle", row)
        assert row.lost == 0
        assert row.repeated <= 1
