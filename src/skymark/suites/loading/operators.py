"""What adapters have of a library: operators for scenarios, and work kept for the next epoch.

An adapter with operators of its own has one table of them, in a module of its package that imports
the library inside functions only: planning asks the table for which scenarios there are any.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from skymark.model.errors import UsageError

Work = TypeVar("Work")


class OperatorTable(dict[str, Work]):
    """The work that a library's own operators do, by scenario id."""

    def register(self, work: Work, *ids: str) -> None:
        """Add the work of some scenarios.

        Raises:
            UsageError: a scenario has operators already.
        """
        if taken := [id for id in ids if id in self]:
            raise UsageError(f"{', '.join(taken)} has operators already; register them once")
        self.update(dict.fromkeys(ids, work))


Caches = Literal["nothing", "objects", "decoded", "finished"]
"""Nothing, objects fetched from a store, decoded elements, or finished ones."""
