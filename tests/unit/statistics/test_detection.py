"""Which change can be shown in which time, given rounds of the same work."""

from __future__ import annotations

import pytest

from skymark.statistics.difference import UnpairedContrast
from skymark.statistics.power import POWER, detections, probability_of_verdict

ONE_PER_CENT = (1.0, 1.01, 0.99, 1.012, 0.988, 1.004)


def test_the_rounds_that_are_told_show_the_change_and_one_fewer_does_not():
    (found,) = detections(ONE_PER_CENT, 0.5, [0.01])
    assert found.rounds is not None
    assert found.rounds > 3
    assert found.measured_s == pytest.approx(2 * found.rounds * 0.5)
    variance = 0.0101**2  # of the logarithms, near enough
    seen = UnpairedContrast(0.00995, 0.0, None, (1, 1), (variance, variance))
    assert probability_of_verdict(seen, found.rounds) > POWER > probability_of_verdict(seen, 3)


def test_larger_changes_take_fewer_rounds_and_calmer_machines_too():
    rough = detections([one**4 for one in ONE_PER_CENT], 0.5)
    calm = detections(ONE_PER_CENT, 0.5)
    rounds = [one.rounds for one in calm]
    assert rounds == sorted(rounds, reverse=True)
    assert all(a.rounds <= b.rounds for a, b in zip(calm, rough, strict=True))
    assert calm[0].rounds < rough[0].rounds


def test_a_machine_without_noise_needs_two_rounds_and_one_of_chance_cannot_do_it():
    assert {one.rounds for one in detections([1.0] * 4, 0.5)} == {2}
    hopeless = detections([1.0, 5.0, 0.2, 1.0], 0.5, [0.01])
    assert (hopeless[0].rounds, hopeless[0].measured_s) == (None, None)


def test_one_round_tells_no_spread():
    with pytest.raises(ValueError, match="two of them"):
        detections([1.0], 0.5)
