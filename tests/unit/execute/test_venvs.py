"""Adapter venvs, made by the real uv from a wheel that the test writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from skymark import resources
from skymark.execute import venvs as module
from skymark.execute.venvs import MARKER, Venvs, import_root
from skymark.model.errors import SkymarkError, UsageError, VenvBuildError
from skymark.model.venv import VenvSpec
from tests.examples import examples
from tests.other_user import OTHER_USER, program_of_another_user
from tests.scripted_suite import WRONG_PACKAGE
from tests.waiting import until


@pytest.fixture
def wheel(tmp_path):
    """A requirement line for a package with one module, on this disk."""
    path = tmp_path / "tiny_library-1.0-py3-none-any.whl"
    info = "tiny_library-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_library.py", "ANSWER = 42\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-library\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"tiny-library @ {path.as_uri()}"


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    """A folder of requirement files in place of the project's own, which change."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    monkeypatch.setattr(resources, "REQUIREMENTS", folder)
    return folder


def answer(built):
    command = [built.python, "-c", "import tiny_library; print(tiny_library.ANSWER)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_environment_is_made_once_and_holds_what_was_asked(tmp_path, wheel):
    told = []
    venvs = Venvs(tmp_path, told.append)
    spec = VenvSpec(name="tiny", packages=(wheel,))
    assert not venvs.is_built(spec)
    built = venvs.ensure(spec)
    assert answer(built) == "42"
    assert venvs.is_built(spec)
    assert venvs.ensure(spec) == built
    (line,) = told
    assert "venv of tiny " in line


@pytest.mark.parametrize(
    ("forbidden", "imports", "compiled"),
    [(True, None, True), (False, "tiny_library", True), (False, "absent", False)],
)
def test_what_a_worker_imports_first_is_compiled_when_it_begins(
    tmp_path, wheel, monkeypatch, forbidden, imports, compiled
):
    monkeypatch.setattr("sys.dont_write_bytecode", forbidden)
    built = Venvs(tmp_path).ensure(VenvSpec(name="tiny", packages=(wheel,), imports=imports))
    found = list(built.directory.rglob("tiny_library.*.pyc"))
    assert bool(found) is compiled
    assert answer(built) == "42"


def test_declared_packages_are_installed_only_where_there_are_no_pins(
    tmp_path, wheel, requirements
):
    (requirements / "tiny.txt").write_text("# nothing is pinned\n")
    venvs = Venvs(tmp_path / "cache")
    declared = venvs.ensure(VenvSpec(name="tiny", declared=(wheel,)))
    assert answer(declared) == "42"
    locked = venvs.ensure(VenvSpec(name="tiny", locked="tiny.txt", declared=(wheel,)))
    with pytest.raises(subprocess.CalledProcessError):
        answer(locked)


def test_a_locked_file_without_hashes_is_refused(tmp_path, requirements):
    (requirements / "tiny.txt").write_text("iniconfig==2.0.0\n")
    with pytest.raises(VenvBuildError) as caught:
        Venvs(tmp_path).ensure(VenvSpec(name="tiny", locked="tiny.txt"))
    assert "hash" in caught.value.log_tail


def test_two_threads_that_need_an_environment_make_it_once(tmp_path, wheel):
    told, built = [], []
    spec = VenvSpec(name="tiny", packages=(wheel,))

    def need():
        built.append(Venvs(tmp_path, told.append).ensure(spec))

    threads = [threading.Thread(target=need) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([line for line in told if line.startswith("making ")]) == 1
    assert len(set(map(str, built))) == 1
    assert len(built) == 3


def test_other_pins_packages_or_pythons_give_another_place(tmp_path, requirements):
    venvs = Venvs(tmp_path)
    (requirements / "a.txt").write_text("numpy\n")
    spec = VenvSpec(name="a", declared=("grain",))
    locked = VenvSpec(name="a", locked="a.txt")
    others = [
        spec.model_copy(update={"packages": ("grain==0.2.17",)}),
        spec.model_copy(update={"python": "3.12"}),
        spec.model_copy(update={"name": "b"}),
        spec.model_copy(update={"declared": ("grain>=0.2",)}),
        locked,
    ]
    places = {venvs.path_of(one) for one in [spec, *others]}
    (requirements / "a.txt").write_text("numpy<3\n")
    places.add(venvs.path_of(locked))
    assert len(places) == 7
    assert venvs.path_of(spec) in places


def test_a_name_that_is_no_file_name_gives_a_place_below_the_cache(tmp_path):
    path = Venvs(tmp_path).path_of(VenvSpec(name="../../mine/own"))
    assert path.parent == tmp_path / "venvs"


def test_a_missing_requirement_file_says_what_writes_it(tmp_path, requirements):
    with pytest.raises(VenvBuildError, match=r"no requirements/none\.txt.*make pins"):
        Venvs(tmp_path).path_of(VenvSpec(name="a", locked="none.txt"))


def test_a_failed_build_tells_the_tail_of_its_log_and_leaves_nothing(tmp_path):
    venvs = Venvs(tmp_path)
    spec = VenvSpec(name="tiny", packages=(WRONG_PACKAGE,))
    with pytest.raises(VenvBuildError, match="venv of tiny ") as e:
        venvs.ensure(spec)
    assert "nowhere-1.0" in e.value.log_tail
    assert len(e.value.log_tail.splitlines()) <= module.LOG_TAIL_LINES
    assert not venvs.path_of(spec).exists()
    assert list(venvs.built()) == []


def test_an_environment_without_uv_says_how_to_install_it(tmp_path, wheel, monkeypatch):
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(VenvBuildError, match=r"\btiny .*pip install uv"):
        Venvs(tmp_path).ensure(VenvSpec(name="tiny", packages=(wheel,)))


def test_a_build_that_hangs_is_a_venv_that_could_not_be_made(tmp_path, wheel, monkeypatch):
    monkeypatch.setattr(module, "UV_LIMIT_S", 0.01)
    with pytest.raises(VenvBuildError, match=r"\b0\.01 s"):
        Venvs(tmp_path).ensure(VenvSpec(name="tiny", packages=(wheel,)))


BUILD_BACKEND = """
import os, pathlib, zipfile

def build_wheel(directory, settings=None, metadata=None):
    pathlib.Path({seen!r}).write_text("\\n".join(f"{{k}}={{v}}" for k, v in os.environ.items()))
    name = "tiny_library-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as archive:
        info = "tiny_library-1.0.dist-info"
        archive.writestr("tiny_library.py", "ANSWER = 42")
        about = "Metadata-Version: 2.1\\nName: tiny-library\\nVersion: 1.0"
        archive.writestr(f"{{info}}/METADATA", about)
        archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true")
        archive.writestr(f"{{info}}/RECORD", "")
    return name
"""


def test_a_build_back_end_sees_none_of_the_callers_secrets(tmp_path, monkeypatch):
    package, seen = tmp_path / "package", tmp_path / "seen"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'tiny-library'\nversion = '1.0'\n"
    )
    (package / "backend.py").write_text(BUILD_BACKEND.format(seen=str(seen)))
    for name in ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GH_TOKEN", "PRIVATE"):
        monkeypatch.setenv(name, "canary-of-the-caller")
    spec = VenvSpec(name="tiny", packages=(f"tiny-library @ {package.as_uri()}",))
    assert answer(Venvs(tmp_path / "cache").ensure(spec)) == "42"
    assert "PATH=" in seen.read_text()
    assert "canary" not in seen.read_text()


SLOW = """
import pathlib, subprocess, sys, time
here = pathlib.Path({here!r})
if not (here / "seen").exists():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    (here / "seen").write_text("")
    time.sleep(600)
"""
MAKE = """
import sys
from pathlib import Path
from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
Venvs(Path(sys.argv[1])).ensure(VenvSpec(name="tiny", packages=(sys.argv[2],)))
"""


def test_a_kill_while_a_venv_is_made_leaves_no_process_and_the_next_run_makes_it(tmp_path):
    package, cache = tmp_path / "package", tmp_path / "cache"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        "[project]\nname = 'tiny-library'\nversion = '1.0'\n"
    )
    slow = SLOW.format(here=str(tmp_path))
    (package / "backend.py").write_text(slow + BUILD_BACKEND.format(seen=str(tmp_path / "built")))
    needed = f"tiny-library @ {package.as_uri()}"
    maker = subprocess.Popen([sys.executable, "-c", MAKE, str(cache), needed])
    until((tmp_path / "seen").exists, 120, "the build back-end")
    below = psutil.Process(maker.pid).children(recursive=True)
    assert {"uv", "sleep"} <= {one.name() for one in below}
    maker.kill()
    maker.wait()
    assert psutil.wait_procs(below, timeout=60)[1] == []
    spec = VenvSpec(name="tiny", packages=(needed,))
    assert not Venvs(cache).is_built(spec)
    assert answer(Venvs(cache).ensure(spec)) == "42"


