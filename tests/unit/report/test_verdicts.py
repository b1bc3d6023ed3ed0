"""The sentences that say what a run shows: never more than its rounds do."""

from __future__ import annotations

import re

import pytest

from skymark.model.record import Cause, Ceiling, MachineLimits, MachineUse, Status
from skymark.report import verdicts
from skymark.report.ranking_table import Columns, ranked
from skymark.report.verdicts import decided_in, told_of, verdicts_of
from skymark.rundir.reader import open_run


@pytest.fixture
def verdict_on(make, tmp_path):
    """Return the verdict on a scenario of adapters with rates and a noise between rounds."""

    def verdict(noise=0.01, count=3, ended=(), **rates):
        records = [
            make.measured(
                make.cell("TAB-1", name), make.rounds_of(rate, count, noise, name=f"{name}{rate}")
            )
            for name, rate in rates.items()
        ]
        records += [
            make.ended(make.cell("TAB-1", name), Status.INVALID, Cause(kind="a", message="b"))
            for name in ended
        ]
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        (found,) = verdicts_of(open_run(make.write_run(directory, records)))
        return found

    return verdict


def test_the_best_is_named_with_its_ratio_to_the_next_and_the_interval(verdict_on):
    found = verdict_on(numpy=1000, grain=1500, tfdata=3000)
    assert found.decided
    assert found.best == ("tfdata",)
    assert found.text.startswith("TAB-1:small: tf.data is fastest, 2.0 × Google Grain (")
    assert found.ratio.low < 2 < found.ratio.high
    assert found.more_s is None


@pytest.mark.parametrize(
    ("rate", "noise"), [(1060, 0.02), (1080, 0.03), (1300, 0.05), (12_000, 0.05)]
)
def test_the_interval_of_a_difference_that_is_shown_is_written_without_one(verdict_on, rate, noise):
    found = verdict_on(noise, count=8, numpy=1000, grain=rate)
    assert found.decided
    low, high = re.search(r"\((\S+) to (\S+)\)", found.text).groups()
    assert 1 < float(low) < float(high)


def test_those_that_the_best_alone_beats_are_named_together(verdict_on):
    found = verdict_on(numpy=1000, grain=1001, tfdata=3000)
    (tied,) = found.sentences[1:]
    assert re.match("NumPy .*Grain: no difference", tied)


def test_what_is_undecided_is_said_with_the_time_that_would_decide_it(verdict_on):
    found = verdict_on(noise=0.05, numpy=1000, grain=1040, tfdata=400)
    assert found.decided is False
    assert set(found.best) == {"numpy", "grain"}
    assert re.match("TAB-1:small .*not decided: ", found.text)
    assert "Google Grain" in found.sentences[0]
    assert "tf.data" not in found.sentences[0]
    assert found.more_s > 0
    assert "would decide it" in found.sentences[1]


def test_intervals_wider_than_the_figures_are_not_told_in_percent(verdict_on):
    found = verdict_on(noise=0.5, count=2, numpy=1000, grain=1040)
    assert re.findall(r"(\S+) %", found.sentences[1]) == ["95"]


def test_beyond_an_hour_a_quiet_machine_is_advised_in_place_of_minutes(verdict_on, monkeypatch):
    noisy = {"noise": 0.3, "count": 5, "numpy": 1000, "grain": 1040}
    minutes = verdict_on(**noisy)
    assert re.search(r"\d+ more minutes", minutes.sentences[1])
    monkeypatch.setattr(verdicts, "MOST_S", minutes.more_s - 1)
    found = verdict_on(**noisy)
    assert re.search(" hour .*quiet machine", found.sentences[1])
    assert "minutes" not in found.sentences[1]


def test_one_round_each_decides_nothing(verdict_on):
    found = verdict_on(count=1, numpy=1000, grain=3000)
    assert found.decided is False
    assert found.more_s is None
    assert "One round each" in found.text


def test_an_adapter_alone_is_not_called_the_best(verdict_on):
    found = verdict_on(numpy=1000)
    assert found.decided is None
    assert "NumPy reference alone" in found.text


def test_what_a_single_row_says_by_itself_is_not_told_again(verdict_on):
    assert told_of([verdict_on(numpy=1000)]) == []
    assert len(told_of([verdict_on(numpy=1000, ended=("grain",))])) == 1
    assert len(told_of([verdict_on(ended=("grain",))])) == 1
    assert len(told_of([verdict_on(numpy=1000, grain=3000)])) == 1


def test_those_without_a_result_are_named_with_their_status(verdict_on):
    found = verdict_on(numpy=1000, ended=("grain", "pytorch"))
    assert re.search(r"Grain \(invalid\) .*DataLoader \(invalid\)", found.sentences[-1])


def test_nothing_measured_is_said(verdict_on):
    assert "nothing was measured" in verdict_on(ended=("grain",)).text


def test_scenarios_are_counted_as_decided_only_where_adapters_were_compared(verdict_on, saved):
    assert re.match(r"1\D+1 scenario ", decided_in([verdict_on(numpy=1000, grain=3000)]))
    assert decided_in([one for one in verdicts_of(saved) if one.decided is None]) is None


def test_a_verdict_never_says_more_than_the_table(saved):
    for verdict in verdicts_of(saved):
        rows = ranked(saved.by_label()[verdict.label], saved.declaration)
        leaders = [row.record.cell.adapter for row in rows if row.leads]
        assert verdict.best == tuple(leaders)
        assert verdict.decided is (None if len(rows) < 2 else len(leaders) == 1)


