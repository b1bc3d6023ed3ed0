"""Allocation of rounds within a time limit, to the cells whose next round decides most.

Each sweep gives a round to the cells of the most urgent need (see `Urgency`) whose intervals it
narrows most for its time. Before each sweep, every cell is judged anew from all rounds, so a
stopped cell can start again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

from skymark.model.effort import Effort, Goal
from skymark.model.metric import Metric
from skymark.model.record import Stop
from skymark.statistics.borrowing import lent_variances
from skymark.statistics.difference import PRACTICAL, Verdict, difference
from skymark.statistics.interval import figure_of, student_quantile

FAR_BEHIND = 1 / 5
"""Cells significantly below this part of the best get no more rounds: nobody would choose them."""

RANK_CONFIDENCE = 0.999
"""Confidence of a better cell. It exceeds the 95 % of a table, because every pair is tested again
before each sweep, and a false result stops a cell."""

NEGLIGIBLE = 0.02
"""Cells that are equal within this share get no rounds to separate them, even in spare time."""

FEW_ROUNDS = 5
"""Fewer rounds alone make an interval wide: with Student's quantile it is 2.5 times the spread of
three rounds, and 1.2 times the spread of five."""

AT_ONCE = 4
"""Least number of cells per contest and need in a sweep. The upper half gets a round: readers look
at the first orders first."""

WORTHWHILE = 1 / 2
"""Least narrowing per second of a cell in a sweep, relative to the best cell's. It is below 1, so
that a cell's rounds alternate with the rounds of other cells."""


@dataclass(frozen=True)
class Standing:
    """Rounds that a cell has, and the cost of its next round."""

    name: str
    contest: str
    """Name of the group of cells that are compared with each other."""
    values: tuple[float, ...]
    """The primary metric in each round that has it."""
    rounds: int
    """Number of undisturbed rounds, including rounds without the metric."""
    process: str = ""
    """Cells of one process share its start in a sweep."""
    round_s: float = 0.0
    """Expected time of a round, without the start of its process."""
    begun: bool = False
    """Whether it has a round, if only a disturbed one."""
    open: bool = True
    """Whether the cell may get rounds; a cell with a record is only compared."""

    def is_whole(self) -> bool:
        """Return whether each round has the metric."""
        return len(self.values) == self.rounds

    def narrowing(self) -> float:
        """Return by how much one more round narrows the interval, as a logarithm.

        Student's interval is assumed to keep its spread, so the result depends on the number of
        rounds only. A rule that stopped cells of small spread would favour cells with a small
        spread by luck, and their intervals would be too narrow.
        """
        return math.log(_width(self.rounds) / _width(self.rounds + 1))


@dataclass(frozen=True)
class Sweep:
    """Cells that get a round each; an empty sweep ends the measurement."""

    names: tuple[str, ...]
    stops: Mapping[str, Stop]
    """The rule that stops each other open cell at present."""


class Urgency(IntEnum):
    """Reason for another round, the most urgent first."""

    ROUNDS = 0
    """The cell has fewer rounds than the effort's minimum."""
    PLACE = 1
    """The cell's order relative to another cell is unknown, or it has few rounds and its interval
    is wider than the effort's target."""
    INTERVAL = 2
    """The cell's interval is wider than the effort's target."""
    TIE = 3
    """The cell equals another within the practical margin; spare time may separate them."""


