"""`skymark tune FILE.py:NAME`: the user's own loader, in the user's own Python."""

from __future__ import annotations

import json

import pytest

from skymark.model.record import Status
from skymark.rundir.reader import open_run
from tests.unit.watching.test_program import INTERPRETERS

TRAIN = """
import time

class Loader:
    def __init__(self, cost_s, size):
        self.cost_s, self.size = cost_s, size

    def __iter__(self):
        for _ in range(30):
            time.sleep(self.cost_s)
            yield list(range(self.size))

def make_loader(decode="slow", batch_size=4):
    if decode == "broken":
        raise OSError("no such codec")
    return Loader({"slow": 0.02, "fast": 0.0005}[decode], batch_size)

def bare(root): ...
"""


@pytest.fixture
def tune(tmp_path, skymark, monkeypatch):
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    return lambda *words: skymark("tune", *words)


CALL = ("train.py:make_loader", "--step-ms", "4", "--effort", "check", "--output", "out")


def test_the_better_parameter_is_found_with_its_code_and_its_log(tmp_path, tune):
    done = tune(*CALL, "--try", "decode=slow,fast,broken", "--target", "0.6", "--json")
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["reached"]
    assert told["chosen"]["settings"] == {"decode": "fast"}
    assert told["code"] == "loader = make_loader(decode='fast')"
    status = {one["settings"]["decode"]: one["status"] for one in told["candidates"]}
    assert status == {"fast": "ok", "slow": "ok", "broken": "failed"}
    (broken,) = [one for one in told["candidates"] if one["status"] == "failed"]
    assert "no such codec" in broken["cause"]
    by_decode = {
        one.cell.axes["decode"]: one for one in open_run(tmp_path / "out" / "rung-1").records
    }
    fast, slow = (by_decode[name].metrics for name in ("fast", "slow"))
    assert fast["utilisation"].value > slow["utilisation"].value
    assert by_decode["fast"].status is Status.OK
    log = (tmp_path / "out" / "tune.md").read_text()
    assert "no such codec" in log
    assert log.count("decode=") == 3

    again = tune(*CALL, "--try", "decode=slow,fast,broken", "--target", "0.6", "--resume", "--json")
    assert again.status == 0, again.stderr
    assert json.loads(again.stdout)["candidates"] == told["candidates"]


@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_user_s_own_python_runs_it(tmp_path, tune, version):
    fixed = ("--set", "decode=fast", "--try", "batch_size=4")
    done = tune(*CALL, *fixed, "--python", INTERPRETERS[version], "--target", "0.01", "--json")
    assert done.status == 0, done.stderr
    (record,) = open_run(tmp_path / "out" / "rung-1").records
    assert record.status is Status.OK
    assert record.conditions["batch"] == "list"


def test_a_watch_gives_the_step(tmp_path, tune):
    (tmp_path / "seen").mkdir()
    verdict = {"batches_per_s_if_data_were_free": 250.0}
    (tmp_path / "seen" / "verdict.json").write_text(json.dumps(verdict))
    done = tune(
        *("train.py:make_loader", "--watch", "seen", "--effort", "check", "--output", "out"),
        *("--try", "decode=fast", "--target", "0.01", "--json"),
    )
    assert done.status == 0, done.stderr
    (record,) = open_run(tmp_path / "out" / "rung-1").records
    assert record.cell.settings["step_ms"] == 4.0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("train.py:make_lodaer", "--step-ms", "4"), "make_loader"),
        (("absent.py:make", "--step-ms", "4"), "absent.py"),
        (("train.py:bare", "--step-ms", "4", "--try", "size=1"), "bare"),
        (("train.py:make_loader", "--step-ms", "4"), "--try"),
        (("train.py:make_loader", "--try", "decode=slow"), "--watch"),
        (("train.py:make_loader", "--watch", "nowhere", "--try", "decode=slow"), "nowhere"),
        (("train.py:make_loader", "--step-ms", "4", "--try", "decoed=slow"), "decode"),
        (("train.py:make_loader", "--step-ms", "4", "--adapters", "numpy"), "--adapters"),
        (("train.py:make_loader", "--step-ms", "4", "--profile", "cpu"), "--profile"),
        (
            ("train.py:make_loader", "--step-ms=4", "--try", "batch_size=1", "--python", "./nope"),
            "./nope",
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_runs(tmp_path, tune, words, named):
    done = tune(*words, "--output", "out")
    assert done.status == 2, done.stdout
    assert named in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_loader_that_fails_under_the_last_watch_costs_no_figure(tmp_path, tune):
    source = "import os\n" + TRAIN.replace(
        'if decode == "broken":', 'if "SKYMARK_WATCH" in os.environ:'
    )
    (tmp_path / "train.py").write_text(source)
    done = tune(*CALL, "--try", "decode=fast", "--target", "0.01", "--json")
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["chosen"]["settings"] == {"decode": "fast"}
    assert "no such codec" in told["reason"][-1]