def taken(rounds, shares, program="stress-ng"):
    """Return rounds of which others took shares of two cores, 5 % allowed."""
    uses = [
        MachineUse(cores=2, others_cores=2 * share, program=program, most_share=0.05)
        for share in shares
    ]
    return [one.model_copy(update={"machine": use}) for one, use in zip(rounds, uses, strict=True)]


def costing(rounds, *costs):
    """Return rounds with these CPU seconds per 1000 samples."""
    return [
        one.model_copy(update={"metrics": one.metrics | {"cpu_s_per_1000_samples": cost}})
        for one, cost in zip(rounds, costs, strict=True)
    ]


@pytest.fixture
def verdict_of(make, tmp_path):
    """Return the verdict on a scenario of adapters with rounds, and the tables' rows."""

    def verdict(disturbed=(), **rounds):
        records = [
            make.measured(make.cell("TAB-1", name), of_it, disturbed=name in disturbed)
            for name, of_it in rounds.items()
        ]
        run = open_run(make.write_run(tmp_path / "run", records))
        (found,) = verdicts_of(run)
        return found, ranked(run.records, run.declaration)

    return verdict


def test_a_verdict_says_who_took_how_much_in_how_many_rounds(make, verdict_of):
    disturbed = taken(make.rounds_of(1000, 4), (0.0, 0.45, 0.45, 0.0))
    found, _ = verdict_of(numpy=disturbed, grain=taken(make.rounds_of(3000, 3), (0.0,) * 3))
    assert found.decided
    for words in ("stress-ng", "0.9 of 2 cores", "2 of 7 rounds"):
        assert words in found.sentences[-1]


def test_a_disturbed_record_is_shown_but_not_ranked(make, verdict_of):
    grain = taken(make.rounds_of(3000, 3), (0.4, 0.4, 0.0))
    found, rows = verdict_of(disturbed=("grain",), numpy=make.rounds_of(1000, 3), grain=grain)
    assert [row.record.cell.adapter for row in rows] == ["numpy"]
    assert found.best == ("numpy",)
    assert found.decided is None


def test_where_all_are_disturbed_there_is_no_ranking_but_costs_are_told(make, verdict_of):
    busy = (0.4, 0.4, 0.4)
    numpy = taken(costing(make.rounds_of(1000, 3), 1.0, 1.01, 0.99), busy)
    grain = taken(costing(make.rounds_of(3000, 3), 0.5, 0.51, 0.505), busy)
    found, rows = verdict_of(disturbed=("numpy", "grain"), numpy=numpy, grain=grain)
    assert (rows, found.best, found.cheapest) == ([], (), "grain")
    assert "no ranking" in found.text


@pytest.mark.parametrize(
    ("costs", "cheapest"),
    [
        (((1.0, 1.01, 0.99), (0.8, 0.81, 0.79)), "grain"),
        (((0.8, 0.81, 0.79), (1.0, 1.01, 0.99)), "numpy"),
        (((1.0, 1.01, 0.99), (0.99, 1.0, 0.98)), None),
        (((1.0, 1.5, 0.6), (0.8, 1.3, 0.5)), None),
    ],
)
def test_where_rates_show_nothing_the_cpu_time_decides_if_it_can(make, verdict_of, costs, cheapest):
    numpy, grain = (
        costing(make.rounds_of(1000, 3, 0.05, name=name), *own)
        for name, own in zip("ab", costs, strict=True)
    )
    found, _ = verdict_of(numpy=numpy, grain=grain)
    assert found.decided is False
    assert found.cheapest == cheapest
    assert ("less CPU" in found.text) is (cheapest is not None)
    if cheapest is not None:
        assert "20 %" in found.text


def test_a_decided_scenario_names_no_cheapest(make, verdict_of):
    numpy = costing(make.rounds_of(1000, 3), 1.0, 1.01, 0.99)
    found, _ = verdict_of(numpy=numpy, grain=costing(make.rounds_of(3000, 3), 0.5, 0.5, 0.51))
    assert (found.decided, found.cheapest) == (True, None)


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        (None, []),
        (MachineLimits(missing="no PIL"), []),
        (MachineLimits(ceilings=(Ceiling(name="decoding", rate=4000.0, basis="b"),)), ["75 %"]),
        (
            MachineLimits(
                ceilings=(
                    Ceiling(name="decoding", rate=4000.0, basis="b"),
                    Ceiling(name="the disk", rate=3000.0, basis="b"),
                    Ceiling(name="the memory", rate=1000.0, basis="b", binds=False),
                )
            ),
            ["100 %"],
        ),
    ],
    ids=["none", "not measured", "one", "lowest that binds"],
)
def test_the_nearness_of_the_best_to_the_limit_is_told_where_it_is_known(
    make, tmp_path, limits, shares
):
    records = [
        make.measured(make.cell("TAB-1", name), make.rounds_of(rate, 3, 0.0)).model_copy(
            update={"limits": limits}
        )
        for name, rate in (("numpy", 1000), ("tfdata", 3000))
    ]
    run = open_run(make.write_run(tmp_path / "run", records))
    assert [record.limits for record in run.records] == [limits, limits]
    (verdict,) = verdicts_of(run)
    told = [sentence for sentence in verdict.sentences if "limit" in sentence]
    assert [re.findall(r"\d+ %", sentence) for sentence in told] == [[share] for share in shares]
    assert all(sentence.startswith("tf.data") for sentence in told)
    rows = ranked(run.records, run.declaration)
    columns = {filled.column.heading: filled for filled in Columns(run).standing(rows)}
    assert ("of limit" in columns) == bool(shares)
    assert [columns["of limit"].entries[0].text for _ in shares] == shares
