"""A rehearsal that is ended from outside leaves nothing, at the latest when the next one comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sky_rehearsal import leftovers
from sky_rehearsal.changes import Changes
from sky_rehearsal.leftovers import remove_leftovers
from sky_rehearsal.requirements import RehearsalError
from tests.cloud.footprint import NOTHING, footprint

pytestmark = pytest.mark.cloud

REHEARSE = """
import sys
from pathlib import Path
from sky_rehearsal import leftovers
from sky_rehearsal.changes import Changes
from sky_rehearsal.leftovers import note_rehearsal, undone_when_told_to_end
from sky_rehearsal.network import make_network

leftovers.NOTES = Path(sys.argv[1])
changes, directory = Changes(), Path(sys.argv[2])
shared = leftovers.NOTES.with_name("shared")
try:
    with undone_when_told_to_end():
        network = make_network(changes)
        note_rehearsal(network.bridge, [directory], [shared], changes)
        shared.touch()
        (directory / "disk").touch()
        print(network.bridge, flush=True)
        sys.stdin.read()
finally:
    changes.undo_all()
"""

OFTEN = """
import sys
from pathlib import Path
from sky_rehearsal import leftovers
from sky_rehearsal.changes import Changes
from sky_rehearsal.leftovers import note_rehearsal, remove_leftovers
from sky_rehearsal.network import FORWARDING, make_network

leftovers.NOTES = Path(sys.argv[1])
shared = leftovers.NOTES.with_name("shared")
for _ in range(8):
    assert remove_leftovers() == []
    changes = Changes()
    try:
        network = make_network(changes)
        note_rehearsal(network.bridge, [], [shared], changes)
        shared.touch()
        assert Path("/sys/class/net", network.bridge).exists()
        assert FORWARDING.read_text() == "1\\n"
    finally:
        changes.undo_all()
"""


@pytest.fixture(autouse=True)
def notes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the notes of these rehearsals to themselves: others begin beside them, and clean up."""
    monkeypatch.setattr(leftovers, "NOTES", tmp_path_factory.mktemp("run") / "notes")


def shared_file() -> Path:
    """Return what each of these rehearsals writes."""
    return leftovers.NOTES.with_name("shared")


def begun(directory: Path) -> tuple[subprocess.Popen[str], str]:
    directory.mkdir(exist_ok=True)
    # Coverage would handle SIGTERM in its own way.
    variables = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    process = subprocess.Popen(
        [sys.executable, "-c", REHEARSE, leftovers.NOTES, directory],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_rehearsal_that_is_told_to_end_undoes_everything(fit: None, tmp_path: Path) -> None:
    process, bridge = begun(tmp_path)
    with process:
        assert footprint(tmp_path, bridge).rules
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert not footprint(tmp_path, bridge).rules
    assert not footprint(tmp_path, bridge).links


def test_the_next_rehearsal_removes_what_a_killed_one_left(fit: None, tmp_path: Path) -> None:
    killed, bridge = begun(tmp_path)
    with killed:
        killed.kill()
    assert footprint(tmp_path, bridge) != NOTHING
    assert shared_file().exists()
    assert remove_leftovers() == [bridge]
    assert footprint(tmp_path, bridge) == NOTHING
    assert not shared_file().exists()
    assert remove_leftovers() == []


@pytest.mark.parametrize("change", [{"files": None}, {"later": "field"}])
def test_notes_of_another_version_are_read(
    fit: None, tmp_path: Path, change: dict[str, str | None]
) -> None:
    killed, bridge = begun(tmp_path)
    with killed:
        killed.kill()
    note = leftovers.NOTES / f"{bridge}.json"
    fields = json.loads(note.read_text()) | change
    note.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))
    assert remove_leftovers() == [bridge]
    assert not note.exists()


def test_a_rehearsal_that_runs_is_left_alone(fit: None, tmp_path: Path) -> None:
    process, bridge = begun(tmp_path)
    with process:
        assert bridge not in remove_leftovers()
        assert footprint(tmp_path, bridge).links
        process.communicate()
    assert process.returncode == 0


def test_rehearsals_that_begin_and_end_together_take_nothing_from_each_other(fit: None) -> None:
    command = [sys.executable, "-c", OFTEN, leftovers.NOTES]
    together = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate()[1] for process in together]
    assert [process.returncode for process in together] == [0] * 4, said
    assert not shared_file().exists()


def test_the_last_rehearsal_to_end_removes_what_all_of_them_write(
    fit: None, tmp_path: Path
) -> None:
    first, second = (begun(tmp_path / name)[0] for name in ("first", "second"))
    with first, second:
        first.communicate()
        assert shared_file().exists()
        second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert not shared_file().exists()


def test_what_was_there_before_any_rehearsal_stays(fit: None, tmp_path: Path) -> None:
    shared_file().touch()
    process, _ = begun(tmp_path)
    with process:
        process.communicate()
    assert process.returncode == 0
    assert shared_file().exists()


def test_what_cannot_be_undone_is_named_and_the_rest_is_undone(tmp_path: Path) -> None:
    changes, stuck, file = Changes(), tmp_path / "stuck", tmp_path / "file"
    for path in (file, stuck):
        path.touch()
    changes.add("a file", undo=file.unlink, still_there=file.exists)
    changes.add("a stuck file", undo=lambda: None, still_there=stuck.exists)
    with pytest.raises(RehearsalError, match="a stuck file"):
        changes.undo_all()
    assert [change.undone for change in changes.record] == [True, False]
    assert not file.exists()
