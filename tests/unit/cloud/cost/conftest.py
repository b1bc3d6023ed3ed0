"""Offers, and quotes of known durations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from skymark.cloud.cost.bill import BilledTime
from skymark.cloud.cost.quote import Offer, Quote
from skymark.model.duration import Span


def offer(hourly_price_usd: float, **fields) -> Offer:
    known = {
        "cloud": "lambda",
        "region": "us-east-1",
        "instance_type": "gpu_1x_a100",
        "accelerators": "A100:1",
        "spot": False,
    }
    return Offer(**{**known, **fields}, hourly_price_usd=hourly_price_usd)


def span(low_s: float, expected_s: float, high_s: float) -> Span:
    return Span(low_s=low_s, expected_s=expected_s, high_s=high_s)


def quote_of(*offers: Offer, around=(0, 0, 0), **fields) -> Quote:
    """Half an hour, an hour, two hours of work, and no more around it than is given."""
    duration = BilledTime(
        provisioning=span(*around),
        set_up=span(0, 0, 0),
        running=span(1800, 3600, 7200),
        ending=span(0, 0, 0),
        cells=12,
        known_cells=5,
    )
    known = {
        "profile": "gpu_a100",
        "num_nodes": 1,
        "deadline_s": None,
        "duration": duration,
        "catalogue_date": date(2026, 10, 3),
    }
    return Quote(offers=offers, **{**known, **fields})


@pytest.fixture
def make_quote() -> Callable[..., Quote]:
    """Return what makes a quote of offers."""
    return quote_of
