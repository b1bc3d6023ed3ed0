"""Loops over real libraries under watch: the library is known, and its decoding is told apart."""

from __future__ import annotations

import pytest

from tests.planted_loops.__main__ import HERE, IN_TURN, watched

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
