"""Several users of one group share a cache, and none breaks on another's permissions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("root")

USERS = (40_001, 40_002)
GROUP = 40_100
"""Numbers without names: nobody has these."""

AS_USER = """
import os, sys
from pathlib import Path
import shutil, tempfile, pwd, psutil, subprocess, encodings.ascii, encodings.idna
from skymark.cache.entries import clean
from skymark.cache.building import CONTENT
from skymark.cache.location import Policy
from skymark.cache.providing import provided
from skymark.cache.recipe import recipe_of

root, user, group = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
recipe = recipe_of((str(root / "rows.json"),), needs_library=False)

def fill(self, variables):
    print("built", flush=True)
    place = Path(variables["HF_DATASETS_CACHE"], "json")
    place.mkdir()
    (place / "rows").write_text("all")
    (Path(variables["HF_DATASETS_CACHE"]).parent / "modules").mkdir(exist_ok=True)
    (Path(variables["HF_DATASETS_CACHE"]).parent / "modules" / "planted.py").touch()

type(recipe).fill = fill
os.setgroups([group])
os.setgid(group)
os.setuid(user)
os.umask(0o077)
with provided(Policy.SHARED, recipe, root, {}) as variables:
    place = Path(variables["HF_DATASETS_CACHE"], "json")
    print((place / "rows").read_text(), flush=True)
    if any(Path(variables["HF_MODULES_CACHE"]).glob("planted.py")):
        print("code of", os.stat(variables["HF_MODULES_CACHE"]).st_uid, flush=True)
    (place / "rows.lock").touch()
for one in clean(root):
    print(one.kept or "removed", flush=True)
"""


@pytest.fixture
def root():
    place = Path(tempfile.mkdtemp(prefix="caches-of-a-group-"))
    os.chown(place, -1, GROUP)
    place.chmod(0o2770)
    (place / "rows.json").write_text('{"a": 1}\n')
    (place / "rows.json").chmod(0o644)
    yield place
    shutil.rmtree(place)


def run_as(root, user):
    command = [sys.executable, "-c", AS_USER, str(root), str(user), str(GROUP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_second_user_reads_what_the_first_built_and_may_not_remove_it(root):
    script = AS_USER.partition("for one in clean")[0]
    first = [sys.executable, "-c", script, str(root), str(USERS[0]), str(GROUP)]
    built = subprocess.run(first, capture_output=True, text=True, check=False, cwd="/")
    assert built.stdout.splitlines() == ["built", "all"], built.stderr
    content, kept = run_as(root, USERS[1])
    assert content == "all"
    assert f"user {USERS[0]}" in kept
    assert run_as(root, USERS[0]) == ["all", "removed"]
    assert run_as(root, USERS[1])[0] == "built"


def test_data_of_another_user_is_compared_with_its_digests(root):
    build = AS_USER.partition("for one in clean")[0]
    for user in USERS:
        command = [sys.executable, "-c", build, str(root), str(user), str(GROUP)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["all"]
    (rows,) = root.glob("prepared/*/content/**/rows")
    rows.write_text("lla")  # by its owner, afterwards
    refused = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert refused.returncode
    assert "CacheError" in refused.stderr
    assert f"{rows} has other content" in refused.stderr
