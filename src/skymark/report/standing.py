"""Standing of a run under way: the median of each adapter's rounds so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from skymark.model.metric import Declaration, Metric
from skymark.model.record import Cell
from skymark.report.text import writer

MOST_COLUMNS = 4
"""Scenarios beside one another; of more, only the one that is being measured is shown."""


class Standing:
    """Values of the rounds so far, by scenario and adapter.

    Args:
        declaration: names the metrics and the adapters.
    """

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._values: dict[str, dict[str, list[float]]] = {}
        self._metrics: dict[str, Metric] = {}
        self._latest = ""

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> str | None:
        """Add a round's figures and return the sentence that tells where the adapter stands.

        Returns:
            Such as ``CV-1:small, Google Grain: 412 rows/s, median of 2 rounds 405; best so far
            NVIDIA DALI with 650``; None where the round has no rate.
        """
        metric = self._metric(metrics)
        if metric is None:
            return None
        self._latest = cell.label
        self._metrics[cell.label] = metric
        of_label = self._values.setdefault(cell.label, {})
        values = of_label.setdefault(cell.adapter, [])
        values.append(metrics[metric.name])
        write = writer(metric)
        said = f"{cell.label}, {self._name(cell.adapter)}: {write(values[-1])} {metric.heading}"
        if len(values) > 1:
            said += f", median of {len(values)} rounds {write(median(values))}"
        best = self._best(of_label, metric)
        if len(of_label) > 1 and best != cell.adapter:
            said += f"; best so far {self._name(best)} with {write(median(of_label[best]))}"
        return said

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the table: a column of medians for each scenario shown."""
        each = (f"{label}, {self._metrics[label].heading} (rounds)" for label in self._shown())
        return ("median so far", *each)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row for each adapter, in the order of their first rounds."""
        shown = self._shown()
        write = {label: writer(self._metrics[label]) for label in shown}
        for adapter in dict.fromkeys(one for label in shown for one in self._values[label]):
            each = ((write[one], self._values[one].get(adapter)) for one in shown)
            told = (
                f"{text(median(found))} ({len(found)})" if found else "" for text, found in each
            )
            yield (self._name(adapter), *told)

    def _shown(self) -> tuple[str, ...]:
        labels = tuple(self._values)
        return labels if len(labels) <= MOST_COLUMNS else (self._latest,)

    def _metric(self, metrics: Mapping[str, float]) -> Metric | None:
        """Return the primary metric, or its stand-in where a round has only that."""
        declared = (self._declaration.primary_metric, self._declaration.stand_in_metric)
        return next((one for one in declared if one is not None and one.name in metrics), None)

    def _name(self, adapter: str) -> str:
        return self._declaration.adapter_name(adapter)

    @staticmethod
    def _best(of_label: Mapping[str, list[float]], metric: Metric) -> str:
        choose = min if metric.better == "lower" else max
        return choose(of_label, key=lambda adapter: median(of_label[adapter]))
