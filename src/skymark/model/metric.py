"""Metrics as data: a figure's name, its reading, and its value with an interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from skymark.model.base import Frozen

Better = Literal["higher", "lower"]

Scale = Literal["log", "linear", "exact"]
"""Scale on which the values of rounds are assumed to be normal; `exact` values do not vary."""

Format = Literal["count", "milliseconds", "duration", "share", "size", "number"]
"""Notation of a value; see `skymark.report.text`."""

ColumnType = Literal["bool", "int32", "int64", "float64"]

SAMPLE_ORIGIN = frozenset(
    {
        "round",
        "taken_share",
        "run_id",
        "cell_id",
        "cell_hash",
        "suite",
        "scenario",
        "variant",
        "axes",
        "adapter",
        "settings",
        "versions",
        "hardware_key",
    }
)
"""Columns of every file of raw samples: its round, run, cell, libraries and machine."""


class Shown(Frozen):
    """Display of a metric in tables."""

    format: Format = "number"
    divisor: float = Field(default=1.0, gt=0)
    """Divisor of the value: 1e6 shows bytes as megabytes."""
    digits: int = Field(default=3, ge=1, le=15)
    """Significant digits of a `number`."""
    gives_way: int = 0
    """Order in which a narrow terminal drops columns: 10 first, 0 never. From 7 on, only a wide
    table has the column."""


class Words(Frozen):
    """Adjectives of a metric's comparison."""

    better: str = "better"
    worse: str = "worse"
    best: str = "best"


class Metric(Frozen):
    """A declared figure of a suite."""

    name: str
    """Such as ``rows_per_s``: the unit is part of it."""
    heading: str
    """Such as ``rows/s``; at the head of a column."""
    unit: str = ""
    """Such as ``1/s``, ``ns`` or ``B``; empty for a share or a plain number."""
    description: str = ""
    better: Better | None = None
    """None if neither is better, as for the number of elements."""
    words: Words = Words()
    scale: Scale = "log"
    compared: bool = False
    """Whether comparisons of runs give a verdict on it."""
    gated: bool = False
    """Whether a gate fails if it got worse; it must also be `compared`."""
    pooled: bool = False
    """Whether it is derived from the raw samples of all rounds together, so it has no interval."""
    integer: bool = False
    outcome: str | None = None
    """Column of the samples with each element's part of it, whose mean over elements it is; the
    interval and comparisons are over elements then."""
    own: bool = False
    """Whether only some scenarios have it. Their tables show it; an export has it in one JSON
    column."""
    shown: Shown | None = None
    """None if tables do not show it."""

    @model_validator(mode="after")
    def _is_judged_whole(self) -> Self:
        if self.compared and self.better is None:
            raise ValueError(f"{self.name} is compared, so it must say whether more is better")
        if self.gated and not self.compared:
            raise ValueError(f"{self.name} is gated, so it must be compared")
        return self


class Figure(Frozen):
    """Value of a metric with its 95 % confidence interval; the bounds are null below two rounds."""

    value: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the value; None without an interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


class Spread(Frozen):
    """Metrics that one chart shows on one axis, such as the percentiles of a wait."""

    heading: str
    metrics: tuple[str, str, str]
    """Names in ascending order: the middle, the upper and the extreme percentile."""
    labels: tuple[str, str, str]
    """Of the three, in the heading."""


class Distribution(Frozen):
    """A column of raw samples whose distribution charts show, such as the waits."""

    heading: str
    column: str
    only: str | None = None
    """A column of truth values; samples that are false, such as a warm-up's, are dropped."""
    shown: Shown = Shown()


