"""TAB-1 and TAB-2: dense features, and sparse features of recommendation models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.dataset.sources.data_source import DataSource


@scenario
class DenseFeatures(Scenario):
    """Standardise dense float features: ``(x - mean) / deviation``, float32 ``[F]``."""

    id: ClassVar = "TAB-1"
    title: ClassVar = "dense features: standardise"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=13_000, batch_size=256, values={"features": 32}),
        "medium": Size(elements=200_000, batch_size=1024, values={"features": 64}),
        "large": Size(elements=2_000_000, batch_size=4096, values={"features": 128}),
    }
    holds_lock: ClassVar = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Features and label."""
        return ("features", "label")

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return the number of rows, with the number of features that real data has."""
        from skymark.suites.loading.dataset.importing import fields_for, rows_size

        features = len(fields_for(source, "features"))
        sized = rows_size(source, size)
        return sized.model_copy(update={"values": {**size.values, "features": features}})

    def import_source(self, source: DataSource, directory: Path) -> Dataset:
        """Write real features in units in which their moments are the known ones."""
        from skymark.suites.loading.dataset.columns import RECIPES
        from skymark.suites.loading.dataset.importing import column_values
        from skymark.suites.loading.dataset.tabular import write_imported

        rows = self.size.elements
        features, label = (
            RECIPES[column].finish(list(column_values(source, column, rows)))
            for column in ("features", "label")
        )
        return write_imported(directory, features, label)

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``features`` float32 ``[F]`` of differing mean and spread, ``label`` int64."""
        from skymark.suites.loading.dataset.tabular import write_dense

        return write_dense(directory, self.size.elements, self.size["features"])

    def stages(self) -> tuple[Stage, ...]:
        """Standardise by the known mean and deviation of each feature."""
        from skymark.suites.loading.dataset.tabular import feature_moments

        mean, deviation = feature_moments(self.size["features"])

        def standardise(element: Element, parameters: Parameters) -> Element:
            del parameters
            return {**element, "features": (element["features"] - mean) / deviation}

        return (Stage("standardise", standardise),)


@scenario
class SparseFeatures(Scenario):
    """Take logs of counts and hash categories: ``dense`` float32 ``[13]``, ``categorical`` int32.

    The layout is that of Criteo's click logs; ``categorical`` ``[26]`` are rows of embedding
    tables of the logs' cardinalities, none larger than ``largest_table``. ``label`` is int64.
    """

    id: ClassVar = "TAB-2"
    title: ClassVar = "sparse features (DLRM): log of dense, hashed categorical"
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=20_000, batch_size=256, values={"largest_table": 100_000}),
        "medium": Size(elements=200_000, batch_size=2048, values={"largest_table": 1_000_000}),
        "large": Size(elements=2_000_000, batch_size=8192, values={"largest_table": 40_000_000}),
    }
    holds_lock: ClassVar = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Counts, category ids and clicks."""
        return ("dense", "categorical", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``dense`` int32 ``[13]``, ``categorical`` int64 ``[26]``, ``label`` int64."""
        from skymark.suites.loading.dataset.tabular import write_clicks

        return write_clicks(directory, self.size.elements)

    def stages(self) -> tuple[Stage, ...]:
        """Take the logarithm of one plus each count; hash each category id into its table."""
        import numpy as np

        from skymark.suites.loading.dataset.tabular import CARDINALITIES, table_sizes
        from skymark.suites.loading.transforms import field
        from skymark.suites.loading.transforms.field import on

        keys = field.feature_keys(len(CARDINALITIES))
        tables = table_sizes(self.size["largest_table"])
        to_base_two = on("dense", lambda counts: field.log_counts(counts) / np.float32(np.log(2)))
        alike = on("categorical", lambda ids: field.hashed(ids, np.zeros_like(keys), tables))
        unhashed = on("categorical", lambda ids: (ids.view(np.uint64) % tables).astype(np.int32))
        return (
            Stage(
                "log", on("dense", field.log_counts), {"the logarithm is to base 2": to_base_two}
            ),
            Stage(
                "hash",
                on("categorical", lambda ids: field.hashed(ids, keys, tables)),
                {
                    "all features share one hash": alike,
                    "ids are taken modulo the table size without a hash": unhashed,
                },
            ),
        )
