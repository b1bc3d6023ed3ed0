"""The table of wrong and honest loaders, which `nox -s cheats` measures."""

from __future__ import annotations

import pytest

from tests.oracle_cells import ROWS


@pytest.mark.parametrize(("honest", "least"), [(False, 100), (True, 30)])
def test_the_table_is_long_and_names_each_loader_once_in_a_cell(honest, least):
    rows = [row for row in ROWS if row.honest == honest]
    assert len(set(rows)) == len(rows) >= least
