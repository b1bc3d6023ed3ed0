"""A machine gets the secrets that its run needs, and no other."""

from skymark.cloud.secret_variables import secrets_for
from tests.unit.run.past_runs import cell, plan

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
