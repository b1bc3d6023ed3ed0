"""Split a plan between machines: pure functions from cells and workers to shards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.plan import PlannedCell


class Shard(Frozen):
    """One of `count` parts of a plan, number `index` from 0: the cells of one machine."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``0/2``: the first of two.

        Raises:
            UsageError: it is not INDEX/COUNT with 0 ≤ INDEX < COUNT.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not int(match[1]) < int(match[2]):
            raise UsageError(f"--shard {text!r} must be INDEX/COUNT, such as 0/2 and 1/2")
        return cls(index=int(match[1]), count=int(match[2]))

    def take(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """Return this part of the cells; the parts of all machines are the whole, each cell once.

        Cells of one shard key stay on one machine. The largest such sets go first, each to the
        machine with the fewest cells (longest processing time first: R. L. Graham, SIAM J. Appl.
        Math. 17, 1969).
        """
        sizes = Counter(planned.shard_key for planned in cells)
        loads = [0] * self.count
        taken: set[str] = set()
        for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
            machine = loads.index(min(loads))
            loads[machine] += sizes[key]
            if machine == self.index:
                taken.add(key)
        return tuple(planned for planned in cells if planned.shard_key in taken)
