"""The metrics of sorting, and what tables, charts and comparisons make of them."""

from __future__ import annotations

from skymark.model.metric import Declaration, Metric, Shown

DECLARATION = Declaration(
    suite="sorting",
    metrics=(
        Metric(
            name="elements_per_s",
            heading="elements/s",
            unit="1/s",
            description="sorted elements, geometric mean over rounds",
            better="higher",
            compared=True,
            gated=True,
            shown=Shown(format="count"),
        ),
        Metric(
            name="comparisons",
            heading="comparisons",
            description="of two elements, to sort the array once",
            better="lower",
            scale="exact",
            compared=True,
            gated=True,
            integer=True,
            shown=Shown(format="count", gives_way=1),
        ),
    ),
    primary="elements_per_s",
    baseline="builtin",
    sample_columns={"sorting_ns": "int64", "arrays": "int32"},
    conditions=("language",),
    method=(
        "Copies of an array are sorted over and over; making them is not timed.",
        "Comparisons are counted apart from that, once per round. They do not vary.",
    ),
    oracle=(
        "outside the timed region the oracle found the result in order, and each element of the "
        "array in it as often as before"
    ),
)
