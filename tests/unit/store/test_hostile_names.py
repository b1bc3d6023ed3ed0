"""Names that strangers chose: of runs, cells and files. None of them leads out of a directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from skymark.cli.main import main
from skymark.cloud.lifecycle.results import merge
from skymark.model.errors import SkymarkError
from skymark.model.schema import KEY, seal
from skymark.rundir.layout import RUN_FILE
from skymark.store.fetching import fetch
from skymark.suites.loading.dataset.sources.tar import TarShards
from tests.data import make_run
from tests.examples import examples
from tests.unit.store.test_fetching import Source

PART = st.one_of(
    st.sampled_from(["..", ".", "", "outside", "records", "logs", "/", "~", "a.json", "\\", "\n"]),
    st.text(max_size=4),
)
NAME = st.lists(PART, min_size=1, max_size=5).map("/".join)
HOSTILE = settings(
    max_examples=examples("SKYMARK_NAMES"),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "run"
    return make_run.write_run(path, make_run.one_of_each()[:2])


@contextlib.contextmanager
def enclosed():
    """A directory within directories; nothing but itself may have something new in it."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as quiet:
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        inner = Path(place) / "a" / "b" / "c" / "inner"
        inner.mkdir(parents=True)
        (Path(place) / "outside").mkdir()
        yield inner
        found = {path.relative_to(place).as_posix() for path in Path(place).rglob("*")}
        known = {"a", "a/b", "a/b/c", "a/b/c/inner", "outside"}
        assert {path for path in found if not path.startswith("a/b/c/inner/")} == known
        assert not [path for path in inner.rglob("*") if path.is_symlink()]


def changed(source, target, change):
    """Copy a run with another manifest, whose own digest is right."""
    shutil.copytree(source, target)
    content = json.loads((source / "manifest.json").read_bytes())
    del content[KEY]
    change(content)
    (target / "manifest.json").write_bytes(seal(json.dumps(content)))


@HOSTILE
@example(name="../../../../outside/run")
@example(name="records/../../../../../outside/x.json")
@example(name="/outside")
@given(name=NAME)
def test_no_path_that_a_store_lists_leads_out(name):
    with enclosed() as inner:
        files = {"manifest.json": b"{}", name: b"x", f"records/{name}.json": b"x"}
        files["SHA256SUMS"] = f"{'0' * 64}  {name}\n".encode(errors="surrogatepass")
        with contextlib.suppress(SkymarkError):
            fetch(Source(files), inner / "run")
        written = [path for path in (inner / "run").rglob("*") if path.is_file()]
        paths = [path.relative_to(inner / "run").as_posix() for path in written]
        assert [path for path in paths if not RUN_FILE.fullmatch(path)] == []


@HOSTILE
@example(name="../../../../outside/run")
@example(name="/tmp/outside")
@example(name="..")
@given(name=NAME)
def test_no_id_of_a_run_leads_out(run, name):
    with enclosed() as inner:
        changed(run, inner / "run", lambda content: content.update(run_id=name))
        store = inner / "store"
        store.mkdir()
        status = main(["export", os.fspath(inner / "run"), "--to", store.as_uri(), "--wait", "5"])
        assert status in {0, 1, 2}
        assert len(list(store.iterdir())) <= 1
        assert main(["report", os.fspath(inner / "run")]) in {0, 2}
        with contextlib.suppress(SkymarkError):
            merge([inner], "run", inner / "merged", "0" * 64)


@HOSTILE
@example(name="../../../../../outside/x")
@given(name=NAME)
def test_no_id_of_a_cell_leads_out(run, name):
    def change(content):
        for planned in content["plan"]["cells"]:
            for key in ("scenario", "variant", "adapter"):
                planned["cell"][key] = name

    with enclosed() as inner:
        changed(run, inner / "run", change)
        for arguments in (["report", "{}"], ["export", "{}", "--to", f"{inner}/out.csv"]):
            words = [word.replace("{}", os.fspath(inner / "run")) for word in arguments]
            assert main(words) in {0, 2}


@HOSTILE
@example(name="../../../../../outside/x")
@given(name=NAME)
def test_no_name_in_a_list_of_digests_leads_out(run, name):
    with enclosed() as inner:
        shutil.copytree(run, inner / "run")
        line = f"{'0' * 64}  {name}\n".encode(errors="surrogatepass")
        (inner / "run" / "SHA256SUMS").write_bytes(line)
        store = inner / "store"
        store.mkdir()
        main(["export", os.fspath(inner / "run"), "--to", store.as_uri(), "--wait", "5"])
        main(["fetch", (inner / "run").as_uri(), os.fspath(inner / "fetched")])


@HOSTILE
@example(name="../../../../../outside/x.txt")
@given(name=NAME)
def test_no_member_of_an_archive_is_written(name):
    with enclosed() as inner:
        shard = inner / "a.tar"
        with tarfile.open(shard, "w") as archive:
            for path in (f"{name}.txt", "a.txt"):
                member = tarfile.TarInfo(path)
                member.size = 1
                with contextlib.suppress(UnicodeEncodeError):
                    archive.addfile(member, io.BytesIO(b"x"))
        with contextlib.suppress(SkymarkError):
            source = TarShards([shard])
            list(source.read(source.fields, 9))
        assert [path.name for path in inner.iterdir()] == ["a.tar"]