@pytest.mark.parametrize("place", [".", ".."])
def test_uv_obeys_no_settings_in_or_above_the_current_directory(
    tmp_path, wheel, monkeypatch, place
):
    here = tmp_path / "data" / "set"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    (here / place / "uv.toml").write_text("[pip]\nno-binary = ['tiny-library']\n")
    spec = VenvSpec(name="tiny", packages=(wheel,))
    assert answer(Venvs(tmp_path / "cache").ensure(spec)) == "42"


def test_a_cache_below_the_current_directory_is_found_by_uv(tmp_path, wheel, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built = Venvs(Path("cache")).ensure(VenvSpec(name="tiny", packages=(wheel,)))
    assert built.directory.is_relative_to(tmp_path)
    assert answer(built) == "42"


def test_a_half_made_environment_is_made_again(tmp_path, wheel):
    venvs = Venvs(tmp_path)
    spec = VenvSpec(name="tiny", packages=(wheel,))
    (venvs.path_of(spec) / "bin").mkdir(parents=True)
    assert answer(venvs.ensure(spec)) == "42"


def test_an_environment_whose_python_is_gone_is_made_again(tmp_path, wheel):
    venvs = Venvs(tmp_path)
    spec = VenvSpec(name="tiny", packages=(wheel,))
    python = venvs.ensure(spec).python
    python.unlink()
    python.symlink_to(tmp_path / "uninstalled")
    assert not venvs.is_built(spec)
    assert answer(venvs.ensure(spec)) == "42"


def test_environments_are_listed_with_their_size_and_removed_by_name(tmp_path, wheel):
    venvs = Venvs(tmp_path)
    for name in ("one", "two"):
        venvs.ensure(VenvSpec(name=name, packages=(wheel,)))
    listed = list(venvs.built())
    assert [one.name for one in listed] == ["one", "two"]
    files = [p for p in listed[0].directory.rglob("*") if p.is_file() and not p.is_symlink()]
    assert listed[0].size_bytes >= sum(p.stat().st_size for p in files) > 0
    assert [one.name for one in venvs.clean("one")] == ["one"]
    assert [one.name for one in venvs.built()] == ["two"]
    assert [one.name for one in venvs.clean()] == ["two"]
    assert list(tmp_path.rglob(MARKER)) == []


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_nobody_else_may_write_to_a_venv_whatever_the_umask(tmp_path, wheel, umask):
    before = os.umask(umask)
    try:
        built = Venvs(tmp_path).ensure(VenvSpec(name="tiny", packages=(wheel,)))
    finally:
        os.umask(before)
    assert answer(built) == "42"
    for folder, _, names in os.walk(built.directory):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            if path.name != ".lock":  # uv's, which is empty and anyone's by intent
                assert path.is_symlink() or not path.stat().st_mode & 0o022, path


def plant_a_venv(venvs, spec):
    place = venvs.path_of(spec)
    place.mkdir(parents=True)
    (place / MARKER).write_text(spec.model_dump_json())
    (place / "bin").mkdir()
    (place / "bin" / "python").write_text("#!/bin/sh\ntouch /tmp/ran\n")
    return place


def test_a_venv_that_others_may_change_is_neither_used_nor_replaced(tmp_path):
    spec = VenvSpec(name="tiny")
    venvs = Venvs(tmp_path)
    place = plant_a_venv(venvs, spec)
    place.chmod(0o777)
    with pytest.raises(UsageError, match=rf"{re.escape(str(place))} \(mode 777\).*remove it"):
        venvs.ensure(spec)


@pytest.mark.needs("root")
def test_a_venv_of_another_user_is_not_used(tmp_path):
    spec = VenvSpec(name="tiny")
    tmp_path.chmod(0o1777)  # as the cache in skymark's images
    venvs = Venvs(tmp_path)
    place = plant_a_venv(venvs, spec)
    for path in (place.parent, place):
        os.chown(path, OTHER_USER, OTHER_USER)
        with pytest.raises(UsageError, match="belongs to"):
            venvs.ensure(spec)
        os.chown(place.parent, 0, 0)


def test_a_venv_that_is_gone_when_it_is_last_looked_at_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("skymark.execute.venvs._is_complete", lambda _: True)  # a moment before
    spec, venvs = VenvSpec(name="tiny"), Venvs(tmp_path)
    with pytest.raises(UsageError, match="SKYMARK_CACHE"):
        venvs.ensure(spec)


PLANT = """
place, ran = sys.argv[1:]
print("ready", flush=True)
while True:
    with contextlib.suppress(OSError):
        os.mkdir(place); os.mkdir(place + "/bin")
        for name in ("skymark-venv.json", "bin/python"):
            with open(place + "/" + name, "w") as file:
                file.write("#!/bin/sh\\ntouch " + ran)
            os.chmod(place + "/" + name, 0o755)
    time.sleep(random.random() / 100)
    shutil.rmtree(place, ignore_errors=True)
    time.sleep(random.random() / 5)  # a build takes as long
"""


@pytest.mark.needs("root")
def test_no_venv_of_another_user_runs_that_races_with_ours():
    spec = VenvSpec(name="tiny", imports="json")
    with tempfile.TemporaryDirectory() as name:
        cache, ran = Path(name), Path(name, "ran")
        cache.chmod(0o1777)
        (cache / "venvs").mkdir()
        (cache / "venvs").chmod(0o1777)
        venvs = Venvs(cache)
        place = venvs.path_of(spec)
        with program_of_another_user(PLANT, str(place), str(ran)) as stranger:
            assert stranger.stdout.readline() == "ready\n"
            for _ in range(examples("SKYMARK_NEIGHBOURS")):
                with suppress(SkymarkError):
                    built = venvs.ensure(spec)
                    subprocess.run([built.python, "-c", "pass"], check=True)
                    shutil.rmtree(built.directory)
        assert not ran.exists()


def test_code_does_not_go_where_others_write(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    shared = tmp_path / "shared"
    (shared / "import").mkdir(parents=True)
    shared.chmod(0o777)
    told = []
    built = Venvs(shared, told.append).ensure(VenvSpec(name="tiny"))
    assert tmp_path / "own" in built.directory.parents
    (said,) = told
    place = tmp_path / "own" / "skymark" / "venvs"
    assert f", in {place}: " in said
    assert said.endswith(f" {shared} (mode 777)")
    assert tmp_path / "own" in import_root(shared).parents
    assert not list((shared / "import").iterdir())
