"""Allocation of rounds within a time: to the cells whose next round decides most.

Each sweep gives a round to the cells of the most urgent need (see `Need`) whose intervals it
narrows most for its time. Everything is judged anew from all rounds before each sweep, so that a
cell which was left alone comes back when others move.
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
from skymark.statistics.difference import PRACTICAL, Verdict, difference
from skymark.statistics.interval import figure_of, student_quantile

FAR_BEHIND = 1 / 5
"""A cell shown to be below this part of the best is left alone: nobody would choose it."""

RANK_CONFIDENCE = 0.999
"""By which one cell is shown to be better than another. More than the 95 % of a table, because
every pair is looked at again before each sweep, and a look that errs leaves it alone."""

NEGLIGIBLE = 0.02
"""Cells shown to be equal within this are not told apart, however much time there is."""

FEW_ROUNDS = 5
"""An interval of fewer is wide for their number alone: with Student's quantile it is 2.5 times the
spread of three rounds, and 1.2 times that of five."""

AT_ONCE = 4
"""Of the cells of a contest that have one need, the upper half gets a round, but so many at least:
the first places are what is looked at first."""

WORTHWHILE = 1 / 2
"""The cells of a sweep narrow their interval at least so much per second, relative to the one that
does most. Less than 1, so that a cell's rounds do not follow one another without others between."""


@dataclass(frozen=True)
class Standing:
    """A cell's rounds so far, and the cost of one more."""

    name: str
    contest: str
    """Cells of one contest are compared with one another."""
    values: tuple[float, ...]
    """The primary metric in each round that has it."""
    rounds: int
    """All of them."""
    process: str = ""
    """Cells of one process share its start in a sweep."""
    round_s: float = 0.0
    """Expected time of a round, without the start of its process."""
    open: bool = True
    """Whether it may be measured; one that has its record is compared only."""

    def is_whole(self) -> bool:
        """Whether each round has the metric."""
        return len(self.values) == self.rounds

    def narrowing(self) -> float:
        """Return by how much one more round narrows the interval, as a logarithm.

        That of Student's interval, if the rounds are as far apart as before. It is the same for all
        cells of as many rounds: if those with a small spread were left alone, those would be which
        have it by luck, and their intervals would be too narrow.
        """
        return math.log(_width(self.rounds) / _width(self.rounds + 1))


@dataclass(frozen=True)
class Sweep:
    """The cells that get a round each; with none of them, measuring ends."""

    names: tuple[str, ...]
    stops: Mapping[str, Stop]
    """Of the open cells that are left out: the rule that stops them, as things stand."""


class Need(IntEnum):
    """The reason for another round, the most urgent first."""

    ROUNDS = 0
    """It lacks the effort's least rounds."""
    PLACE = 1
    """It is not known whether it or one that it is compared with is better, or it has few rounds
    and its interval is wider than the effort asks for."""
    INTERVAL = 2
    """Its interval is wider than the effort asks for."""
    TIE = 3
    """It is equal to another one but for what hardly matters; spare time may tell them apart."""


