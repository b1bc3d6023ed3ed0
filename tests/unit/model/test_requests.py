"""A wrong request says its field, its value, what is accepted, and the nearest right name."""

import pytest

import skymark
from skymark.model.errors import UsageError
from skymark.model.requests import Job

WRONG = [
    (skymark.Work, {"scenario": "CV-1"}, "unknown field 'scenario'. Did you mean 'scenarios'? "),
    (skymark.Work, {"data": "photos"}, "Did you mean \"settings={'data': 'photos'}\"? Known: ad"),
    (skymark.Work, {"workers": 2}, "Did you mean \"settings={'workers': 2}\"? "),
    (skymark.Work, {"output": "a"}, "Did you mean 'Results(output=...)'? "),
    (skymark.Work, {"gpu": "H100"}, "Did you mean 'Machine(gpus=...)'? "),
    (skymark.Work, {"adapters": "numpy"}, "adapters='numpy': give a list"),
    (skymark.Work, {"scenarios": ["CV-1", 2]}, "scenarios.1=2: give a text"),
    (skymark.Work, {"rounds": 0}, "rounds=0: give 1 or more"),
    (skymark.Work, {"rounds": "few"}, "rounds='few': give a whole number"),
    (skymark.Work, {"goal": "fast"}, "goal='fast': give 'table' or 'best'"),
    (skymark.Work, {"timeout_s": "1m"}, "timeout_s='1m': give a number"),
    (skymark.Work, {"settings": "a=1"}, "settings='a=1': give a dict"),
    (
        skymark.Work,
        {"settings": {"data": None}},
        "settings.data=None: give true or false, a whole number, a number or a text",
    ),
    (skymark.Limits, {"max_cost": 5}, "unknown field 'max_cost'. Did you mean 'max_cost_usd'? "),
    (skymark.Limits, {"max_cost_usd": "5 USD"}, "max_cost_usd='5 USD': give a number"),
    (skymark.Limits, {"max_cost_usd": float("inf")}, "max_cost_usd=inf: give a finite number"),
    (skymark.Limits, {"max_cost_usd": -1}, "max_cost_usd=-1: give more than 0"),
    (skymark.Limits, {"timeout": 9}, "Did you mean 'Work(timeout_s=...)'? "),
    (skymark.Machine, {"gpus": 8}, "gpus=8: give a text"),
    (skymark.Machine, {"spot": "maybe"}, "spot='maybe': give true or false"),
    (skymark.Results, {"output": 5}, "output=5: give a path"),
    (skymark.Results, {"stores": "s3://a"}, "stores='s3://a': give a list"),
]


@pytest.mark.parametrize(("request_type", "values", "message"), WRONG, ids=str)
def test_a_wrong_request_says_what_is_accepted(request_type, values, message):
    with pytest.raises(UsageError) as caught:
        request_type(**values)
    assert str(caught.value).startswith(f"{request_type.__name__}: ")
    assert message in str(caught.value)
    assert "nput" not in str(caught.value), "a message of Pydantic"


def test_every_fault_of_a_request_is_named_at_once():
    with pytest.raises(UsageError, match=r"rounds=0: .*'adapter'.*'scenario'"):
        skymark.Work(rounds=0, adapter="numpy", scenario="CV-1")


def test_a_long_value_is_cut_and_a_secret_one_is_left_out():
    with pytest.raises(UsageError) as caught:
        skymark.Results(stores="s3://bucket/" + "long/" * 1000)
    assert len(str(caught.value)) < 200
    with pytest.raises(UsageError, match=r"Job: secrets\.TOKEN: [\w ]+$"):
        Job(secrets={"TOKEN": 12345})
