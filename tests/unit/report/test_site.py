"""Static pages of many runs."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from skymark.cli.main import main
from skymark.machine.fitness import fitness_warnings
from skymark.model.errors import UsageError
from skymark.report.site import write_site
from skymark.report.verdicts import question_of
from skymark.rundir.reader import open_run


@pytest.fixture
def results(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one kind of machine, and one of another; their names are anybody's."""
    begin = make.BEGIN
    hardware = make.MACHINE.hardware.model_copy(update={"cpu_model": "<b>Other</b>"})
    other = make.MACHINE.model_copy(update={"hardware": hardware})
    names = ("first", "<script>alert(1)<", "third")
    for hour, (name, machine) in enumerate(zip(names, (make.MACHINE,) * 2 + (other,), strict=True)):
        monkeypatch.setattr(make, "BEGIN", begin + timedelta(hours=hour))
        records = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000, name=name))]
        make.write_run(tmp_path / "results" / name, records, machine=machine)
    return tmp_path / "results"


def links(page: Path) -> list[Path]:
    """The files that a page's links lead to."""
    found = re.findall(r'href="([^"#]+)"', page.read_text("utf-8"))
    return [(page.parent / one).resolve() for one in found]


def test_every_page_is_reached_by_links_that_work_from_disk(results: Path, tmp_path: Path) -> None:
    written = write_site([results], tmp_path / "site")
    assert (written.runs, written.histories, written.problems) == (3, 1, ())
    seen, waiting = set(), [written.index]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            waiting += links(page)
    assert seen == set((tmp_path / "site").rglob("*.html"))
    assert len(seen) == 5


def test_the_index_has_a_line_per_run_the_newest_first(results: Path, tmp_path: Path) -> None:
    text = write_site([results], tmp_path / "site").index.read_text("utf-8")
    rows = text.split("<tbody>")[1].split("</tr>")[:-1]
    assert ["third" in rows[0], "alert(1)" in rows[1], "first" in rows[2]] == [True] * 3
    assert ["over runs" in row for row in rows] == [False, True, True]
    assert "Example CPU 3000, Example GPU" in rows[2]
    assert "2026-01-15 09:30" in rows[2]


def test_text_of_a_run_is_no_markup_and_nothing_is_asked_for(results: Path, tmp_path: Path) -> None:
    write_site([results], tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text("utf-8")
        assert "<script>alert" not in text
        assert "<b>Other" not in text
        assert not re.findall(r"https?:|url\(|@import|src=", text)


def test_a_run_that_cannot_be_read_is_named_and_the_others_stand(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "first" / "manifest.json").write_text("{}")
    assert main(["site", str(results), "--output", str(tmp_path / "site")]) == 1
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'site' / 'index.html'}\n"
    assert "first: " in err
    assert re.search(r"\b2,\D+0\b", err)
    assert "Unreadable: first" in (tmp_path / "site" / "index.html").read_text("utf-8")


def test_a_site_without_a_readable_run_is_refused(results: Path, tmp_path: Path) -> None:
    (results / "first" / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match=": first: "):
        write_site([results / "first"], tmp_path / "site")
    assert not (tmp_path / "site").exists()


def runs_of_speeds(
    make: ModuleType, monkeypatch: pytest.MonkeyPatch, directory: Path, speeds: list[float]
) -> Path:
    """Write hourly runs in which numpy stays at 1000 and grain has these speeds."""
    begin = make.BEGIN
    for number, speed in enumerate(speeds):
        monkeypatch.setattr(make, "BEGIN", begin + timedelta(hours=number))
        records = [
            make.measured(make.cell("TAB-1", name), make.rounds_of(rate, name=f"{number}{name}"))
            for name, rate in (("numpy", 1000), ("grain", speed))
        ]
        make.write_run(directory / f"run-{number:02}", records)
    return directory


def test_the_index_begins_with_the_latest_verdicts_their_trends_and_what_changed(
    make: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = runs_of_speeds(make, monkeypatch, tmp_path / "results", [2000] * 6 + [3000] * 5)
    text = write_site([results], tmp_path / "site").index.read_text("utf-8")
    head, runs = text.split("All runs", 1)
    assert question_of(open_run(results / "run-10")) in head
    assert '<span class="word">✓ Decided</span> <a href="runs/run-10/index.html">' in head
    assert "TAB-1:small: Google Grain " in head
    assert head.count("<polyline") == 1
    assert re.search(r"Google Grain .*TAB-1:small: .*\+\d\d\D+run-06", head)
    assert "run-06" in runs


def test_an_undecided_verdict_has_no_tick_in_the_index(
    make: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = runs_of_speeds(make, monkeypatch, tmp_path / "results", [1001])
    text = write_site([results], tmp_path / "site").index.read_text("utf-8")
    assert "? Undecided" in text
    assert "✓" not in text.split("<body>")[1]
    faults = {fault.kind: fault.message for fault in fitness_warnings(make.MACHINE)}
    assert f'<span class="word">! Warning</span> {faults["cpu-quota"]}' in text
    assert "is one run: " in text
