"""The oracle: verify that a loader delivered every element once, with the right content.

`arrival` makes sure that batches can be used when they are counted. `accounting` looks at which
elements came, `comparison` at one field of a batch against the `reference`, within the tolerance of
the work's arithmetic, and `diagnosis` names what went wrong in a field that differs, by the
`hypotheses` of the work and of the field. `verdict` has the `Oracle`, which asks them and remembers
the first fault. Where a run is judged in a process of its own, the worker has `evidence` in its
place, which only writes down what it is told; `claims` holds the worker's figures against it.
"""

from __future__ import annotations

from skymark.suites.loading.oracle.accounting import stream_of
from skymark.suites.loading.oracle.evidence import Declared, Evidence, Verifier
from skymark.suites.loading.oracle.reference import HostBatch, to_host
from skymark.suites.loading.oracle.verdict import Oracle

__all__ = ["Declared", "Evidence", "HostBatch", "Oracle", "Verifier", "stream_of", "to_host"]
