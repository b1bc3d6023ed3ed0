"""Tables of libraries' own operators."""

from __future__ import annotations

import pytest

from skymark.model.errors import UsageError
from skymark.suites.loading.adapters.datarax.operators import OPERATORS as DATARAX
from skymark.suites.loading.adapters.ffcv import OPERATORS as FFCV
from skymark.suites.loading.adapters.tfdata.operators import OPERATORS as TFDATA
from skymark.suites.loading.operators import OperatorTable
from skymark.suites.loading.registry import adapter_class


def test_operators_are_registered_for_several_scenarios_and_once_for_each():
    table: OperatorTable[tuple[object, bool]] = OperatorTable(lambda work, whole: (work, whole))

    @table.work("TAB-1", "DIST-1", whole=True)
    def standardise() -> None: ...

    assert table == dict.fromkeys(("TAB-1", "DIST-1"), (standardise, True))
    with pytest.raises(UsageError, match=r"^DIST-1 "):
        table.work("PR-1", "DIST-1", whole=True)
    assert "PR-1" not in table


@pytest.mark.parametrize(
    ("slug", "table"), [("datarax", DATARAX), ("ffcv", FFCV), ("tfdata", TFDATA)]
)
def test_an_adapter_calls_native_what_has_operators(slug, table):
    assert adapter_class(slug).native == set(table)
