"""A cell by its names, in a result that stands without its records."""

from __future__ import annotations

from skymark.model.base import Frozen


class NamedCell(Frozen):
    """The names of a cell."""

    cell_id: str
    label: str
    adapter: str
