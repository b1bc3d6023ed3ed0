"""A part of the table of `nox -s settings_table`, and the array that it is made of."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.settings_table import LOADERS, SETTINGS, dropped, is_right, pairwise, table_of

FEW = {
    "CV-1": {"workers": (5, 8), "prefetch": (1, 4), "batch": ("7", "larger")},
    "DIST-1": {"ranks": (2, 4), "workers": (0,), "batch": ("the set", "7")},
}


@pytest.mark.parametrize("scenario", SETTINGS)
def test_each_two_values_of_two_settings_meet(scenario):
    factors = {"loader": LOADERS, **SETTINGS[scenario]}
    points = pairwise(factors)
    met = {
        pair
        for point in points
        for pair in combinations([(name, point[name]) for name in factors], 2)
    }
    for one, other in combinations(factors, 2):
        for values in product(factors[one], factors[other]):
            assert ((one, values[0]), (other, values[1])) in met
    assert len(points) < 1.1 * len(LOADERS) * max(
        len(values) for values in SETTINGS[scenario].values()
    )


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("loaders", "scenario"), [(("tfdata", "webdataset"), "CV-1"), (("numpy",), "DIST-1")]
)
def test_loaders_are_right_with_settings_that_nobody_tries_together(tmp_path, loaders, scenario):
    found = list(table_of(loaders, tmp_path, {scenario: FEW[scenario]}))
    assert len(found) >= 4
    wrong = [(point, record.cause) for _, point, record in found if not is_right(record)]
    assert not wrong


@pytest.mark.libraries
def test_a_loader_drops_short_batches_where_its_job_does(tmp_path):
    assert dropped("hf-datasets", tmp_path) == "ok"
