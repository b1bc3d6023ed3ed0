"""The specification of a cell: the array it sorts, beyond its name. All of it is hashed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue

from skymark.model.base import Frozen
from skymark.model.record import Cell, Setting
from skymark.suite.given import read_given

SEED = 7
"""Of every random array."""


class SortingSettings(Frozen):
    """Settings of a whole run, which a user or a profile gives."""

    element: Literal["int", "float"] = "int"


class SortingOptions(Frozen):
    """Options of the command line that are no settings."""

    length: int | None = Field(default=None, ge=1)
    """Elements of every array; None for the variant's."""


class SortingSpecification(Frozen):
    """What a cell carries from the planning side to the worker's."""

    length: int
    seed: int = SEED

    @classmethod
    def of(cls, cell: Cell) -> SortingSpecification:
        """Return the specification of a cell."""
        return cls.model_validate(cell.specification)


def read_settings(settings: Mapping[str, Setting]) -> SortingSettings:
    """Read the settings of a selection or of a cell.

    Raises:
        UsageError: there is no such setting, or it has no such value.
    """
    return read_given(SortingSettings, "setting", settings)


def read_options(options: Mapping[str, JsonValue]) -> SortingOptions:
    """Read the options of a selection.

    Raises:
        UsageError: there is no such option, or it has no such value.
    """
    return read_given(SortingOptions, "option", options)
