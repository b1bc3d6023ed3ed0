"""The metrics of loaders, and their use in tables, charts and comparisons."""

from __future__ import annotations

from skymark.model.metric import Better, Declaration, Distribution, Metric, Shown, Spread, Words

RARELY_SHOWN = Shown(gives_way=10)
SHARE = Shown(format="share", gives_way=10)


def _own(
    name: str,
    unit: str,
    better: Better | None,
    description: str,
    shown: Shown = RARELY_SHOWN,
) -> Metric:
    """Return a metric that only some scenarios have."""
    # A size is shown with its unit.
    heading = name.removesuffix("_bytes") if shown.format == "size" else name
    return Metric(
        name=name,
        heading=heading.replace("_", " "),
        unit=unit,
        description=description,
        better=better,
        own=True,
        shown=shown,
    )


def _shuffle(name: str, better: Better, description: str) -> Metric:
    """Return a statistic of a shuffle, which may be 0."""
    return Metric(
        name=name,
        heading=name.replace("_", " "),
        description=description,
        better=better,
        scale="linear",
        own=True,
        shown=Shown(digits=3, gives_way=0),
    )


def _epochs(number: int) -> str:
    return f"{number} epoch" if number == 1 else f"{number} epochs"


PLACES = ("deliver", "copies", "device", "step", "accelerator")
"""Conditions of the delivery and use of batches."""

SPREAD_OVER = (1, 10, 100)
"""Epochs of a training over which set-up and the first epoch are spread."""

SHOWN_EPOCHS = 10
"""Number of epochs in a table."""

SPREAD_RATES = (
    "samples_per_s_over_1_epochs",
    "samples_per_s_over_10_epochs",
    "samples_per_s_over_100_epochs",
)
"""Names of the rates over these epochs."""

SHUFFLE_METRICS = (
    _shuffle(
        "shuffle_displacement",
        "higher",
        "distance of an element from its place in storage, as a share of a uniform shuffle's",
    ),
    _shuffle(
        "batch_neighbourhoods",
        "higher",
        "places in storage that a batch draws from, as a share of a uniform shuffle's",
    ),
    _shuffle("batch_neighbours", "lower", "share of neighbours in storage that are in one batch"),
    _shuffle("stream_neighbours", "lower", "share of successive elements that are neighbours"),
    _shuffle("epoch_correlation", "lower", "rank correlation of successive epochs' orders"),
)
"""Metrics of `skymark.suites.loading.drives.shuffle_quality`."""

OWN_METRICS = (
    _own("open_to_first_batch_s", "s", "lower", "time from opening the loader to its first batch"),
    _own("state_bytes", "B", "lower", "size of the saved position"),
    _own("save_s", "s", "lower", "time to save the position"),
    _own("resume_s", "s", "lower", "time from opening the resumed loader to its first batch"),
    _own(
        "seek_s",
        "s",
        "lower",
        "time from opening the loader to a batch in the middle of an epoch",
        Shown(gives_way=0),
    ),
    _own(
        "start_memory_bytes",
        "B",
        "lower",
        "peak memory of a process that starts an epoch",
        Shown(format="size", gives_way=0),
    ),
    _own(
        "seek_memory_bytes",
        "B",
        "lower",
        "peak memory of a process that starts in the middle of an epoch",
        Shown(format="size", gives_way=0),
    ),
    _own("resume_import_s", "s", "lower", "time to import the library in the new process"),
    _own("fresh_import_s", "s", "lower", "time to import the library in a new process"),
    _own("settled_memory_bytes", "B", "lower", "memory in the later half of a long run"),
    Metric(
        name="memory_growth_bytes_per_1000_samples",
        heading="growth KiB/1k",
        unit="B",
        description="growth of memory per 1000 samples in the later half of a long run, in KiB",
        better="lower",
        scale="linear",
        own=True,
        shown=Shown(divisor=1024, digits=2, gives_way=0),
    ),
    *SHUFFLE_METRICS,
    _own("devices", "", None, "devices of the mesh"),
    _own("scaling_efficiency", "", "higher", "rate of all ranks over ranks × one rank's"),
    _own("single_rank_samples_per_s", "1/s", "higher", "rate of one rank alone"),
    _own("http_latency_ms", "ms", None, "median time to the first byte of an object, as served"),
    _own("http_latency_tail", "", None, "99th percentile of that time over the median"),
    _own("http_concurrency", "", None, "requests that the server answers at a time"),
    _own("http_bandwidth_mb_s", "MB/s", None, "rate of an object's bytes, as served"),
)

