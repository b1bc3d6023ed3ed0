"""A record as one flat row, for tables of any kind."""

from __future__ import annotations

import json
from datetime import datetime

from skymark.model.record import Estimate, Record

Value = str | int | float | bool | datetime | None

COLUMNS: dict[str, type] = {
    "cell_id": str,
    "cell_hash": str,
    "suite": str,
    "scenario": str,
    "variant": str,
    "axes": str,
    "adapter": str,
    "settings": str,
    "status": str,
    "cause_kind": str,
    "cause_message": str,
    "rounds": int,
    "samples_per_s": float,
    "samples_per_s_low": float,
    "samples_per_s_high": float,
    "bytes_per_s": float,
    "bytes_per_s_low": float,
    "bytes_per_s_high": float,
    "first_batch_ns": float,
    "first_batch_ns_low": float,
    "first_batch_ns_high": float,
    "wait_p50_ns": float,
    "wait_p95_ns": float,
    "wait_p99_ns": float,
    "utilisation": float,
    "utilisation_low": float,
    "utilisation_high": float,
    "cpu_s_per_1000_samples": float,
    "cpu_s_per_1000_samples_low": float,
    "cpu_s_per_1000_samples_high": float,
    "peak_pss_bytes": int,
    "verified": bool,
    "verified_elements": int,
    "compared_elements": int,
    "operators": str,
    "warnings": str,
    "page_cache": str,
    "versions": str,
    "extra": str,
    "price_usd": float,
    "started_at": datetime,
    "ended_at": datetime,
}
"""Name and type of every column, in order. `axes`, `settings`, `versions` and `extra` are JSON."""


def row_of(record: Record) -> dict[str, Value]:
    """Return a record's row: every column of `COLUMNS`, missing as None."""
    return dict.fromkeys(COLUMNS) | _identity(record) | _figures(record)


def _identity(record: Record) -> dict[str, Value]:
    cell, verification = record.cell, record.verification
    return {
        "cell_id": cell.id,
        "cell_hash": record.cell_hash,
        "suite": cell.suite,
        "scenario": cell.scenario,
        "variant": cell.variant,
        "axes": json.dumps(cell.axes),
        "adapter": cell.adapter,
        "settings": json.dumps(cell.settings),
        "status": record.status.value,
        "cause_kind": record.cause.kind if record.cause else None,
        "cause_message": record.cause.message if record.cause else None,
        "rounds": len(record.rounds),
        "verified": verification.passed if verification else None,
        "verified_elements": verification.indexed_elements if verification else None,
        "compared_elements": verification.content_elements if verification else None,
        "operators": verification.operators if verification else None,
        "warnings": " ".join(warning.kind for warning in record.warnings) or None,
        "page_cache": record.page_cache,
        "versions": json.dumps(record.versions),
        "price_usd": record.price_usd,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
    }


def _figures(record: Record) -> dict[str, Value]:
    figures = record.figures
    if figures is None:
        return {}
    estimates: dict[str, Estimate | None] = {
        "samples_per_s": figures.samples_per_s,
        "bytes_per_s": figures.bytes_per_s,
        "first_batch_ns": figures.first_batch_ns,
        "utilisation": figures.utilisation,
        "cpu_s_per_1000_samples": figures.cpu_s_per_1000_samples,
    }
    row: dict[str, Value] = {
        "wait_p50_ns": figures.wait_p50_ns,
        "wait_p95_ns": figures.wait_p95_ns,
        "wait_p99_ns": figures.wait_p99_ns,
        "peak_pss_bytes": figures.peak_pss_bytes,
        "extra": json.dumps({name: one.value for name, one in figures.extra.items()}),
    }
    for name, estimate in estimates.items():
        if estimate is not None:
            row |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
    return row
