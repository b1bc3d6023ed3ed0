"""The metrics of a user's own loaders."""

from __future__ import annotations

from skymark.model.metric import Declaration, Metric, Shown, Words

UTILISATION = "utilisation"
RATE = "samples_per_s"
COST = "cpu_s_per_1000_samples"

DECLARATION = Declaration(
    suite="own_loader",
    metrics=(
        Metric(
            name=RATE,
            heading="samples/s",
            unit="1/s",
            description="samples that the loop got per second, starts of epochs included",
            better="higher",
            words=Words(better="faster", worse="slower", best="fastest"),
            compared=True,
            gated=True,
            shown=Shown(format="count", gives_way=0),
        ),
        Metric(
            name=UTILISATION,
            heading="busy",
            description="share of the time in which the accelerator would compute",
            better="higher",
            scale="linear",
            compared=True,
            shown=Shown(format="share", gives_way=1),
        ),
        Metric(
            name=COST,
            heading="CPU s per 1000",
            unit="s",
            description="CPU seconds of the program and its workers per 1000 samples",
            better="lower",
            words=Words(better="less CPU", worse="more CPU", best="least CPU"),
            compared=True,
            shown=Shown(digits=2, gives_way=1),
        ),
        Metric(
            name="median_wait_ns",
            heading="median wait",
            unit="ns",
            description="median wait for a batch",
            better="lower",
            shown=Shown(format="milliseconds", gives_way=7),
        ),
        Metric(
            name="p99_wait_ns",
            heading="p99 wait",
            unit="ns",
            description="wait that one in a hundred batches exceeds",
            better="lower",
            shown=Shown(format="milliseconds", gives_way=8),
        ),
        Metric(
            name="to_first_batch_s",
            heading="to first batch",
            unit="s",
            description="from the import of the file to the first batch",
            better="lower",
            shown=Shown(digits=2, gives_way=9),
        ),
    ),
    primary=RATE,
    noun="loader",
    cost=COST,
    sample_columns={"wait_ns": "int64"},
    conditions=("batch",),
    method=(
        "The user's own Python makes the loader, and sleeps for the time of a step after a batch.",
        (
            "Batches count once those that can be held ready are used up, and then for at least "
            "four times as many."
        ),
    ),
    oracle="each batch has samples; their content is not compared with anything",
)