@dataclass(frozen=True)
class Allocation:
    """The rule by which the rounds of a run are given to its cells."""

    metric: Metric
    """The primary one."""
    effort: Effort
    goal: Goal = "table"

    def next_sweep(
        self, standings: Iterable[Standing], left_s: float, start_s: Mapping[str, float]
    ) -> Sweep:
        """Return the cells of the next sweep, and the rule that stops each of the others.

        A round that would not end in time is not begun, except the first of a cell: without one it
        has no result.

        Args:
            standings: all cells that are compared with one another.
            left_s: time that is left.
            start_s: expected time to start a process, by its name.
        """
        contests: dict[str, list[Standing]] = defaultdict(list)
        for one in standings:
            contests[one.contest].append(one)
        waiting: dict[Need, list[tuple[int, Standing]]] = defaultdict(list)
        stops: dict[str, Stop] = {}
        for contest in contests.values():
            needs, ends = self._judged(contest)
            stops |= ends
            for need, cells in needs.items():
                stops |= dict.fromkeys((one.name for one in cells), Stop.TIME)
                half = max(AT_ONCE, len(cells) // 2)
                waiting[need] += [
                    (place, one)
                    for place, one in enumerate(cells)
                    if need is Need.ROUNDS or place < half or one.rounds < FEW_ROUNDS
                ]
        for need in sorted(waiting):
            if need is Need.ROUNDS:
                waiting[need].sort(key=lambda entry: (entry[1].rounds, entry[0]))
                in_order = [one for _, one in waiting[need]]
            else:
                in_order = _worthwhile(waiting[need], left_s, start_s)
            if names := _in_time(in_order, left_s, start_s):
                return Sweep(names, {name: stops[name] for name in stops.keys() - set(names)})
        return Sweep((), stops)

    def _judged(
        self, contest: Sequence[Standing]
    ) -> tuple[dict[Need, list[Standing]], dict[str, Stop]]:
        """Return the open cells of a contest by need, the best first, and the other ones' ends."""
        least = max(self.effort.min_rounds, 2)
        begun = [one for one in contest if one.rounds >= (least if one.open else 2)]
        # A round without the metric leaves nothing to decide by.
        ranking = sorted(filter(Standing.is_whole, begun), key=self._order)
        behind = {one.name for one in ranking[1:] if self._is_behind(one, ranking[0])}
        unknown, tied = self._undecided([one for one in ranking if one.name not in behind])
        needs: dict[Need, list[Standing]] = defaultdict(list)
        ends = {one.name: Stop.ROUNDS for one in begun if one.open and not one.is_whole()}
        for one in (one for one in ranking if one.open):
            if one.name in behind:
                ends[one.name] = Stop.DECIDED
            elif one.rounds >= self.effort.max_rounds:
                ends[one.name] = Stop.ROUNDS
            elif one.name in unknown:
                needs[Need.PLACE].append(one)
            elif not self._is_narrow(one):
                few = one.rounds < FEW_ROUNDS
                needs[Need.PLACE if few else Need.INTERVAL].append(one)
            elif one.name in tied:
                needs[Need.TIE].append(one)
            else:
                ends[one.name] = Stop.INTERVAL
        needs[Need.ROUNDS] = [one for one in contest if one.open and one.rounds < least]
        return needs, ends

    def _order(self, one: Standing) -> float:
        value = figure_of(one.values, self.metric.scale).value
        return -value if self.metric.better == "higher" else value

    def _is_narrow(self, one: Standing) -> bool:
        width = figure_of(one.values, self.metric.scale).relative_half_width
        return width is not None and width <= self.effort.target_relative_interval

    def _is_behind(self, one: Standing, best: Standing) -> bool:
        """Whether a cell is left alone, however wide its interval is."""
        if self.goal == "best" and self._compared(one, best) is Verdict.WORSE:
            return True
        ratio = difference(one.values, best.values, self.metric).ratio
        if ratio is None or ratio.low is None or ratio.high is None:
            return False
        if self.metric.better == "higher":
            return ratio.high < FAR_BEHIND
        return ratio.low > 1 / FAR_BEHIND

    def _undecided(self, ranking: Sequence[Standing]) -> tuple[set[str], set[str]]:
        """Return the cells whose place beside another is not known, and those that are tied.

        With the goal ``best`` the other is the first alone.
        """
        unknown: set[str] = set()
        tied: set[str] = set()
        by_table = self.goal == "table"
        pairs = combinations(ranking, 2) if by_table else ((ranking[0], x) for x in ranking[1:])
        for one, other in pairs:
            if self._compared(one, other) is not Verdict.INCONCLUSIVE:
                continue
            if self._is_equal(one, other, PRACTICAL):
                tied |= {one.name, other.name}
            else:
                unknown |= {one.name, other.name}
        return unknown, tied

    def _compared(self, one: Standing, other: Standing) -> Verdict:
        """Return which one is better, by however little, or that it cannot be told."""
        found = difference(
            one.values, other.values, self.metric, practical=0.0, confidence=RANK_CONFIDENCE
        )
        if found.is_real or self._is_equal(one, other, NEGLIGIBLE):
            return found.verdict if found.is_real else Verdict.NO_DIFFERENCE
        return Verdict.INCONCLUSIVE

    def _is_equal(self, one: Standing, other: Standing, margin: float) -> bool:
        found = difference(one.values, other.values, self.metric, practical=margin)
        return found.verdict is Verdict.NO_DIFFERENCE


def _width(rounds: int) -> float:
    """Return half the width of Student's interval over the spread of so many rounds."""
    return student_quantile(rounds - 1) / math.sqrt(rounds)


def _worthwhile(
    waiting: Iterable[tuple[int, Standing]], left_s: float, start_s: Mapping[str, float]
) -> list[Standing]:
    """Return the cells whose next round narrows most for its time, the one that does most first.

    Args:
        waiting: cells with their places in their contests.
        left_s: time that is left; a round that takes longer is none.
        start_s: expected time to start a process, by its name; cells of one process share it.
    """

    def cost_s(one: Standing, sharing: int = 1) -> float:
        return one.round_s + start_s.get(one.process, 0.0) / sharing

    cells = [(place, one) for place, one in waiting if cost_s(one) <= left_s]
    sharing = Counter(one.process for _, one in cells)

    def per_second(one: Standing) -> float:
        seconds = cost_s(one, sharing[one.process])
        return one.narrowing() / seconds if seconds else math.inf

    most = max((per_second(one) for _, one in cells), default=0.0)
    chosen = [entry for entry in cells if per_second(entry[1]) >= WORTHWHILE * most]
    return [one for _, one in sorted(chosen, key=lambda entry: (-per_second(entry[1]), entry[0]))]


def _in_time(
    waiting: Sequence[Standing], left_s: float, start_s: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the cells, in order, whose rounds end in time, and those that have none yet."""
    chosen: list[str] = []
    started: set[str] = set()
    for one in waiting:
        cost_s = one.round_s + (0.0 if one.process in started else start_s.get(one.process, 0.0))
        if one.rounds and cost_s > left_s:
            continue
        left_s -= cost_s
        started.add(one.process)
        chosen.append(one.name)
    return tuple(chosen)
