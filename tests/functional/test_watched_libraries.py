"""Loops over real libraries under watch: the library is known, and its decoding is told apart."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.planted_loops.__main__ import HERE, IN_TURN, python_of, watched

SMALL = ("grain",)


@pytest.mark.parametrize(
    "slug",
    [
        pytest.param(slug, marks=pytest.mark.core if slug in SMALL else pytest.mark.libraries)
        for slug in IN_TURN
    ],
)
def test_an_unchanged_program_s_loop_is_seen_with_its_decoding(slug):
    verdict = watched(slug, (str(HERE / "libraries.py"), slug, "slow"))
    facts = verdict["facts"]
    stages = facts["stages"]
    assert facts["batches"] == 60
    assert facts["library"] != "plain"
    # `nox -s watch` holds which stage is the largest; other programs can change that.
    assert stages["decode"]["cpu_s"] > 0


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("kind", "library"),
    [
        ("tf.data", "tf.data"),
        ("generator", "plain"),
        ("PyDataset", "keras"),
        ("PyDataset in processes", "keras"),
    ],
)
def test_the_steps_of_keras_s_fit_are_seen_and_learn_the_same(kind, library):
    script = (str(HERE / "keras_fits.py"), kind)
    verdict = watched("tfdata", script)
    facts = verdict["facts"]
    assert re.search(r"\bfit\b.*\bkeras_fits\.py\b", facts["name"])
    assert facts["library"] == library
    assert facts["batches"] == 59  # TensorFlow makes the graph in the first of 60 steps
    assert "decode" in facts["stages"]
    plain = subprocess.run(
        [str(python_of("tfdata")), *script], capture_output=True, text=True, check=True
    )
    assert plain.stdout == verdict["printed"]


@pytest.mark.libraries
@pytest.mark.parametrize(("kind", "library"), [("generator", "plain"), ("PyDataset", "keras")])
def test_keras_asks_for_batches_in_python_on_jax(kind, library, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    facts = watched("datarax", (str(HERE / "keras_fits.py"), kind))["facts"]
    assert facts["library"] == library
    assert facts["batches"] >= 60  # Keras may look at a batch ahead
    assert "decode" in facts["stages"]
