"""Simulated benches: cells with known speeds that share the time of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from statistics import geometric_mean

from skymark.model.effort import Effort
from skymark.model.metric import Figure, Metric
from skymark.statistics.allocation import Allocation, Standing
from skymark.statistics.borrowing import lent_variances
from skymark.statistics.interval import figure_of

RATE = Metric(name="rate", heading="rate", better="higher")
EFFORT = Effort(
    name="quick", min_rounds=3, max_rounds=200, target_relative_interval=0.1, cell_timeout_s=60
)

CHOSEN_ON = range(20)
"""Among those that the rule's constants were chosen on."""
UNSEEN = range(2000, 2100)
ALIKE = {"TAB-1": (14, 1.0)}
UNLIKE = {"CV-1": (8, 8.0), "NLP-1": (8, 1.0), "TAB-1": (8, 1.0)}
"""Libraries of each scenario, and how much longer its rounds take than those of another."""


class Bench:
    """Adapters with known speeds, each with a spread and a cost of its own."""

    START_S = 2.0

    def __init__(self, scenarios: dict[str, tuple[int, float]], time_s: float, seed: int) -> None:
        chance = Random(seed)
        self.cells = {
            f"{scenario} adapter-{number}": scenario
            for scenario, (count, _) in scenarios.items()
            for number in range(count)
        }
        self.speed = {name: chance.lognormvariate(7, 0.7) for name in self.cells}
        self.spread = {name: chance.uniform(0.02, 0.12) for name in self.cells}
        # A slow library takes longer for the least work of a round.
        self.round_s = {
            name: scenarios[scenario][1] * chance.uniform(1.5, 3) * (1 + 600 / self.speed[name])
            for name, scenario in self.cells.items()
        }
        self.chance = Random(f"rounds of {seed}")
        self.values: dict[str, list[float]] = {name: [] for name in self.cells}
        self.left_s = time_s

    def process(self, name: str) -> str:
        """Return the adapter of a cell; its cells share a process in a sweep."""
        return name.partition(" ")[2]

    def sweep(self, names: Iterable[str]) -> None:
        """Measure a round of each cell."""
        names = list(names)
        for name in names:
            factor = self.chance.lognormvariate(0, self.spread[name])
            self.values[name].append(self.speed[name] * factor)
        self.left_s -= self.cost_s(names)

    def cost_s(self, names: Iterable[str]) -> float:
        """Return the time of a round of each cell."""
        names = list(names)
        starts_s = self.START_S * len({self.process(name) for name in names})
        return starts_s + sum(self.round_s[name] for name in names)

    def right(self) -> list[bool]:
        """Whether the first three are those of the true speeds, in order, by scenario."""

        def first(cells: list[str], speed: Callable[[str], float]) -> list[str]:
            return sorted(cells, key=speed, reverse=True)[:3]

        each = [
            [name for name, its in self.cells.items() if its == scenario]
            for scenario in dict.fromkeys(self.cells.values())
        ]
        return [
            first(cells, lambda name: geometric_mean(self.values[name]))
            == first(cells, self.speed.__getitem__)
            for cells in each
        ]

    def figures(self) -> dict[str, Figure]:
        """Return the cells' rates with the intervals of a report."""
        lent = lent_variances(self.values)
        return {
            name: figure_of(values, RATE.scale, lent.get(name))
            for name, values in self.values.items()
        }

    def half_widths(self) -> list[float]:
        """Return the intervals' half widths, relative to the rates."""
        widths = [figure.relative_half_width for figure in self.figures().values()]
        return [width for width in widths if width is not None]

    def held(self) -> list[bool]:
        """Return whether each interval holds the true speed."""
        return [
            figure.low is not None
            and figure.high is not None
            and figure.low <= self.speed[name] <= figure.high
            for name, figure in self.figures().items()
        ]


def spread_evenly(bench: Bench) -> Bench:
    """Give all cells as many rounds, and what is left to the first ones."""
    while bench.left_s >= bench.cost_s(bench.cells):
        bench.sweep(bench.cells)
    for name in bench.cells:
        if bench.left_s >= bench.cost_s([name]):
            bench.sweep([name])
    return bench


def spent_where_it_decides(bench: Bench) -> Bench:
    """Give rounds as a run with a time does."""
    allocation = Allocation(RATE, EFFORT)
    start_s = {bench.process(name): bench.START_S for name in bench.cells}
    while True:
        standings = [
            Standing(
                name,
                contest,
                tuple(bench.values[name]),
                len(bench.values[name]),
                process=bench.process(name),
                round_s=bench.round_s[name],
            )
            for name, contest in bench.cells.items()
        ]
        sweep = allocation.next_sweep(standings, bench.left_s, start_s)
        if not sweep.names:
            return bench
        bench.sweep(sweep.names)
