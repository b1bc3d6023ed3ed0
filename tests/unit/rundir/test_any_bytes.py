"""Any bytes in any file of a run: never a traceback, a hang, a write outside, a good copy lost."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skymark.cli.main import main
from skymark.cloud.lifecycle.results import merge
from skymark.execute.session import begin_or_resume, held_in
from skymark.model.errors import SkymarkError
from skymark.model.schema import KEY, seal
from skymark.rundir.directory import RunDirectory
from skymark.rundir.mending import damages
from skymark.rundir.reader import open_run
from skymark.store.directory import DirectoryStore
from skymark.store.storing import Storing
from tests.data import make_run
from tests.examples import examples
from tests.unit.rundir.test_directory import round_of

ANY_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([-1, 0, 2**63, 10**400, float("nan"), float("inf"), -1e308, 5e-324]),
        st.floats(),
        st.text(),
        st.sampled_from(
            ["../../../outside", "/etc/passwd", "\ud800", "2026-01-01T00:00:00", "\x1b[2J",
             "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "", ".", "=1+1", "]]>", "x" * 999]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=5,
)  # fmt: skip


def property_of_any_bytes(test):
    """Try so many examples, the same each time."""
    tried = settings(
        max_examples=examples("SKYMARK_ANY_BYTES"),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # an example is small already, and takes seconds
        suppress_health_check=list(HealthCheck),
    )
    return pytest.mark.timeout(600)(tried(test))


def ignore(text):
    """Take no notice of an announcement."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, with a log and a kept round."""
    path = tmp_path_factory.mktemp("runs") / "run"
    todo = make_run.cell("CV-1", "numpy")
    make_run.write_run(path, make_run.one_of_each()[:3], planned=[todo], finished=False)
    directory = RunDirectory(path)
    directory.write_round(todo, round_of(0), {"numpy": "2"})
    directory.write_log(todo, "begun")
    directory.write_sums()
    return path


def replaced(draw, content):
    """Return JSON with one value somewhere in it replaced, removed or joined by another."""
    place = content
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return content
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.integers(0, 9)) == 0:
            del place[key]
        else:
            place[key] = draw(ANY_JSON)
        return content


def damage(draw, root):
    """Change one file of a run in some way; returns its path."""
    path = draw(st.sampled_from(sorted(RunDirectory(root).files())))
    file = root / path
    data = file.read_bytes()
    how = draw(st.sampled_from(["value", "value", "value", "bytes", "cut", "insert", "kind"]))
    if how == "value" and path.endswith(".json"):
        content = json.loads(data)
        with_seal = content.pop(KEY, None) is not None
        text = json.dumps(replaced(draw, content))
        file.write_bytes(seal(text) if with_seal else text.encode())
    elif how == "bytes":
        file.write_bytes(draw(st.binary(max_size=300)))
    elif how == "cut":
        file.write_bytes(data[: draw(st.integers(0, len(data)))])
    elif how == "insert":
        at = draw(st.integers(0, len(data)))
        file.write_bytes(data[:at] + draw(st.binary(max_size=9)) + data[at + 1 :])
    elif how == "kind":
        file.unlink()
        kind = draw(st.sampled_from(["/dev/zero", "/etc/hostname", "fifo", "directory", "loop"]))
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "directory":
            file.mkdir()
        else:
            file.symlink_to(file if kind == "loop" else kind)
    return path


def tree(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def resume(root, store, name):
    manifest = open_run(store / name).manifest
    stores = {"file": DirectoryStore(store / name)}
    storing = Storing(stores, root)
    try:
        held = held_in(stores, ignore)
        return begin_or_resume(root, manifest, held, storing, ignore, resume=True)
    finally:
        storing.close()


@property_of_any_bytes
@given(data=st.data())
def test_any_bytes_in_any_file_do_no_harm(run, data):
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as quiet:
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        name, good = run.name, run
        home, shared = Path(place) / "home", Path(place) / "shared"
        shutil.copytree(good, home / name)
        shutil.copytree(good, shared / name)
        before = tree(shared)
        changed = damage(data.draw, home / name)
        forged = changed not in damages(home / name)
        text = os.fspath(home / name)
        assert main(["report", text]) in {0, 2}
        assert main(["report", text, "--json"]) in {0, 2}
        assert main(["compare", text, text]) in {0, 2}
        assert main(["compare", os.fspath(good), text, "--across", "hardware", "cells"]) in {0, 2}
        assert main(["export", text, "--to", f"{place}/out.csv"]) in {0, 2}
        assert main(["export", text, "--to", shared.as_uri(), "--wait", "5"]) in {0, 1, 2}
        after = tree(shared)
        if not forged:
            assert after == before
        assert {path.parts[0] for path in after} == {name}
        for path, content in before.items():
            (shared / path).write_bytes(content)
        with contextlib.suppress(SkymarkError):
            resume(home / name, shared, name)
        assert {path.name for path in Path(place).iterdir()} <= {"home", "shared", "out.csv"}
        assert {path.name for path in home.iterdir()} == {name}
        assert tree(shared) == before


@property_of_any_bytes
@given(data=st.data())
def test_any_bytes_that_come_from_elsewhere_do_no_harm(run, data):
    """A store and a rented machine give what they like: to `fetch`, and to the merge of parts."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as quiet:
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        good, theirs = run, Path(place) / "theirs"
        shutil.copytree(good, theirs / good.name)
        changed = damage(data.draw, theirs / good.name)
        reason = damages(theirs / good.name).get(changed)
        here = Path(place) / "here"
        here.mkdir()
        status = main(["fetch", (theirs / good.name).as_uri(), os.fspath(here / "fetched")])
        assert status in {0, 1, 2}
        plan_hash = open_run(good).manifest.plan_hash
        for order in ([theirs, good.parent], [good.parent, theirs]):
            merged = here / f"merged-{order[0].name}"
            with contextlib.suppress(SkymarkError):
                merge(order, good.name, merged, plan_hash)
            if reason is not None and "schema version" not in reason:
                ours = {path: data for path, data in tree(good).items() if "records" in path.parts}
                assert ours.items() <= tree(merged).items()
        assert {path.name for path in Path(place).iterdir()} == {"here", "theirs"}
        assert {path.name.partition("-")[0] for path in here.iterdir()} <= {"fetched", "merged"}
