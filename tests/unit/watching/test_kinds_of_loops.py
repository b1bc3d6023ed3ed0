"""Programs with loops of several kinds under watch: which loop is told, and as what."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skymark.watching.program import watch_program
from skymark.watching.verdict import LoopVerdict

START = """
import gc, multiprocessing, os, sys, time
from skymark.watching import watch

class Photos:
    def __init__(self, count, seconds=0.0):
        self.count, self.seconds = count, seconds
    def __iter__(self):
        for number in range(self.count):
            time.sleep(self.seconds)
            yield number

class Labels(Photos):
    pass

class DataLoader:
    def __init__(self, dataset, num_workers=0):
        self.dataset, self.num_workers, self.batch_size = dataset, num_workers, 1
    def __iter__(self):
        return iter(self.dataset)
DataLoader.__module__ = "torch.utils.data"

def train(loader, epochs=2, seconds=0.002):
    for _ in range(epochs):
        for _ in watch(loader):
            step(seconds)

def step(seconds=0.002):
    time.sleep(seconds)
"""
LOADERS = {
    "two loaders of one step: the one that is waited for": (
        """
for _ in zip(watch(Labels(40)), watch(Photos(40, 0.02))):
    step()
""",
        ("Photos", 40, 1),
    ),
    "a loop within a step: no part of it": (
        """
for number in watch(Photos(60)):
    step(0.02)
    if number % 20 == 19:
        for _ in watch(Labels(4, 0.02)):
            step(0.02)
""",
        ("Photos", 60, 1),
    ),
    "a loader made anew for each epoch: one loop": (
        """
for _ in range(4):
    photos = Photos(10)
    for _ in watch(photos):
        step()
""",
        ("Photos", 40, 4),
    ),
    "a loader that is asked anew where it ends: one loop": (
        """
photos = watch(Photos(10))
batches = iter(photos)
next(batches)
for _ in range(24):
    try:
        next(batches)
    except StopIteration:
        batches = iter(photos)
        next(batches)
    step()
""",
        ("Photos", 25, 3),
    ),
    "loaders that are kept, one line: one loop each": (
        """
def passed(*loaders):
    for loader in loaders:
        for _ in watch(loader):
            step(0.01)
            if loader.count == 9:
                break
passed(Photos(9), Photos(30))
""",
        ("Photos", 30, 1),
    ),
    "trainings with fresh loaders of one data set: one loop": (
        """
photos = Photos(10)
for _ in range(3):
    train(DataLoader(photos))
""",
        ("Photos", 60, 6),
    ),
    "trainings over data sets of their own, which are kept: one loop": (
        """
loaders = [DataLoader(Photos(10)) for _ in range(3)]
for loader in loaders:
    train(loader)
""",
        ("Photos", 60, 6),
    ),
    "trainings and validations in turn, of one type and in one line: two loops": (
        """
for _ in range(2):
    kept = [DataLoader(Photos(20)), DataLoader(Photos(10))]
    for loader in kept * 2:
        train(loader, 1)
""",
        ("Photos", 80, 4),
    ),
    "trainings with other settings: one loop each": (
        """
photos = Photos(10)
for workers in (0, 2, 4):
    train(DataLoader(photos, workers), seconds=0.01 if workers == 2 else 0.002)
""",
        ("Photos", 20, 2),
    ),
    "a loop in a process of the program's own": (
        """
def train():
    for _ in watch(Photos(20)):
        step()
process = multiprocessing.get_context("fork").Process(target=train)
process.start()
process.join()
""",
        ("Photos", 20, 1),
    ),
}
FUNCTIONS = {
    "a function": (
        """
def get_batch(split, *, size):
    time.sleep(0.002)
    return split, size
time.sleep(1.2)
for _ in range(30):
    assert get_batch("train", size=4) == ("train", 4)
    step()
""",
        "get_batch",
    ),
    "a method": (
        """
class Loader:
    def next_train_batch(self):
        return self
loader = Loader()
time.sleep(1.2)
for _ in range(30):
    assert loader.next_train_batch() is loader
    step()
""",
        "next_train_batch",
    ),
    "a function that trains on a batch": (
        """
def train_batch():
    time.sleep(0.002)
time.sleep(1.2)
for _ in range(30):
    train_batch()
""",
        None,
    ),
    "a function that asks a loader": (
        """
photos = iter(watch(Photos(30)))
def get_batch():
    return next(photos)
time.sleep(1.2)
for _ in range(30):
    get_batch()
    step()
""",
        "Photos",
    ),
}
"""Programs that import a framework and pause, so that their functions are looked for."""


def watched(folder: Path, text: str) -> LoopVerdict | None:
    """The verdict on a program, which must end well."""
    (folder / "train.py").write_text(START + text)
    outcome = watch_program([sys.executable, str(folder / "train.py")])
    assert outcome.status == 0
    assert outcome.has_python
    return outcome.verdict


@pytest.mark.parametrize("case", LOADERS)
def test_the_loop_that_matters_is_told_with_all_its_epochs(case, tmp_path):
    text, expected = LOADERS[case]
    facts = watched(tmp_path, text).facts
    assert (facts.name.split()[0], facts.batches, facts.epochs) == expected


def test_the_time_of_a_loop_within_a_step_is_told_beside_it(tmp_path):
    text, _ = LOADERS["a loop within a step: no part of it"]
    verdict = watched(tmp_path, text)
    ((name, elapsed_s, wait_s),) = verdict.facts.others
    assert name.startswith("Labels")
    assert any(name in line for line in verdict.lines())
    assert elapsed_s > wait_s > 3 * 4 * 0.02
    spans = verdict.facts.waits
    whole_s = spans[-1][0] + spans[-1][1]
    assert verdict.facts.elapsed_s == pytest.approx(whole_s - elapsed_s, rel=0.01)


def test_time_before_the_first_loop_is_no_part_of_it(tmp_path):
    (tmp_path / "torch" / "optim").mkdir(parents=True)
    (tmp_path / "torch" / "optim" / "optimizer.py").write_text("")
    text = """
import torch.optim.optimizer
def load_weights():
    time.sleep(1.2)
load_weights()
for _ in watch(Photos(10, 0.02)):
    step()
"""
    assert not watched(tmp_path, text).facts.in_threads


def test_loops_with_other_settings_are_told_apart_by_them(tmp_path):
    text, _ = LOADERS["trainings with other settings: one loop each"]
    facts = watched(tmp_path, text).facts
    assert facts.settings["num_workers"] == 2
    names = sorted(name.partition(", ")[2] for name, *_ in facts.others)
    assert names == ["num_workers=0", "num_workers=4"]


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_that_make_batches_are_counted_where_no_loader_is(case, tmp_path):
    text, name = FUNCTIONS[case]
    (tmp_path / "torch" / "optim").mkdir(parents=True)
    (tmp_path / "torch" / "optim" / "optimizer.py").write_text("")
    verdict = watched(tmp_path, f"import torch.optim.optimizer\n{text}")
    if name is None:
        assert verdict is None
    else:
        assert verdict.facts.name.startswith(name)
        assert verdict.facts.batches == 30