GPU_METRICS = (
    _own("gpu_utilisation", "", None, "share of the time in which a kernel ran on the GPU", SHARE),
    _own("gpu_clock_mhz", "MHz", None, "clock of the GPU's multiprocessors, on average"),
    _own("gpu_power_w", "W", None, "power of the GPUs' boards, on average"),
    _own(
        "gpu_peak_memory_bytes",
        "B",
        None,
        "largest memory in use on the GPU, including other programs",
        Shown(format="size", gives_way=10),
    ),
    _own("energy_j_per_1000_samples", "J", "lower", "energy of the GPUs' boards per 1000 samples"),
)
"""Metrics from NVIDIA's driver in the timed region of a round on a GPU."""

METRICS = (
    Metric(
        name="samples_per_s",
        heading="samples/s",
        unit="1/s",
        description="rate of the steady stream, without restarts of epochs; geometric mean over "
        "rounds",
        better="higher",
        words=Words(better="faster", worse="slower", best="fastest"),
        compared=True,
        gated=True,
        shown=Shown(format="count"),
    ),
    Metric(
        name="bytes_per_s",
        heading="MB/s",
        unit="B/s",
        description="rate of delivery as host arrays",
        better="higher",
        shown=Shown(format="count", divisor=1e6, gives_way=9),
    ),
    Metric(
        name="epoch_samples_per_s",
        heading="epoch samples/s",
        unit="1/s",
        description="samples/s of whole epochs, restarts included",
        better="higher",
        shown=Shown(format="count", gives_way=8),
    ),
    Metric(
        name="utilisation",
        heading="busy",
        description="share of the time in which an accelerator is busy with training steps, or for "
        "the given think time, restarts included",
        better="higher",
        scale="linear",
        shown=Shown(format="share", gives_way=1),
    ),
    Metric(
        name="step_ns",
        heading="step ms",
        unit="ns",
        description="time per batch in which an accelerator is busy, in ms, on average",
        own=True,
        shown=Shown(format="milliseconds", gives_way=9),
    ),
    Metric(
        name="step_launch_ns",
        heading="launch ms",
        unit="ns",
        description="time per batch in which a training step is handed to the device, in ms",
        own=True,
        shown=Shown(format="milliseconds", gives_way=10),
    ),
    Metric(
        name="step_flop_share",
        heading="of peak",
        description="FLOP/s of training steps as a share of the device's peak in bfloat16",
        better="higher",
        scale="linear",
        own=True,
        shown=Shown(format="share", gives_way=10),
    ),
    Metric(
        name="first_batch_ns",
        heading="first ms",
        unit="ns",
        description="wait for the first batch in ms",
        better="lower",
        shown=Shown(format="milliseconds", gives_way=7),
    ),
    Metric(
        name="epoch_restart_ns",
        heading="restart ms",
        unit="ns",
        description="wait for an epoch's first batch in ms, mean of the later epochs",
        better="lower",
        shown=Shown(format="milliseconds", gives_way=7),
    ),
    *(
        Metric(
            name=f"wait_p{share}_ns",
            heading=heading,
            unit="ns",
            description=f"{share_in_words} wait for a batch",
            better="lower",
            pooled=True,
            shown=Shown(format="duration", divisor=1e9, gives_way=gives_way),
        )
        for share, heading, share_in_words, gives_way in (
            (50, "median wait", "median", 2),
            (95, "p95 wait", "95th percentile of the", 8),
            (99, "p99 wait", "99th percentile of the", 3),
        )
    ),
    Metric(
        name="cpu_s_per_1000_samples",
        heading="CPU s per 1000",
        unit="s",
        description="CPU seconds of the whole process tree per 1000 samples",
        better="lower",
        words=Words(better="less CPU", worse="more CPU", best="least CPU"),
        shown=Shown(digits=2, gives_way=1),
    ),
    Metric(
        name="cores_used",
        heading="cores used",
        description="cores that the whole process tree kept busy in the measured epochs",
        scale="linear",
        shown=Shown(digits=2, gives_way=6),
    ),
    Metric(
        name="cores_idle",
        heading="idle cores",
        description="idle cores of the machine in the measured epochs",
        scale="linear",
    ),
    Metric(
        name="cut_waits",
        heading="cut waits",
        description="waits that the edge of a slice cut; percentiles leave them out",
        scale="linear",
        integer=True,
    ),
    Metric(
        name="cores_of_consumer",
        heading="consumer's cores",
        description="cores that the consumer of the batches kept busy, its threads included",
        scale="linear",
    ),
    Metric(
        name="peak_pss_bytes",
        heading="memory",
        unit="B",
        description="peak proportional set size of the process tree",
        better="lower",
        pooled=True,
        integer=True,
        shown=Shown(format="size", gives_way=5),
    ),
    Metric(
        name="import_s",
        heading="import s",
        unit="s",
        description="time to import the library in the first process; later processes are forked",
        better="lower",
        pooled=True,
    ),
    Metric(
        name="open_s",
        heading="set-up ms",
        unit="s",
        description="time to open the loader in ms",
        better="lower",
        shown=Shown(divisor=1e-3, digits=2, gives_way=9),
    ),
    Metric(
        name="first_epoch_s",
        heading="first epoch s",
        unit="s",
        description="time of the warm-up epoch, unless it was stopped",
        better="lower",
    ),
    Metric(
        name="first_epoch_cpu_s_per_1000_samples",
        heading="first epoch CPU s/1k",
        unit="s",
        description="CPU seconds of the whole process tree per 1000 samples of the warm-up epoch",
        better="lower",
    ),
    *(
        Metric(
            name=f"samples_per_s_over_{epochs}_epochs",
            heading=f"over {_epochs(epochs)}",
            unit="1/s",
            description=f"samples/s of {_epochs(epochs)} with set-up, the first like the warm-up",
            better="higher",
            shown=Shown(format="count", gives_way=9) if epochs == SHOWN_EPOCHS else None,
        )
        for epochs in SPREAD_OVER
    ),
    Metric(
        name="delivery_bytes_per_s",
        heading="to device MB/s",
        unit="B/s",
        description="rate at which batches are copied to the device, over the time of the copies",
        better="higher",
        own=True,
        shown=Shown(format="count", divisor=1e6, gives_way=10),
    ),
    Metric(
        name="copy_bytes_per_s",
        heading="plain copy MB/s",
        unit="B/s",
        description="rate of plain copies to the device, of one buffer as large as a batch",
        own=True,
        shown=Shown(format="count", divisor=1e6, gives_way=10),
    ),
    Metric(
        name="stream_utilisation",
        heading="fed",
        description="share of the steady stream's time in which an accelerator with the given "
        "think time is busy, without restarts",
        better="higher",
        scale="linear",
        own=True,
        shown=Shown(format="share", gives_way=10),
    ),
    Metric(
        name="elements",
        heading="elements",
        description="elements delivered in the measured epochs",
    ),
    *GPU_METRICS,
    *OWN_METRICS,
)

