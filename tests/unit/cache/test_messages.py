"""Messages about a cache that could not be made: the whole cause, and a step that can be taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skymark.cache.location import refusal
from skymark.cache.recipe import exceptions_in

CHAINED = """
try:
    try:
        {}["nope"]
    except KeyError as error:
        raise ValueError("two\\nlines") from error
except ValueError:
    raise OSError("the last")
"""


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (CHAINED, ["OSError: the last", "ValueError: two\nlines", "KeyError: 'nope'"]),
        ("1 / 0", ["ZeroDivisionError: division by zero"]),
        ("raise SystemExit('away')", []),
    ],
)
def test_every_exception_of_a_chain_is_told_the_last_one_first(program, found):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert exceptions_in(done.stderr.strip().splitlines()) == found


def test_a_mode_is_changed_only_of_what_is_there(tmp_path):
    there, absent = tmp_path / "there", tmp_path / "absent" / "below"
    there.mkdir()
    error = PermissionError(13, "Permission denied", str(there))
    assert f"run `chmod -R g+w {there}`" in refusal(there / "entry", error)
    error = PermissionError(13, "Permission denied", str(absent))
    said = refusal(absent / "entry", error)
    assert "chmod" not in said
    assert f"permission denied: {tmp_path} is " in said
    assert f"make {absent} for your group" in said
