"""The oracle: verify that a loader delivered every element once, with the right content.

A check is one class: its fields hold a drive's observations, and its `fault` counts and returns the
fault. The modules follow the page on verification:

- `arrival` makes sure that batches can be used when they are counted, inside the clock.
- `elements` accounts for every element, `content` compares fields with the `reference`, `order`
  measures the shuffle, `cost` the work, and `claims` compares the worker's figures with them.
- `diagnosis` names the mistake in a field that differs.

`oracle` has the `Oracle`, which makes the checks and remembers the first fault. Where a run is
judged in a process of its own, the worker has `Evidence` in its place: it writes the checks down.
"""

from __future__ import annotations

from skymark.suites.loading.oracle.content import Content, kept_content
from skymark.suites.loading.oracle.cost import CpuTime, FetchedBytes
from skymark.suites.loading.oracle.elements import Elements, RankElements, stream_of
from skymark.suites.loading.oracle.evidence import Evidence
from skymark.suites.loading.oracle.oracle import Declared, Oracle, Verifier
from skymark.suites.loading.oracle.order import Order
from skymark.suites.loading.oracle.reference import HostBatch, to_host
from skymark.suites.loading.oracle.summaries import EveryElement

__all__ = [
    "Content",
    "CpuTime",
    "Declared",
    "Elements",
    "EveryElement",
    "Evidence",
    "FetchedBytes",
    "HostBatch",
    "Oracle",
    "Order",
    "RankElements",
    "Verifier",
    "kept_content",
    "stream_of",
    "to_host",
]
