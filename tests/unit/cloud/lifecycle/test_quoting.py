"""Prices and ceilings of runs on machines that are there, and of workers on all GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from skymark.cli.cost import print_quote
from skymark.cloud.cost.quote import Workers
from skymark.cloud.lifecycle import quoting
from skymark.cloud.lifecycle.quoting import Slots, on_all_gpus, quote_there, slots_on
from skymark.cloud.rented_run import limits_there
from skymark.execute.planner import load_profile, make_plan
from skymark.model.duration import NOTHING
from skymark.model.errors import GateError
from skymark.model.requests import Limits, Work
from tests.rented_runs import run_of
from tests.unit.cloud.cost.conftest import offer, quote_of, span
from tests.unit.rundir.past_runs import cell, plan, planned

EIGHT = offer(8.0, accelerators="H100:8", instance_type="gpu_8x_h100")
HOURS = plan([]).model_copy(
    update={
        "cells": tuple(
            planned(cell(f"CV-{number}"), span(1800, 1800, 3600)).model_copy(
                update={"group": f"model {number}"}
            )
            for number in range(16)
        )
    }
)


@pytest.fixture(autouse=True)
def no_venvs(monkeypatch):
    """Take no time to make venvs: most cells here are no suite's."""
    monkeypatch.setattr(quoting, "set_up_time", lambda plan: NOTHING)


def there(machine=EIGHT, slots=None, **fields):
    known = {"idle_minutes": 30, "keep": True, "name": "shared"}
    return quote_there(run_of(**{**known, **fields}), HOURS, (), machine, {}, slots)


def test_workers_on_eight_gpus_cost_an_eighth_of_one():
    alone, shared = there().quote, there(slots=Slots(8, 16)).quote
    idle_usd = 8.0 * 31 / 60
    one_usd, eight_usd = (one.cost.expected_usd - idle_usd for one in (alone, shared))
    assert eight_usd == pytest.approx(one_usd / 8, rel=0.01)


def test_a_ceiling_limits_the_time_of_a_run_and_is_never_above_what_it_may_cost():
    for usd in (40.0, 120.0, 1000.0):
        quoted = there(slots=Slots(8, 16), max_cost_usd=usd)
        assert quoted.limit_s is not None
        assert quoted.quote.cost.high_usd <= usd + 1e-9
        assert quoted.limit_s + quoted.quote.duration.ending.high_s <= usd / 8.0 * 3600
    assert there(max_cost_usd=1000.0, deadline_s=600).limit_s == 600


def test_the_time_that_a_ceiling_pays_for_is_at_the_provider_s_own_price(monkeypatch):
    """The catalogue's price is a tenth of it; the task and its clouds are stood in for."""
    told = offer(8.0, catalogue_price_usd=0.8, price_from="provider")
    quote = quote_of(told, around=(60, 60, 600))
    monkeypatch.setattr(quoting, "make_task", lambda run: None)
    monkeypatch.setattr(quoting, "enabled_clouds", lambda infra, variables: None)
    monkeypatch.setattr(quoting, "withhold_provider_keys", lambda clouds: None)
    monkeypatch.setattr(quoting, "quote_for", lambda *_, **__: quote)
    monkeypatch.setattr(quoting, "prices_for", lambda task, clouds: None)
    monkeypatch.setattr(quoting, "with_told_prices", lambda prices: prices)
    quoted = quoting.quote_run(run_of(max_cost_usd=20.0), HOURS, Path("none"), {})
    assert quoted.limit_s == 20.0 / 8.0 * 3600 - 600
    assert quoted.highest_hourly_price_usd == 0.8


def test_what_is_expected_to_cost_more_than_its_ceiling_is_refused_with_the_one_that_fits():
    with pytest.raises(GateError, match=r"\b5\.00 USD\b.*--max-cost") as refused:
        there(slots=Slots(8, 16), max_cost_usd=5.0)
    fits = float(str(refused.value).split("--max-cost ")[1].split()[0])
    assert there(slots=Slots(8, 16), max_cost_usd=fits).limit_s > 0


def test_without_a_price_there_is_no_quote_and_the_deadline_counts():
    quoted = there(machine=None, deadline_s=600)
    assert (quoted.quote, quoted.limit_s) == (None, 600)


@pytest.mark.parametrize(
    ("machine_usd", "given", "profile_usd", "counts"),
    [(None, None, None, None), (5.0, None, 2.0, 5.0), (2.0, None, 5.0, 5.0), (5.0, 1.0, 9.0, 1.0)],
)
def test_a_ceiling_is_the_one_given_else_the_higher_of_machine_and_profile(
    tmp_path, machine_usd, given, profile_usd, counts
):
    limit = "" if profile_usd is None else f"max_cost_usd = {profile_usd}\n"
    profile = tmp_path / "mine.toml"
    profile.write_text(
        f'{limit}description = ""\nsuite = "loading"\nplatform = "cpu"\nscenarios = ["TAB-1"]\n'
    )
    known = run_of(max_cost_usd=machine_usd, profile=str(profile))
    limits = limits_there(known, Limits(max_cost_usd=given), load_profile(known.profile))
    assert limits == Limits(max_cost_usd=counts)


@pytest.fixture
def models(monkeypatch):
    """Plan CLIP models on eight GPUs, whose memory SkyPilot's catalogue would tell."""
    monkeypatch.setattr(quoting, "gpu_bytes", lambda kind, cloud: 80 * 2**30)

    def models(*names, **settings):
        work = Work(scenarios=("all",), adapters=names, settings=settings)
        return make_plan(load_profile("clip_8xh100"), work)

    return models


@pytest.mark.parametrize(("precision", "least"), [("fp32", 7.5), ("amp", 7)])
def test_many_clip_models_use_all_gpus_and_the_quote_says_so(models, precision, least, capsys):
    made = models("ViT-B-*", precision=precision)
    slots = slots_on(made, EIGHT)
    assert slots == Slots(8, 50)
    alone = quote_there(run_of(idle_minutes=30), made, (), EIGHT, {}).quote
    quote = alone.model_copy(update={"cluster": None, "num_nodes": 1})
    shared = on_all_gpus(quote, made, ())
    share = quote.duration.running.expected_s / shared.duration.running.expected_s
    assert least < share <= 8
    expected = Workers(kind="H100", gpus=8, working=1, precision=precision)
    assert quote.workers == expected
    print_quote(shared)
    said = capsys.readouterr().out
    assert (shared.workers.working, shared.workers.slots) == (8, 50)
    assert f"{shared.workers_in_words}." in said
    for value in ("8 of 8 H100", "50 workers", precision):
        assert value in shared.workers_in_words


def test_one_process_is_all_there_is_for_loaders_one_gpu_and_one_model(models):
    assert slots_on(HOURS, EIGHT) is None
    assert slots_on(models("ViT-B-*"), offer(1.0, accelerators="H100:1")) is None
    one = models("ViT-B-32:laion2b_s34b_b79k")
    assert on_all_gpus(quote_of(EIGHT), one, ()) is None
