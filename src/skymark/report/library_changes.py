"""Mean changes of libraries between two runs, which each of their cells is held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from statistics import fmean

from skymark.statistics.common_change import BesideOthers, CommonChange, beside, common_change
from skymark.statistics.contrast import Contrast

Judged = tuple[str, str]
"""A cell's id and a metric's name."""


class LibraryChanges:
    """Mean change of each library that kept its version, by metric; on a logarithmic scale."""

    def __init__(
        self,
        contrasts: Mapping[Judged, Contrast],
        adapters: Mapping[str, str],
        unchanged: Collection[str],
    ) -> None:
        """Take the mean over each library's cells.

        Args:
            contrasts: of all metrics of all cells.
            adapters: the adapter of each cell, by its id.
            unchanged: adapters whose versions are known and the same in both runs.
        """
        changes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (cell, metric), one in contrasts.items():
            if one.centre is None and adapters[cell] in unchanged:
                changes[metric][adapters[cell]].append(one.change)
        self._adapters = adapters
        self._means = {
            metric: {adapter: fmean(each) for adapter, each in by_adapter.items()}
            for metric, by_adapter in changes.items()
        }

    def in_common(self) -> dict[str, CommonChange]:
        """Return what the libraries did alike, by metric, where enough is known."""
        found = {name: common_change([*means.values()]) for name, means in self._means.items()}
        return {name: one for name, one in found.items() if one is not None}

    def beside_others(self, key: Judged, own: Contrast) -> BesideOthers | None:
        """Return a cell's contrast beside the other libraries; None where too little is known."""
        cell, metric = key
        if own.centre is not None:
            return None
        means = self._means.get(metric, {})
        others = common_change([means[name] for name in means if name != self._adapters[cell]])
        return None if others is None else beside(own, others)
