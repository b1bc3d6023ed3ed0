"""Operators of a library, by scenario.

An adapter with its own operators has one table of them. The module imports the library only inside
functions, because planning reads the table's scenarios.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from skymark.model.errors import UsageError

Operators = TypeVar("Operators")
Function = TypeVar("Function", bound=Callable[..., Any])


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
