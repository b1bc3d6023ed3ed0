"""Any text in any field of a run: no terminal, spreadsheet or browser ever obeys it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import tempfile
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skymark.cli.main import main
from skymark.model.errors import SkymarkError
from skymark.model.schema import KEY, seal
from skymark.report.html import write_html
from skymark.report.sheet import FORMULAS, NUMBER
from skymark.rundir.reader import open_run
from tests.data import make_run
from tests.examples import examples

POWERFUL = st.lists(
    st.one_of(
        st.sampled_from(
            ["\x1b[2J", "\x9b2J", "\x1b]0;t\x07", "\x1b]8;;http://x.invalid\x1b\\", "\u202e",
             "\r\n", "=1+1", "@SUM(A1)", "+", "-", "\t=1", "＝1", "</script><xss onxss=1>",
             "'\"><xss a=", "javascript:xss", "<!--", "]]>", "{{7*7}}", "{%", "```", "[link=http://x.invalid]a",
             "\ud800", "\x00", "|", "&lt;xss&gt;"]
        ),
        st.text(max_size=5),
    ),
    min_size=1,
    max_size=4,
).map("".join)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    records = make_run.one_of_each()
    return make_run.write_run(tmp_path_factory.mktemp("text") / "run", records)


def leaves(content, place=()):
    """Yield the places of all texts in JSON, and of all names of objects."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield (*place, name), True
            yield from leaves(value, (*place, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from leaves(value, (*place, number))
    elif isinstance(content, str) and place != (KEY,):
        yield place, False


def changed(data, changes):
    """Return a sealed file with texts in some places, each instead of a text or of a name."""
    content = json.loads(data)
    for (place, is_name), text in changes:
        inner = content
        try:
            for part in place[:-1]:
                inner = inner[part]
            if is_name:
                inner[text] = inner.pop(place[-1])
            else:
                inner[place[-1]] = text
        except (KeyError, IndexError, TypeError):
            continue  # a name on the way was changed before
    content.pop(KEY, None)
    return seal(json.dumps(content))


@pytest.fixture(scope="module")
def free(run):
    """The places by file whose text is anybody's: the run is read with any word there.

    Of the records only the changed one is read anew.
    """
    known = open_run(run).records
    found = {}
    for file in [run / "manifest.json", *sorted((run / "records").iterdir())]:
        before = file.read_bytes()
        found[file.relative_to(run)] = []
        others = [record for record in known if record.cell.id != file.stem]
        for place in leaves(json.loads(before)):
            file.unlink()  # a disk takes a new file sooner than an old one's new content
            file.write_bytes(changed(before, [(place, "any word")]))
            with contextlib.suppress(SkymarkError):
                opened = open_run(run, others)
                if not opened.problems and not opened.missing:
                    found[file.relative_to(run)].append(place)
        file.write_bytes(before)
    return found


@pytest.fixture(scope="module")
def usual(run, tmp_path_factory):
    """What a browser obeys in the report of the run as it is."""
    page = tmp_path_factory.mktemp("usual") / "report.html"
    write_html(open_run(run), page)
    return obeyed(page.read_text())


def steering(text):
    return [one for one in text if one not in "\n\t" and unicodedata.category(one)[0] == "C"]


class Obeyed(HTMLParser):
    """What a browser would obey of a text: elements, attributes, addresses."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.scripts = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.found.add(tag)
        self.found |= {f"{tag} {name}" for name, _ in attrs}
        self.found |= {value for _, value in attrs if value and value.startswith("javascript:")}


def obeyed(page):
    seen = Obeyed(page)
    return seen.found, seen.scripts


@pytest.mark.timeout(600)
@settings(
    max_examples=examples("SKYMARK_ANY_TEXT"),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), text=POWERFUL)
def test_no_text_of_a_run_has_power_anywhere(run, free, usual, data, text):
    with tempfile.TemporaryDirectory() as place:
        theirs = Path(place) / "run"
        shutil.copytree(run, theirs)
        file = data.draw(st.sampled_from(list(free)))
        places = free[file]
        if data.draw(st.integers(0, 3)) == 0:  # any other, which may be refused
            every = list(leaves(json.loads((theirs / file).read_bytes())))
            places = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=2))
        before = (theirs / file).read_bytes()
        (theirs / file).write_bytes(changed(before, [(one, text) for one in places]))
        out, err = io.StringIO(), io.StringIO()
        table = Path(place) / "table.csv"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for arguments in (
                ["report", os.fspath(theirs)],
                ["report", os.fspath(theirs), "--json"],
                ["compare", os.fspath(run), os.fspath(theirs), "--across", "hardware"],
                ["compare", os.fspath(theirs), os.fspath(theirs), "--json"],
                ["export", os.fspath(theirs), "--to", os.fspath(table)],
            ):
                assert main(arguments) in {0, 2}
        assert steering(out.getvalue() + err.getvalue()) == []
        if table.exists():
            for row in csv.reader(io.StringIO(table.read_text(), newline="")):
                bad = [one for one in row if one.startswith(FORMULAS) and not NUMBER.fullmatch(one)]
                assert bad == []
                assert steering("".join(row)) == []
        page = theirs / "report.html"
        if page.exists():
            found, scripts = obeyed(page.read_text())
            assert not {one for one in found - usual[0] if "xss" in one or " on" in one}
            assert scripts <= usual[1]
            assert steering(page.read_text()) == []
