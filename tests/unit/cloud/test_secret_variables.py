"""A machine gets the secrets that its run needs, and no other."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from skymark.cloud.known_machines import write_secrets
from skymark.cloud.rented_run import secrets_of
from skymark.model.requests import Job
from tests.examples import examples
from tests.other_user import program_of_another_user
from tests.unit.rundir.past_runs import cell, plan

EVERYTHING = {
    "WANDB_API_KEY": "w",
    "WANDB_PROJECT": "p",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "s",
    "R2_ENDPOINT_URL": "https://r2",
    "HF_TOKEN": "h",
    "GITHUB_TOKEN": "g",
}
SYNTHETIC = plan([cell()])
REAL = plan([cell().model_copy(update={"specification": {"data": "hf://me/set"}})])


def secrets_for(plan, stores, known, **job):
    return secrets_of(stores, Job(**job), plan, known)


def test_a_run_without_a_bucket_gets_no_key_of_one():
    found = secrets_for(SYNTHETIC, (), EVERYTHING)
    assert found == {"WANDB_API_KEY": "w", "WANDB_PROJECT": "p"}


def test_a_run_with_a_bucket_gets_its_keys():
    found = secrets_for(SYNTHETIC, ("s3://bucket/runs",), EVERYTHING)
    assert found.keys() == EVERYTHING.keys() - {"HF_TOKEN", "GITHUB_TOKEN"}


def test_real_data_of_the_hub_brings_its_token():
    assert secrets_for(REAL, (), {"HF_TOKEN": "h"}) == {"HF_TOKEN": "h"}


def test_what_is_not_set_is_not_sent():
    assert secrets_for(SYNTHETIC, ("s3://bucket",), {"WANDB_API_KEY": ""}) == {}


def test_a_run_that_w_and_b_is_disabled_for_gets_no_key_of_it():
    variables = {"WANDB_API_KEY": "w", "WANDB_MODE": "disabled"}
    assert secrets_for(SYNTHETIC, (), variables) == {}


def test_a_job_s_own_secrets_count_most_and_its_variables_are_read_for_a_store_s():
    own = {"variables": {"HF_TOKEN": "mine"}, "secrets": {"OTHER": "o"}}
    assert secrets_for(REAL, (), {"HF_TOKEN": "h"}, **own) == {"HF_TOKEN": "mine", "OTHER": "o"}


TAKE = """
place, name = sys.argv[1:]
def attempt():
    with contextlib.suppress(OSError):
        # In the way: a file of theirs that all may write to, or a link to one.
        os.close(os.open(name, os.O_CREAT | os.O_RDWR, 0o666)); os.chmod(name, 0o666)
    with contextlib.suppress(OSError):
        os.symlink(place + "/elsewhere", name)
    for path in (name, place + "/elsewhere"):
        with contextlib.suppress(OSError):
            if "canary" in open(path).read():
                print("stolen", flush=True)
print("ready", flush=True)
while True:
    attempt()
"""


@pytest.mark.needs("root")
def test_no_other_user_reads_secrets_that_they_race_for(open_ground):
    path = open_ground / "machine.secrets"
    written = 0
    with program_of_another_user(TAKE, str(open_ground), str(path)) as thief:
        assert thief.stdout.readline() == "ready\n"
        for _ in range(100 * examples("SKYMARK_NEIGHBOURS")):
            try:
                write_secrets(path, {"KEY": "canary"})
            except FileExistsError:
                continue
            written += 1
            with suppress(FileNotFoundError):
                assert path.stat().st_uid == 0
                assert path.stat().st_mode & 0o777 == 0o600
        thief.kill()
        assert thief.stdout.read() == ""
    assert written


@pytest.fixture
def open_ground():
    """A directory where every user may do as they like."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        yield Path(place)
