"""TAB-1 and TAB-2: dense features, and sparse features of recommendation models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.work import Size, Stage, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset
    from skymark.suites.loading.dataset.sources.data_source import DataSource


@scenario
class DenseFeatures(Scenario):
    """Standardise dense float features: ``(x - mean) / deviation``, float32 ``[F]``."""

    id: ClassVar = "TAB-1"
    title: ClassVar = "dense features: standardise"
    tier: ClassVar = 1
    variants: ClassVar = three_sizes(
        elements=(13_000, 200_000, 2_000_000),
        batch_size=(256, 1024, 4096),
        features=(32, 64, 128),
    )
    holds_lock: ClassVar = True

    columns: ClassVar = ("features", "label")

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return the number of rows, with the number of features that real data has."""
        from skymark.suites.loading.dataset.columns import fields_for, rows_size

        features = len(fields_for(source, "features"))
        sized = rows_size(source, size)
        return sized.model_copy(update={"values": {**size.values, "features": features}})

    def import_source(self, source: DataSource, directory: Path) -> Dataset:
        """Write real features in units in which their moments are the known ones."""
        from skymark.suites.loading.dataset.columns import RECIPES, column_values
        from skymark.suites.loading.dataset.tabular import write_imported

        rows = self.size.elements
        features, label = (
            RECIPES[column].finish(list(column_values(source, column, rows)))
            for column in ("features", "label")
        )
        return write_imported(directory, features, label)

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``features`` float32 ``[F]`` of differing mean and spread, ``label`` int64.

        The label follows a noisy linear rule.
        """
        from skymark.suites.loading.dataset.tabular import write_dense

        return write_dense(directory, self.size.elements, self.size["features"])

    def stages(self) -> tuple[Stage, ...]:
        """Standardise by the known mean and deviation of each feature."""
        from skymark.suites.loading.dataset.tabular import feature_moments

        mean, deviation = feature_moments(self.size["features"])
        standardise = on("features", lambda features: (features - mean) / deviation)
        return (Stage("standardise", standardise),)


@scenario
class SparseFeatures(Scenario):
    """Take logs of counts and hash categories: ``dense`` float32 ``[13]``, ``categorical`` int32.

    ``categorical`` ``[26]`` are rows of embedding tables, none larger than ``largest_table``.
    ``label`` is int64. Work and cardinalities follow DLRM (Naumov et al., 2019). Verdicts name
    another base of the logarithm, one hash for all features, and a modulo without a hash.
    """

    id: ClassVar = "TAB-2"
    title: ClassVar = "sparse features (DLRM): log of dense, hashed categorical"
    variants: ClassVar = three_sizes(
        elements=(20_000, 200_000, 2_000_000),
        batch_size=(256, 2048, 8192),
        largest_table=(100_000, 1_000_000, 40_000_000),
    )
    holds_lock: ClassVar = True
    columns: ClassVar = ("dense", "categorical", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``dense`` int32 ``[13]``, ``categorical`` int64 ``[26]``, ``label`` int64.

        Rows imitate Criteo's click logs: 13 counts, 26 category ids by Zipf's law, and a tenth of
        the fields missing.
        """
        from skymark.suites.loading.dataset.tabular import write_clicks

        return write_clicks(directory, self.size.elements)

    def stages(self) -> tuple[Stage, ...]:
        """Take the log of one plus each count; hash each category (MurmurHash3) into its table."""
        import numpy as np

        from skymark.suites.loading.dataset.tabular import CARDINALITIES, table_sizes
        from skymark.suites.loading.transforms import numeric

        keys = numeric.feature_keys(len(CARDINALITIES))
        tables = table_sizes(self.size["largest_table"])
        to_base_two = on("dense", lambda counts: numeric.log_counts(counts) / np.float32(np.log(2)))
        alike = on("categorical", lambda ids: numeric.hashed(ids, np.zeros_like(keys), tables))
        unhashed = on("categorical", lambda ids: (ids.view(np.uint64) % tables).astype(np.int32))
        return (
            Stage(
                "log", on("dense", numeric.log_counts), {"the logarithm is to base 2": to_base_two}
            ),
            Stage(
                "hash",
                on("categorical", lambda ids: numeric.hashed(ids, keys, tables)),
                {
                    "all features share one hash": alike,
                    "ids are taken modulo the table size without a hash": unhashed,
                },
            ),
        )