METHOD = (
    (
        "The clock starts before a batch is requested and stops when the batch is usable. A "
        "warm-up epoch is not counted. Whole epochs are measured for at least the effort's time "
        "and batches per round."
    ),
    (
        "samples/s is the rate of the steady stream. It excludes each epoch's wait for the first "
        "batch and the batches that the queues hold then (workers × prefetch). It is the "
        "geometric mean over rounds with Student's 95 % interval on the log scale, whose variance "
        "is in part that of the run's other cells. Percentiles are over the waits of all rounds' "
        "streams."
    ),
    (
        "A restart is the mean wait for the first batch of an epoch after the warm-up. The rate "
        "of whole epochs includes all of their time, so an epoch takes its samples ÷ this rate. "
        "An epoch of fewer than 4 × workers × prefetch batches has no steady stream. It only has "
        "the rate of whole epochs, which skymark does not rank or compare."
    ),
    (
        "Memory is the largest measured proportional set size of the worker's process tree, "
        "memory-mapped files included. CPU time is the whole tree's in the measured epochs, and "
        "`cores` is this time per second of these epochs."
    ),
    (
        "With `deliver` at device, a wait ends when the batch is on the accelerator. The rate of "
        "the copies is their bytes over their time. Beside it is the rate of plain copies of a "
        "buffer, the median of several in the same round."
    ),
    "Raw waits of every batch are in samples/ beside this file, records in records/.",
)

DECLARATION = Declaration(
    suite="loading",
    metrics=METRICS,
    primary="samples_per_s",
    noun="loader",
    baseline="numpy",
    spreads=(
        Spread(
            heading="wait",
            metrics=("wait_p50_ns", "wait_p95_ns", "wait_p99_ns"),
            labels=("p50", "p95", "p99"),
        ),
        Spread(
            heading="samples/s over epochs, set-up included",
            metrics=SPREAD_RATES,
            labels=("1", "10", "100"),
        ),
    ),
    stand_in="epoch_samples_per_s",
    stand_in_reason="stream",
    cost="cpu_s_per_1000_samples",
    beside=("cpu_s_per_1000_samples", "epoch_restart_ns", "open_s"),
    distributions=(
        Distribution(
            heading="waits, ms",
            column="wait_ns",
            only="stream",
            shown=Shown(format="milliseconds"),
        ),
    ),
    sample_columns={
        "epoch": "int32",
        "wait_ns": "int64",
        "elements": "int32",
        "warm_up": "bool",
        "stream": "bool",
    },
    conditions=(
        "operators",
        "execution",
        "page_cache",
        "served_from",
        "format",
        "shuffle",
        "mixing",
        "caches",
        "works_ahead",
        "stream",
        "cores",
        *PLACES,
    ),
    legend="waits per batch",
    legends={"served_from=memory": "data from memory"},
    oracle=(
        "outside the timed region the oracle accounted for every element once per epoch, and "
        "compared delivered content with the NumPy reference"
    ),
    method=METHOD,
)
