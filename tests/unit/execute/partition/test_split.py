"""Every split gives each item to exactly one worker, in the way that its name says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.execute.partition.shard import span_of
from skymark.execute.partition.split import (
    FORMS,
    Split,
    WorkerPlace,
    WorkerType,
    read_split,
)
from skymark.model.errors import UsageError

DURATIONS = sorted((Path(__file__).parents[3] / "data" / "durations").glob("*.json"))
THOUSAND = [1.0] * 1000

few = st.integers(1, 20)
names = st.from_regex(r"[a-z](-?[a-z0-9]){0,8}", fullmatch=True)
types = st.builds(
    WorkerType, name=names, count=few, cpus=st.decimals("0.5", "512", places=1).map(float)
)
splits = st.one_of(
    st.builds(Split.alike, st.sampled_from(["even", "longest", "balanced"]), few),
    st.tuples(few, few).map(lambda n: read_split(f"two-level:{n[0]}x{n[1]}")),
    st.tuples(few, few, few).map(lambda n: read_split(f"waves:{n[0]}x{max(n[1:])}/{min(n[1:])}")),
    st.lists(types, min_size=1, max_size=4, unique_by=lambda one: one.name).map(
        lambda of: Split(kind="weighted", types=tuple(of))
    ),
)
weights = st.lists(st.floats(0, 1e6), max_size=200)


def ranges(split, weights=THOUSAND):
    return [span_of(part.items) for part in split.parts(weights)]


@given(splits, weights)
def test_every_item_is_taken_exactly_once(split, weights):
    taken = [item for part in split.parts(weights) for item in part.items]
    assert sorted(taken) == list(range(1, len(weights) + 1))


@given(splits, weights)
def test_every_worker_has_a_part_and_a_place_of_its_own(split, weights):
    places = [part.place for part in split.parts(weights)]
    assert tuple(places) == split.places
    assert len(set(map(repr, places))) == len(places)
    assert len(places) == sum(one.count * one.completions for one in split.types)


@given(splits, weights)
def test_the_same_split_written_down_and_read_gives_the_same_parts(split, weights):
    """A worker that is started again, elsewhere, has nothing but the text and the items."""
    again = read_split(split.text)
    assert again == split
    assert again.parts(weights) == split.parts(weights)


def test_another_process_gives_the_same_parts():
    """Nothing depends on the order of a set, which differs from process to process."""
    program = (
        "from skymark.execute.partition.split import Split, read_split;"
        "print(read_split('longest:7').parts(range(100, 0, -1)))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@given(st.builds(Split.alike, st.just("even"), few), weights)
def test_even_ranges_differ_by_one_at_most(split, weights):
    lengths = [len(part.items) for part in split.parts(weights)]
    assert max(lengths) - min(lengths) <= 1


def test_even_splits_a_thousand_items_over_ten_workers_in_hundreds():
    found = ranges(Split.alike("even", 10))
    assert found[:2] == ["1–100", "101–200"]
    assert found[-1] == "901–1000"


def test_a_heavy_worker_takes_three_times_what_the_others_take():
    split = read_split("weighted:heavy=1x60,worker=7x20")
    assert ranges(split)[:2] == ["1–300", "301–400"]
    assert ranges(split)[-1] == "901–1000"
    assert split.places[0] == WorkerPlace(type="heavy", index=0)
    assert split.places[-1] == WorkerPlace(type="worker", index=6)


@given(st.lists(types, min_size=1, max_size=4, unique_by=lambda one: one.name))
def test_a_weighted_range_is_as_long_as_its_share_to_within_an_item(of):
    split = Split(kind="weighted", types=tuple(of))
    whole = sum(one.cpus * one.count for one in of)
    cpus = {one.name: one.cpus for one in of}
    for part in split.parts(THOUSAND):
        assert abs(len(part.items) - 1000 * cpus[part.place.type] / whole) < 1 + 1e-6


def test_each_completion_takes_a_tenth_of_its_worker_s_slice():
    parts = read_split("two-level:5x10").parts(THOUSAND)
    by_place = {(one.place.index, one.place.completion): span_of(one.items) for one in parts}
    assert by_place[0, 0] == "1–20"
    assert by_place[1, 0] == "201–220"
    assert by_place[4, 9] == "981–1000"


def test_waves_take_the_parts_of_two_levels_and_run_fewer_at_once():
    waves, all_at_once = read_split("waves:5x10/4"), read_split("two-level:5x10")
    assert waves.parts(THOUSAND) == all_at_once.parts(THOUSAND)
    assert [one.running for one in waves.types] == [20]
    assert [one.running for one in all_at_once.types] == [50]


def makespan(weights, workers):
    parts = Split.alike("longest", workers).parts(weights)
    return max(sum(weights[item - 1] for item in part.items) for part in parts)


@pytest.mark.parametrize("workers", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("path", DURATIONS, ids=lambda path: path.stem)
def test_the_last_worker_ends_within_five_per_cent_of_the_ideal(path, workers):
    """Of durations that were measured; see `record.py` beside them."""
    seconds = json.loads(path.read_text())
    ideal = max(sum(seconds) / workers, *seconds)
    assert makespan(seconds, workers) <= 1.05 * ideal


def test_among_the_durations_are_sets_without_an_item_that_decides_alone():
    recorded = [json.loads(path.read_text()) for path in DURATIONS]
    shares = [max(seconds) / sum(seconds) for seconds in recorded]
    assert min(shares) < 1 / 16
    assert len(shares) >= 4


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=60), few)
def test_the_longest_first_is_never_worse_than_an_equal_part_and_the_longest_item(weights, workers):
    assert makespan(weights, workers) <= (sum(weights) / workers + max(weights)) * (1 + 1e-9)


def test_neighbours_are_no_longest_first_split():
    """An even split of one long item and many short ones ends late."""
    seconds = [100.0, *[1.0] * 99]
    first, *_ = Split.alike("even", 4).parts(seconds)
    assert sum(seconds[item - 1] for item in first.items) > 1.2 * makespan(seconds, 4)


@pytest.mark.parametrize(
    "text",
    [
        "even:0", "even:-1", "even:x", "even:1x2", "longest:1.5", "weighted:", "weighted:a=1",
        "weighted:a=1x0", "weighted:a=0x1", "weighted:A=1x1", "weighted:a-=1x1", "two-level:5",
        "two-level:5x10/2", "waves:5x10", "waves:5x10/0", "even:999999", "even:٣",
    ],
)  # fmt: skip
def test_a_text_that_is_no_split_is_answered_with_one_that_is(text):
    with pytest.raises(UsageError, match=re.escape(f"--split {text} ")) as refused:
        read_split(text)
    assert FORMS[text.partition(":")[0]] in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("weighted:a=1x1,a=2x2", "type a twice"),
        ("waves:5x10/11", "11 of 10 completions"),
        ("two-level:1000x1000", "more than 100,000 parts"),
        ("weighted:a=90000x1,b=90000x1", "more than 100,000 workers"),
        ("evn:3", "'even'"),
        ("even", "--split even .*number of workers"),
    ],
)
def test_an_impossible_split_is_refused_with_its_reason(text, said):
    with pytest.raises(UsageError, match=said):
        read_split(text)


def test_the_number_of_workers_may_come_from_elsewhere():
    assert read_split("even", 4) == Split.alike("even", 4)
    assert read_split("longest", 4) == Split.alike("longest", 4)
    assert read_split("even:3", 4) == Split.alike("even", 3)
