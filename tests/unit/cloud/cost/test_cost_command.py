"""How an quote is shown, and what `skymark cost` refuses before it asks for a price."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import pytest

from skymark.cli.caller import print_json
from skymark.cli.cost import as_json, as_markdown, print_quote
from skymark.cli.main import main
from tests.unit.cloud.cost.conftest import offer

MARKDOWN = """\
### What the benchmark would cost: `gpu_a100`

❌ Not started: this run may cost up to 3.87 USD (expected 2.58) on 2 × gpu_1x_a100 of lambda, and \
--max-cost is 2.00 USD; give a higher --max-cost, --deadline 46m or less, or choose less \
work.

Deadline of set-up and run 1 h 30 min: expected 2.58 USD, at most 3.87 USD, on the cheapest machine.

| machine | where |  | USD/h | low | expected | high USD |
| --- | --- | --- | --- | --- | --- | --- |
| 2 × gpu_1x_a100 (A100:1) | lambda us-east-1 and 1 more |  | 2.58 | 1.29 | 2.58 | 3.87 |
| 2 × 1x-H100 (H100:1) | vast Texas, US, NA | spot | 3.74 (on demand) | 1.87 | 3.74 | 5.61 |

Paid for 30 min 0 s to 1 h 30 min, expected 1 h 0 min: machine 0 ms, set-up 0 ms, run 1 h 0 min, \
end 0 ms. Times of 5 of 12 cells come from earlier runs.

Prices are of SkyPilot's catalogue of 2026-10-03, without disk and network traffic.

“on demand”: the catalogue has no spot price; counted as if on demand."""


@pytest.fixture
def quote(make_quote):
    spot = {"cloud": "vast", "region": "Texas, US, NA", "instance_type": "1x-H100"}
    return make_quote(
        offer(1.29),
        offer(1.29, region="us-west-1"),
        offer(1.87, **spot, accelerators="H100:1", spot=True, price_from="on demand"),
        num_nodes=2,
        deadline_s=5400,
    )


def test_markdown_has_the_verdict_the_machines_and_what_the_figures_are_made_of(quote):
    assert as_markdown(quote, 2.0) == MARKDOWN


def test_markdown_says_that_a_run_stays_below_its_ceiling(quote):
    assert re.search(r"✅ .*\b4\.00 USD", as_markdown(quote, 4.0))


def test_markdown_without_a_ceiling_has_no_verdict(quote):
    assert not set("✅❌") & set(as_markdown(quote))


def test_a_name_cannot_add_a_column_to_the_markdown(make_quote):
    odd = as_markdown(make_quote(offer(1.0, region="a|b")))
    assert "lambda a&#124;b" in odd


def test_a_name_gets_no_power_in_the_markdown(make_quote):
    odd = as_markdown(make_quote(offer(1.0, region="<img src=x> [a](b) ```\n# @everyone\x1b[2J")))
    (row,) = [line for line in odd.splitlines() if "everyone" in line]
    assert not set("<`[\x1b") & set(row)
    assert "@everyone" not in row


def test_json_has_the_cost_on_every_machine(quote, capsys):
    print_json(as_json(quote))
    found = json.loads(capsys.readouterr().out)
    assert found["cost"]["expected_usd"] == pytest.approx(2.58)
    costs = [one["cost"]["high_usd"] for one in found["offers"]]
    assert costs == [pytest.approx(3.87), pytest.approx(3.87), pytest.approx(5.61)]
    assert found["billed"] == {"low_s": 1800, "expected_s": 3600, "high_s": 5400}
    assert found["catalogue_date"] == "2026-10-03"


def test_the_table_has_one_row_per_machine_and_price(quote, capsys):
    print_quote(quote)
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"\D*1 h 30 min\b.*\b2\.58 USD", lines[0])
    assert sum("gpu_1x_a100" in line for line in lines) == 1
    assert "and 1 more" in lines[3]


def test_a_long_list_is_cut_and_says_so(make_quote, capsys):
    print_quote(make_quote(*(offer(1.0 + number) for number in range(13))))
    said = capsys.readouterr().out
    assert sum("gpu_1x_a100" in line for line in said.splitlines()) == 10
    assert "3 dearer machines" in said


def test_a_deadline_that_is_too_short_is_pointed_out(make_quote, capsys):
    print_quote(make_quote(offer(1.0), deadline_s=600))
    assert " 10 min" in capsys.readouterr().out


def test_without_a_deadline_the_high_figure_is_explained(make_quote, capsys):
    print_quote(make_quote(offer(1.0)))
    assert "--deadline 90m" in capsys.readouterr().out


def test_a_cluster_of_ones_own_is_said_to_have_no_price(make_quote, capsys):
    own = {"cloud": "slurm", "instance_type": "own machine", "accelerators": None}
    print_quote(make_quote(offer(0.0, **own, price_from="own"), catalogue_date=None))
    said = capsys.readouterr().out
    assert "0.00 (own)" in said
    assert "“own”: " in said
    assert "catalogue of" not in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-cost", "0"], "--max-cost. Must be > 0"),
        (["--num-nodes", "0"], "--num-nodes. Must be >= 1"),
        (["--deadline", "soon"], "no duration"),
        (["--scenarios", "XX-9"], "unknown scenario"),
    ],
)
def test_what_means_nothing_is_refused(options, reason, capsys):
    assert main(["cost", "cpu", *options]) == 2
    assert reason in capsys.readouterr().err


def test_an_unknown_profile_is_refused(capsys):
    assert main(["cost", "gpu_a1000"]) == 2
    assert "'gpu_a100'" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("sky") is not None, reason="SkyPilot is installed here")
def test_without_skypilot_it_says_how_to_get_it(capsys):
    assert main(["cost", "cpu"]) == 2
    assert "make it, once: make" in capsys.readouterr().err
