"""The sentences that say what a run shows: never more than its rounds do."""

from __future__ import annotations

import pytest

from skymark.model.record import Cause, Status
from skymark.report import verdicts
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


def test_those_that_the_best_alone_beats_are_named_together(verdict_on):
    found = verdict_on(numpy=1000, grain=1001, tfdata=3000)
    assert found.sentences[1:] == ("NumPy reference and Google Grain: no difference shown.",)


def test_what_is_undecided_is_said_with_the_time_that_would_decide_it(verdict_on):
    found = verdict_on(noise=0.05, numpy=1000, grain=1040, tfdata=400)
    assert found.decided is False
    assert set(found.best) == {"numpy", "grain"}
    assert found.text.startswith("TAB-1:small is not decided: ")
    assert "Google Grain" in found.sentences[0]
    assert "tf.data" not in found.sentences[0]
    assert found.more_s > 0
    assert "would decide it" in found.sentences[1]


def test_intervals_wider_than_the_figures_are_not_told_in_percent(verdict_on):
    found = verdict_on(noise=0.5, count=2, numpy=1000, grain=1040)
    assert found.sentences[1].startswith("Their 95 % intervals are wider than the figures")


def test_beyond_an_hour_a_quiet_machine_is_advised_in_place_of_minutes(verdict_on, monkeypatch):
    noisy = {"noise": 0.3, "count": 5, "numpy": 1000, "grain": 1040}
    minutes = verdict_on(**noisy)
    assert "more minutes of rounds would decide it" in minutes.sentences[1]
    monkeypatch.setattr(verdicts, "MOST_S", minutes.more_s - 1)
    found = verdict_on(**noisy)
    assert found.sentences[1].endswith("would decide it; use a quiet machine.")
    assert "minutes" not in found.sentences[1]


def test_one_round_each_decides_nothing(verdict_on):
    found = verdict_on(count=1, numpy=1000, grain=3000)
    assert found.decided is False
    assert found.more_s is None
    assert "One round each" in found.text


def test_an_adapter_alone_is_not_called_the_best(verdict_on):
    found = verdict_on(numpy=1000)
    assert found.decided is None
    assert "NumPy reference alone was measured" in found.text


def test_what_a_single_row_says_by_itself_is_not_told_again(verdict_on):
    assert told_of([verdict_on(numpy=1000)]) == []
    assert len(told_of([verdict_on(numpy=1000, ended=("grain",))])) == 1
    assert len(told_of([verdict_on(ended=("grain",))])) == 1
    assert len(told_of([verdict_on(numpy=1000, grain=3000)])) == 1


def test_those_without_a_result_are_named_with_their_status(verdict_on):
    found = verdict_on(numpy=1000, ended=("grain", "pytorch"))
    assert found.sentences[-1] == (
        "Without a result: Google Grain (invalid) and PyTorch DataLoader (invalid)."
    )


def test_nothing_measured_is_said(verdict_on):
    assert "nothing was measured" in verdict_on(ended=("grain",)).text


def test_scenarios_are_counted_as_decided_only_where_adapters_were_compared(verdict_on, saved):
    assert decided_in([verdict_on(numpy=1000, grain=3000)]) == "1 of 1 scenario decided"
    assert decided_in([one for one in verdicts_of(saved) if one.decided is None]) is None


def test_a_verdict_never_says_more_than_the_table(saved):
    from skymark.report.ranking_table import ranked

    for verdict in verdicts_of(saved):
        rows = ranked(saved.by_label()[verdict.label], saved.declaration)
        leaders = [row.record.cell.adapter for row in rows if row.leads]
        assert verdict.best == tuple(leaders)
        assert verdict.decided is (None if len(rows) < 2 else len(leaders) == 1)