class Declaration(Frozen):
    """Declaration of a suite's results, stored with each run.

    Reports, comparisons, exports and stores read it instead of the suite.
    """

    suite: str
    metrics: tuple[Metric, ...]
    """Metrics in the order of display."""
    primary: str
    """The metric that orders tables and decides the number of rounds."""
    noun: str | None = None
    """The word for an adapter in tables and sentences, such as ``loader`` or ``model``."""
    stand_in: str | None = None
    """The metric that tables show, unranked, for a record without the primary metric."""
    stand_in_reason: str | None = None
    """The condition that explains why a record has only the stand-in."""
    cost: str | None = None
    """The cost that verdicts name where the primary metric shows no difference. Other programs
    disturb it little; tables show it with its interval."""
    baseline: str | None = None
    """The adapter with multiple 1; tables show all other adapters relative to it."""
    spreads: tuple[Spread, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    beside: tuple[str, ...] = ()
    """Metrics whose columns stand beside the primary metric's: costs that it does not include."""
    sample_columns: dict[str, ColumnType] = Field(default_factory=dict)
    """Columns of a cell's file of raw samples, besides `SAMPLE_ORIGIN`."""
    elements: tuple[str, ...] = ()
    """Names of the conditions that are equal if two records scored the same elements."""
    conditions: tuple[str, ...] = ()
    """Names of the conditions, beyond the settings, that a record's numbers depend on."""
    method: tuple[str, ...] = ()
    """Sentences that explain how the figures are measured."""
    legend: str = ""
    """Addition to a table's legend, in a few words."""
    legends: dict[str, str] = Field(default_factory=dict)
    """Further additions, where a record has a condition: by ``NAME=VALUE``."""
    oracle: str = ""
    """A sentence on the proof that verification gives."""
    scenario_titles: dict[str, str] = Field(default_factory=dict)
    adapter_names: dict[str, str] = Field(default_factory=dict)
    """Display names of adapters, by their names in cells."""

    @model_validator(mode="after")
    def _names_what_it_has(self) -> Self:
        spread = (name for spread in self.spreads for name in spread.metrics)
        named = {self.primary, *self.beside, *spread}
        named |= {name for name in (self.stand_in, self.cost) if name is not None}
        if unknown := named.difference(names_of(self.metrics)):
            raise ValueError(f"{sorted(unknown)} are named, but no metrics of {self.suite!r}")
        columns = {
            name
            for distribution in self.distributions
            for name in (distribution.column, distribution.only)
            if name
        }
        columns |= {one.outcome for one in self.metrics if one.outcome is not None}
        if taken := SAMPLE_ORIGIN & self.sample_columns.keys():
            raise ValueError(f"{sorted(taken)} are columns that skymark adds to all samples")
        if unknown := columns.difference(self.sample_columns):
            raise ValueError(f"{sorted(unknown)} are no columns of the samples of {self.suite!r}")
        if self.primary_metric.better is None:
            raise ValueError(f"{self.primary} orders tables, so it must say whether more is better")
        return self

    def metric(self, name: str) -> Metric:
        """Return a metric by name; an undeclared metric is shown as a plain number."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        heading = name.replace("_", " ")
        return Metric(name=name, heading=heading, own=True, shown=Shown(gives_way=10))

    @property
    def primary_metric(self) -> Metric:
        """The metric that orders tables."""
        return self.metric(self.primary)

    @property
    def stand_in_metric(self) -> Metric | None:
        """The metric of records without the primary metric, if there is one."""
        return None if self.stand_in is None else self.metric(self.stand_in)

    @property
    def cost_metric(self) -> Metric | None:
        """The cost that verdicts name where the primary metric shows no difference."""
        return None if self.cost is None else self.metric(self.cost)

    def deciding(self, metrics: Collection[str]) -> Metric:
        """Return the primary metric, or its stand-in if only that is among some metrics."""
        other = self.stand_in_metric
        has_other = self.primary not in metrics and self.stand_in in metrics
        return other if other is not None and has_other else self.primary_metric

    @property
    def shared(self) -> tuple[Metric, ...]:
        """The metrics that all scenarios have."""
        return tuple(metric for metric in self.metrics if not metric.own)

    @property
    def compared(self) -> tuple[Metric, ...]:
        """The metrics by which runs are compared."""
        return tuple(metric for metric in self.metrics if metric.compared)

    def scenario_title(self, scenario: str) -> str | None:
        """Return a scenario's work in a few words; None without a declaration."""
        return self.scenario_titles.get(scenario)

    def adapter_name(self, adapter: str) -> str:
        """Return an adapter's display name, by default its name in cells."""
        return self.adapter_names.get(adapter, adapter)


def names_of(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Return the names of metrics, in order."""
    return tuple(metric.name for metric in metrics)
