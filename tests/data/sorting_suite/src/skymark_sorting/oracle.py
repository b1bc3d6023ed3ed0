"""The oracle: whether an array was sorted, and not merely put in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from skymark.model.record import Cause, Verification


def verify(values: Sequence[float], result: Sequence[float]) -> Verification:
    """Return the verdict on a result: in order, and a permutation of the array."""
    cause = _disorder(result) or _exchange(values, result)
    return Verification(
        passed=cause is None,
        cause=cause,
        verified_elements=len(result),
        compared_elements=len(result),
        fields=("elements",),
    )


def _disorder(result: Sequence[float]) -> Cause | None:
    for place, (one, following) in enumerate(pairwise(result)):
        if following < one:
            return Cause(
                kind="not-sorted",
                message=f"element {place + 1} is {following}, after {one}",
                action="have the algorithm sort the whole array",
            )
    return None


def _exchange(values: Sequence[float], result: Sequence[float]) -> Cause | None:
    before, after = Counter(values), Counter(result)
    if before == after:
        return None
    one = min((before - after) + (after - before))
    return Cause(
        kind="not-a-permutation",
        message=f"{one} is {before[one]} times in the array and {after[one]} times in the result",
        action="have the algorithm return each element as often as it got it",
    )
