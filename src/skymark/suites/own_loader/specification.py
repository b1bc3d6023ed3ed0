"""What a cell of a user's own loader carries from the planning side to the worker's."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.record import Cell, Setting
from skymark.suites.own_loader.maker import STEP, Maker


class OwnOptions(Frozen):
    """Options of the command line that are no settings."""

    python: str = Field(
        default="python", description="The Python that has your loader's libraries."
    )


class OwnSpecification(Frozen):
    """The function, and the interpreter that runs it."""

    maker: Maker
    python: str
    """As the user named it; a name is looked up on the PATH."""

    @classmethod
    def of(cls, cell: Cell) -> OwnSpecification:
        """Return the specification of a cell."""
        return cls.model_validate(cell.specification)


def split(settings: Mapping[str, Setting]) -> tuple[float, dict[str, Setting]]:
    """Return the seconds of a step, and the parameters of the function.

    Raises:
        UsageError: the step is no time.
    """
    step = settings.get(STEP, 0.0)
    if isinstance(step, bool | str) or step < 0:
        raise UsageError(f"setting {STEP}={step!r}: give milliseconds, such as {STEP}=120")
    return step / 1000, {name: value for name, value in settings.items() if name != STEP}
