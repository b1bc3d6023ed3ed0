"""TAB-2: sparse features of recommendation models: logarithms of counts, hashed categories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset


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
        from skymark.suites.loading.transforms import tabular
        from skymark.suites.loading.transforms.field import on

        keys = tabular.feature_keys(len(CARDINALITIES))
        tables = table_sizes(self.size["largest_table"])
        to_base_two = on("dense", lambda counts: tabular.log_counts(counts) / np.float32(np.log(2)))
        alike = on("categorical", lambda ids: tabular.hashed(ids, np.zeros_like(keys), tables))
        unhashed = on("categorical", lambda ids: (ids.view(np.uint64) % tables).astype(np.int32))
        return (
            Stage(
                "log", on("dense", tabular.log_counts), {"the logarithm is to base 2": to_base_two}
            ),
            Stage(
                "hash",
                on("categorical", lambda ids: tabular.hashed(ids, keys, tables)),
                {
                    "all features share one hash": alike,
                    "ids are taken modulo the table size without a hash": unhashed,
                },
            ),
        )
