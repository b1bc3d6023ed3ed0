"""IO-1 and IO-2: elements from all storage formats, and streaming against loading first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Scenario, scenario
from skymark.suites.loading.work import Stage, three_sizes

if TYPE_CHECKING:
    from skymark.model.record import Setting
    from skymark.suites.loading.dataset.canonical import Dataset

ROW_GROUPS = "row-groups"
"""The source of columnar files that are read in stored order."""


@scenario
class Sources(Scenario):
    """Read opaque objects and checksum them: ``payload`` uint8 ``[N]``, ``checksum`` int64.

    All sources have the same objects. A library reads its own format of a source, else skymark's.
    ``columnar`` reads rows in the library's shuffled order: a global shuffle decodes a row group of
    64 rows for almost every row. ``row-groups`` reads the same files in stored order, one row group
    after another. ``http`` is a server on this machine in a process of its own, with a link that
    you set: ``http_latency_ms``, ``http_latency_tail``, ``http_bandwidth_mb_s``,
    ``http_concurrency``.
    """

    id: ClassVar = "IO-1"
    title: ClassVar = "the same elements from memory, files, tar, columnar files, HTTP"
    tier: ClassVar = 1
    variants: ClassVar = three_sizes(
        elements=(410, 10_000, 100_000),
        batch_size=(8, 64, 256),
        object_bytes=(32_768, 65_536, 65_536),
    )
    axis_values: ClassVar = {"source": ("memory", "files", "tar", "columnar", ROW_GROUPS, "http")}
    encoded_media: ClassVar = True

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Ask for the one source that the cell reads from; in stored order, for no shuffle."""
        needs = cls.needs - {"shuffle"} if axes["source"] == ROW_GROUPS else cls.needs
        return needs | {f"source:{cls.source(axes)}"}

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Return the kind of the cell's source; row groups are of columnar files."""
        return "columnar" if axes["source"] == ROW_GROUPS else str(axes["source"])

    @property
    def shuffle(self) -> bool:
        """Elements are shuffled, except for row groups read in order."""
        return self.axes.get("source") != ROW_GROUPS

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``payload``, opaque bytes of one length."""
        from skymark.suites.loading.dataset.tabular import write_blobs

        return write_blobs(directory, self.size.elements, self.size["object_bytes"])

    def stages(self) -> tuple[Stage, ...]:
        """Compute the checksum (CRC-32)."""
        from skymark.suites.loading.transforms.numeric import checksum

        return (Stage("checksum", checksum),)


@scenario
class FirstBatch(Sources):
    """Read opaque objects as a stream from the recommended storage, or all of them beforehand.

    ``open_to_first_batch_s`` is the time from opening the loader to its first batch. Peak memory is
    sampled from before the loader is opened. For that reason the oracle compares content
    afterwards, in two batches of each epoch.
    """

    id: ClassVar = "IO-2"
    title: ClassVar = "streaming or eager: time to first batch, peak memory"
    tier: ClassVar = 2
    variants: ClassVar = three_sizes(
        elements=(1_000, 10_000, 100_000),
        batch_size=(16, 64, 256),
        object_bytes=65_536,
    )
    axis_values: ClassVar = {"mode": ("streaming", "eager")}
    own_process: ClassVar = True
    drive: ClassVar = "first_batch"

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Ask for the ability that the mode names."""
        return cls.needs | {"eager" if axes["mode"] == "eager" else "stream"}

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Read from memory when eager, else from the recommended storage."""
        return "memory" if axes["mode"] == "eager" else None
