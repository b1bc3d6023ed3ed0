"""Metrics as data: a figure's name, its reading, and its value with an interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from skymark.model.base import Frozen

Better = Literal["higher", "lower"]

Scale = Literal["log", "linear", "exact"]
"""Where the values of rounds are taken to be normally distributed; `exact` ones do not vary."""

Format = Literal["count", "milliseconds", "duration", "share", "size", "number"]
"""How a value is written; see `skymark.report.text`."""

ColumnType = Literal["bool", "int32", "int64", "float64"]


class Shown(Frozen):
    """How tables show a metric."""

    format: Format = "number"
    divisor: float = Field(default=1.0, gt=0)
    """A value is divided by it first: 1e6 shows bytes as megabytes."""
    digits: int = Field(default=3, ge=1, le=15)
    """Significant digits of a `number`."""
    gives_way: int = 0
    """How soon a narrow terminal leaves the column out: 10 first, 0 never. The multiple of the
    baseline has 6."""


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
    """None where neither is: the number of elements, say."""
    words: Words = Words()
    scale: Scale = "log"
    compared: bool = False
    """Whether two runs are compared by it, with a verdict."""
    gated: bool = False
    """Whether a gate says no where it got worse; only of what is compared."""
    pooled: bool = False
    """Derived from the raw samples of all rounds together, so that it has no interval."""
    integer: bool = False
    own: bool = False
    """Only some scenarios have it. Tables of those show it, an export has it in one JSON column."""
    shown: Shown | None = None
    """None where tables leave it out."""

    @model_validator(mode="after")
    def _is_judged_whole(self) -> Self:
        if self.compared and self.better is None:
            raise ValueError(f"{self.name} is compared, so it must say whether more is better")
        if self.gated and not self.compared:
            raise ValueError(f"{self.name} is gated, so it must be compared")
        return self


class Figure(Frozen):
    """A metric's value with its 95 % confidence interval; the bounds are null below two rounds."""

    value: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the value, or None where there is no interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


class Spread(Frozen):
    """Metrics that one chart shows on one axis, such as the percentiles of a wait."""

    heading: str
    metrics: tuple[str, str, str]
    """Names in ascending order: the middle, the upper and the extreme one."""
    labels: tuple[str, str, str]
    """Of the three, in the heading."""


class Distribution(Frozen):
    """A column of raw samples whose distribution charts show, such as the waits."""

    heading: str
    column: str
    only: str | None = None
    """A column of truth values: samples without it are left out, such as those of the warm-up."""
    shown: Shown = Shown()


class Declaration(Frozen):
    """What a suite declares of its results; kept with each run, so that it explains itself.

    Reports, comparisons, exports and stores are derived from it, and need no suite.
    """

    suite: str
    metrics: tuple[Metric, ...]
    """In the order in which they are shown."""
    primary: str
    """The metric that orders tables and decides when there are rounds enough."""
    stand_in: str | None = None
    """The metric that tables show of a record without the primary one, apart from the ranking."""
    stand_in_reason: str | None = None
    """The condition that says why a record has that one only."""
    baseline: str | None = None
    """The adapter that others are shown as a multiple of."""
    spreads: tuple[Spread, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    beside: tuple[str, ...] = ()
    """Metrics whose columns stand beside the primary one's: costs that it leaves out."""
    sample_columns: dict[str, ColumnType] = Field(default_factory=dict)
    """Columns of a cell's file of raw samples, besides the round's number."""
    conditions: tuple[str, ...] = ()
    """Names of what a record's numbers depend on, beyond its settings."""
    method: tuple[str, ...] = ()
    """Sentences that tell how the figures come about."""
    legend: str = ""
    """What a table's legend adds to the meaning of its columns, in a few words."""
    oracle: str = ""
    """A sentence that tells what verification proves."""
    scenario_titles: dict[str, str] = Field(default_factory=dict)
    adapter_names: dict[str, str] = Field(default_factory=dict)
    """The adapters' own names, by what cells call them."""

    @model_validator(mode="after")
    def _names_what_it_has(self) -> Self:
        spread = (name for spread in self.spreads for name in spread.metrics)
        named = {self.primary, *self.beside, *spread}
        if self.stand_in is not None:
            named.add(self.stand_in)
        if unknown := named.difference(names_of(self.metrics)):
            raise ValueError(f"{sorted(unknown)} are named, but no metrics of {self.suite!r}")
        columns = {name for one in self.distributions for name in (one.column, one.only) if name}
        if unknown := columns.difference(self.sample_columns):
            raise ValueError(f"{sorted(unknown)} are no columns of the samples of {self.suite!r}")
        if self.primary_metric.better is None:
            raise ValueError(f"{self.primary} orders tables, so it must say whether more is better")
        return self

    def metric(self, name: str) -> Metric:
        """Return a metric by name; one that is not declared is shown as a plain number."""
        for one in self.metrics:
            if one.name == name:
                return one
        heading = name.replace("_", " ")
        return Metric(name=name, heading=heading, own=True, shown=Shown(gives_way=10))

    @property
    def primary_metric(self) -> Metric:
        """The metric that orders tables."""
        return self.metric(self.primary)

    @property
    def stand_in_metric(self) -> Metric | None:
        """The metric of records without the primary one; None for none."""
        return None if self.stand_in is None else self.metric(self.stand_in)

    def deciding(self, metrics: Collection[str]) -> Metric:
        """Return the primary metric, or its stand-in where only that is among some metrics."""
        other = self.stand_in_metric
        has_other = self.primary not in metrics and self.stand_in in metrics
        return other if other is not None and has_other else self.primary_metric

    @property
    def shared(self) -> tuple[Metric, ...]:
        """The metrics that all scenarios have."""
        return tuple(one for one in self.metrics if not one.own)

    @property
    def compared(self) -> tuple[Metric, ...]:
        """The metrics by which runs are compared."""
        return tuple(one for one in self.metrics if one.compared)

    def scenario_title(self, scenario: str) -> str | None:
        """Return a scenario's work in a few words; None where none is declared."""
        return self.scenario_titles.get(scenario)

    def adapter_name(self, adapter: str) -> str:
        """Return an adapter's own name; what a cell calls it where none is declared."""
        return self.adapter_names.get(adapter, adapter)


def names_of(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Return the names of metrics, in order."""
    return tuple(one.name for one in metrics)