@dataclass(frozen=True)
class Allocation:
    """Rule that allocates the rounds of a run to its cells."""

    metric: Metric
    """The primary metric."""
    effort: Effort
    goal: Goal = "table"

    def next_sweep(
        self, standings: Iterable[Standing], left_s: float, start_s: Mapping[str, float]
    ) -> Sweep:
        """Return the cells of the next sweep, and the rule that stops each other cell.

        A round that would not end in time is not started, except a cell's first: each cell needs a
        result.

        Args:
            standings: all cells that are compared with one another.
            left_s: time that is left.
            start_s: expected time to start a process, by its name.
        """
        contests: dict[str, list[Standing]] = defaultdict(list)
        for cell in standings:
            contests[cell.contest].append(cell)
        cells = [cell for contest in contests.values() for cell in contest]
        lent = lent_variances({cell.name: cell.values for cell in cells})
        waiting: dict[Urgency, list[tuple[int, Standing]]] = defaultdict(list)
        stops: dict[str, Stop] = {}
        for contest in contests.values():
            needs, ends = self._judged(contest, lent)
            stops |= ends
            for need, cells in needs.items():
                stops |= dict.fromkeys((cell.name for cell in cells), Stop.TIME)
                half = max(AT_ONCE, len(cells) // 2)
                waiting[need] += [
                    (place, cell)
                    for place, cell in enumerate(cells)
                    if need is Urgency.ROUNDS or place < half or cell.rounds < FEW_ROUNDS
                ]
        for need in sorted(waiting):
            if need is Urgency.ROUNDS:
                waiting[need].sort(key=lambda entry: (entry[1].rounds, entry[0]))
                in_order = [cell for _, cell in waiting[need]]
            else:
                in_order = _worthwhile(waiting[need], left_s, start_s)
            if names := _in_time(in_order, left_s, start_s):
                return Sweep(names, {name: stops[name] for name in stops.keys() - set(names)})
        return Sweep((), stops)

    def _judged(
        self, contest: Sequence[Standing], lent: Mapping[str, float]
    ) -> tuple[dict[Urgency, list[Standing]], dict[str, Stop]]:
        """Return a contest's open cells by need, best first, and the rule that stops each other.

        Args:
            contest: cells that are compared.
            lent: variances that cells borrow, by name.
        """
        least = max(self.effort.min_rounds, 2)
        begun = [cell for cell in contest if cell.rounds >= (least if cell.open else 2)]
        # Cells with a round that lacks the metric cannot be compared.
        ranking = sorted(filter(Standing.is_whole, begun), key=self._order)
        behind = {cell.name for cell in ranking[1:] if self._is_behind(cell, ranking[0])}
        unknown, tied = self._undecided([cell for cell in ranking if cell.name not in behind])
        needs: dict[Urgency, list[Standing]] = defaultdict(list)
        ends = {cell.name: Stop.ROUNDS for cell in begun if cell.open and not cell.is_whole()}
        for cell in (cell for cell in ranking if cell.open):
            if cell.name in behind:
                ends[cell.name] = Stop.DECIDED
            elif cell.rounds >= self.effort.max_rounds:
                ends[cell.name] = Stop.ROUNDS
            elif cell.name in unknown:
                needs[Urgency.PLACE].append(cell)
            elif not self._is_narrow(cell, lent.get(cell.name)):
                few = cell.rounds < FEW_ROUNDS
                needs[Urgency.PLACE if few else Urgency.INTERVAL].append(cell)
            elif cell.name in tied:
                needs[Urgency.TIE].append(cell)
            else:
                ends[cell.name] = Stop.INTERVAL
        needs[Urgency.ROUNDS] = [cell for cell in contest if cell.open and cell.rounds < least]
        return needs, ends

    def _order(self, cell: Standing) -> float:
        value = figure_of(cell.values, self.metric.scale).value
        return -value if self.metric.better == "higher" else value

    def _is_narrow(self, cell: Standing, borrowed: float | None) -> bool:
        width = figure_of(cell.values, self.metric.scale, borrowed).relative_half_width
        return width is not None and width <= self.effort.target_relative_interval

    def _is_behind(self, cell: Standing, best: Standing) -> bool:
        """Return whether a cell needs no more rounds, even if its interval is wide."""
        if self.goal == "best" and self._compared(cell, best) is Verdict.WORSE:
            return True
        ratio = difference(cell.values, best.values, self.metric).ratio
        if ratio is None or ratio.low is None or ratio.high is None:
            return False
        if self.metric.better == "higher":
            return ratio.high < FAR_BEHIND
        return ratio.low > 1 / FAR_BEHIND

    def _undecided(self, ranking: Sequence[Standing]) -> tuple[set[str], set[str]]:
        """Return the cells whose order relative to another is unknown, and the tied cells.

        With the goal ``best`` each cell is compared with the first only.
        """
        unknown: set[str] = set()
        tied: set[str] = set()
        by_table = self.goal == "table"
        pairs = combinations(ranking, 2) if by_table else ((ranking[0], x) for x in ranking[1:])
        for cell, other in pairs:
            if self._compared(cell, other) is not Verdict.INCONCLUSIVE:
                continue
            if self._is_equal(cell, other, PRACTICAL):
                tied |= {cell.name, other.name}
            else:
                unknown |= {cell.name, other.name}
        return unknown, tied

    def _compared(self, cell: Standing, other: Standing) -> Verdict:
        """Compare two cells at the rank confidence, without a practical margin."""
        result = difference(
            cell.values, other.values, self.metric, practical=0.0, confidence=RANK_CONFIDENCE
        )
        if result.is_real or self._is_equal(cell, other, NEGLIGIBLE):
            return result.verdict if result.is_real else Verdict.NO_DIFFERENCE
        return Verdict.INCONCLUSIVE

    def _is_equal(self, cell: Standing, other: Standing, margin: float) -> bool:
        result = difference(cell.values, other.values, self.metric, practical=margin)
        return result.verdict is Verdict.NO_DIFFERENCE


def _width(rounds: int) -> float:
    """Return the half-width of Student's interval divided by the spread."""
    return student_quantile(rounds - 1) / math.sqrt(rounds)


def _worthwhile(
    waiting: Iterable[tuple[int, Standing]], left_s: float, start_s: Mapping[str, float]
) -> list[Standing]:
    """Return the cells whose next round narrows the interval most per second, best first.

    Args:
        waiting: cells with their orders in their contests.
        left_s: time that is left; cells whose round takes longer are dropped.
        start_s: expected time to start a process, by its name; cells of one process share it.
    """

    def cost_s(cell: Standing, sharing: int = 1) -> float:
        return cell.round_s + start_s.get(cell.process, 0.0) / sharing

    cells = [(place, cell) for place, cell in waiting if cost_s(cell) <= left_s]
    sharing = Counter(cell.process for _, cell in cells)

    def per_second(cell: Standing) -> float:
        seconds = cost_s(cell, sharing[cell.process])
        return cell.narrowing() / seconds if seconds else math.inf

    most = max((per_second(cell) for _, cell in cells), default=0.0)
    chosen = [entry for entry in cells if per_second(entry[1]) >= WORTHWHILE * most]
    return [cell for _, cell in sorted(chosen, key=lambda entry: (-per_second(entry[1]), entry[0]))]


def _in_time(
    waiting: Sequence[Standing], left_s: float, start_s: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the cells whose rounds end in time and the cells without a round, in order."""
    chosen: list[str] = []
    started: set[str] = set()
    for cell in waiting:
        cost_s = cell.round_s + (0.0 if cell.process in started else start_s.get(cell.process, 0.0))
        if (cell.rounds or cell.begun) and cost_s > left_s:
            continue
        left_s -= cost_s
        started.add(cell.process)
        chosen.append(cell.name)
    return tuple(chosen)
