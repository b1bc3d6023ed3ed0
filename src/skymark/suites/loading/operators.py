"""Operators of a library, by scenario.

An adapter with its own operators has one table of them. The module imports the library only inside
functions, because planning reads the table's scenarios.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset

Operators = TypeVar("Operators")
Function = TypeVar("Function", bound=Callable[..., Any])

Draw = Callable[[Any, "Dataset", int], "dict[str, Array]"]
"""Function of scenario, data and epoch that returns the steps' tables ``[elements, ...]``."""


def drawn_as_they_are(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, Array]:
    """Return the scenario's own tables."""
    del dataset
    table: dict[str, Array] = scenario.table(epoch)
    return table


class OperatorTable(dict[str, Operators]):
    """The operators of a library by scenario id.

    Args:
        operators: makes a scenario's entry of a function and the arguments given to `work`.
    """

    def __init__(self, operators: Callable[..., Operators]) -> None:
        super().__init__()
        self._operators = operators

    def work(self, *ids: str, **more: Any) -> Callable[[Function], Function]:
        """Register a function as the work of some scenarios.

        Raises:
            UsageError: a scenario has operators already.
        """
        if taken := [id for id in ids if id in self]:
            raise UsageError(f"{', '.join(taken)} has operators already; register them once")

        def register(function: Function) -> Function:
            self.update(dict.fromkeys(ids, self._operators(function, **more)))
            return function

        return register
