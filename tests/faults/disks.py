"""Small file systems of a test's own, and what a power cut leaves of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WITHOUT_OVERRIDE = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
"""Runs a command for which the modes of files hold, also as root."""


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """Mount something for a while; skips the test where this machine does not let it."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", *options, str(place)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this machine lets the test mount nothing: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A disk in memory that holds so much."""
    with mounted(place, "-t", "tmpfs", "-o", f"size={size}", "tmpfs") as disk:
        yield disk


@contextmanager
def image_disk(image: Path, place: Path) -> Iterator[Path]:
    """An ext4 file system in a file; replays its journal if it was cut off from power."""
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(64 << 20)
        whole = ("-E", "lazy_itable_init=0,lazy_journal_init=0")
        try:
            subprocess.run(["mkfs.ext4", "-q", *whole, str(image)], check=True)
        except FileNotFoundError:
            pytest.skip("this machine has no mkfs.ext4")
    with mounted(place, "-o", "loop", str(image)) as disk:
        yield disk


def cut_power(image: Path, copy: Path) -> None:
    """Copy what a disk holds at one instant, without what the kernel has not written to it yet.

    Nothing is synced before. Two readings that agree prove that nothing was written in between, so
    the copy is of one instant although reading takes time.
    """
    again = copy.with_suffix(".again")
    for _ in range(50):
        shutil.copyfile(image, copy)
        shutil.copyfile(image, again)
        if copy.read_bytes() == again.read_bytes():
            again.unlink()
            return
    raise AssertionError("the disk was never still")


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Take the right to write from a directory and all below it."""
    places = [directory, *(path for path in directory.rglob("*") if path.is_dir())]
    for place in places:
        place.chmod(0o555)
    try:
        yield
    finally:
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                place.chmod(0o755)


def modes_hold() -> tuple[str, ...]:
    """The words before a command that make file modes hold for it; skips where there are none."""
    if os.geteuid():
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("as root, without setpriv, no directory is read-only")
    return WITHOUT_OVERRIDE
