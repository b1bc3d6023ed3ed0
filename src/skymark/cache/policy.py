"""Policies of caches, and how many jobs may use one."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """A way to keep the caches of many jobs apart, or to have them share one."""

    AUTO = "auto"
    PER_JOB = "per-job"
    SHARED = "shared"
    PREBUILT = "prebuilt"
    PARQUET = "parquet"
    PARQUET_SHARED = "parquet+shared"
    STAGGERED = "staggered"

    @property
    def needs_data_set(self) -> bool:
        """Whether it prepares one data set, which must be named."""
        return self in {Policy.SHARED, Policy.PREBUILT, Policy.PARQUET, Policy.PARQUET_SHARED}

    @property
    def needs_data_of_run(self) -> bool:
        """Whether a run can have it only for data that its user names."""
        return self is Policy.PREBUILT or self.converts

    @property
    def converts(self) -> bool:
        """Whether it converts the data set to Parquet."""
        return self in {Policy.PARQUET, Policy.PARQUET_SHARED}
