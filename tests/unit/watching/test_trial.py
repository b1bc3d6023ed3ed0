"""A trial: its batches, what they hold, and what counts."""

from __future__ import annotations

import io
import json
import os
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from skymark.watching.trial import BrokenLoaderError, batches_of, consume, form_of, samples_of

IMAGE, LABEL = np.zeros((8, 3, 4, 4), "float32"), np.zeros(8, "int64")


@pytest.mark.parametrize(
    ("batch", "samples", "form"),
    [
        (IMAGE, 8, "float32[N×3×4×4]"),
        ((IMAGE, LABEL), 8, "float32[N×3×4×4], int64[N]"),
        ([IMAGE, LABEL], 8, "float32[N×3×4×4], int64[N]"),
        ({"image": IMAGE, "label": LABEL}, 8, "image: float32[N×3×4×4], label: int64[N]"),
        ({"epoch": 1, "data": {"image": IMAGE}}, 8, "epoch: int, data: image: float32[N×3×4×4]"),
        (["a", "b", "c"], 3, "list"),
        (SimpleNamespace(pixels=IMAGE), 8, "SimpleNamespace"),
        ("text", None, "str"),
        (np.float64(1), None, "float64[N]"),
    ],
)
def test_a_batch_says_its_samples_and_its_form(batch, samples, form):
    assert samples_of(batch) == samples
    assert form_of(batch) == form


def test_an_epoch_follows_another_also_of_an_iterator():
    calls = []

    def one_shot():
        calls.append(1)
        return iter([1, 2])

    assert list(islice(batches_of(lambda: [1, 2]), 5)) == [1, 2, 1, 2, 1]
    assert list(islice(batches_of(one_shot), 5)) == [1, 2, 1, 2, 1]
    assert len(calls) == 3


def test_a_loader_without_batches_is_an_error():
    with pytest.raises(BrokenLoaderError):
        next(batches_of(list))


@pytest.mark.parametrize("wanted", [1, 7])
def test_batches_count_from_the_word_on_and_as_many_as_were_asked_for(tmp_path, wanted):
    path = tmp_path / "loader_under_trial.py"
    path.write_text("def make(size=2):\n    return [list(range(size))] * 3\n")
    order = {
        "file": str(path),
        "function": "make",
        "arguments": {"size": 5},
        "step_s": 0.0001,
        "seconds": 0.0,
        "batches": wanted,
        "samples": 1,
    }
    received, sent = os.pipe()
    with os.fdopen(received) as commands, os.fdopen(sent, "w") as word:

        class Answers(io.StringIO):
            def flush(self):
                if '"warm"' in self.getvalue() and not word.closed:
                    word.write("count\n")
                    word.close()

        answers = Answers()
        consume(order, commands, answers)
    warm, done = map(json.loads, answers.getvalue().splitlines())
    assert (warm["state"], warm["form"], done["state"]) == ("warm", "list", "done")
    assert len(done["waits_ns"]) == wanted
    assert done["samples"] == 5 * wanted
    assert done["elapsed_ns"] >= wanted * 100_000
    assert done["elapsed_ns"] >= sum(done["waits_ns"])
