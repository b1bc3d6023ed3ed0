"""The outcome of a watch: a sentence, a table, lines to paste, JSON, and a trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from skymark.watching.costs import StageCost
from skymark.watching.diagnosis import (
    CROWDED,
    SMALL,
    Diagnosis,
    WaitCause,
    diagnose,
    others_share,
)
from skymark.watching.facts import Facts, facts_of, read_processes

LIBRARIES = {
    "torch": "PyTorch's DataLoader",
    "tf.data": "tf.data",
    "keras": "Keras's PyDataset",
    "grain": "Grain",
    "datasets": "Hugging Face Datasets",
    "webdataset": "WebDataset",
    "litdata": "LitData",
    "ray": "Ray Data",
    "plain": "a Python iterable",
    "function": "a function of the program",
}
STAGE_WORDS = {
    "read": "reading",
    "decode": "decoding",
    "transform": "transforms",
    "collate": "collating",
    "hand-over": "handing batches over between processes",
    "copy": "copying to the device",
    "start": "starting an epoch",
    "": "an unknown stage",
}
REASONS = {
    "main-process": "the loop's own process makes the batches",
    "too-few-workers": "there are too few workers",
    "too-many-workers": "there are more workers than the cores can run",
    "cores": "the cores are exhausted",
    "other-programs": "other programs take the cores",
    "disk": "the disk is too slow",
    "network": "the network is too slow",
    "slow-storage": "the storage answers slowly",
    "heavy-tail": "all batches wait for a few slow samples",
    "gil": "threads wait for each other at Python's lock (GIL)",
    "pickling": "batches are costly to pack and unpack",
    "shared-memory": "the room of /dev/shm is nearly used up",
    "workers-restart": "the workers start anew for each epoch",
    "short-epochs": "nothing is made ahead of an epoch, and epochs are short",
    "slow-start": "the first batch takes long",
    "pageable-memory": "batches are not in page-locked memory",
    "copy": "the loop waits for the copy",
    "unknown": "no stage could be told",
}
OF_STAGE = {
    "read": "Keep the data nearer or smaller: a local copy, larger files, fewer requests.",
    "decode": "Store the images at the size that you train on, or decode with libjpeg-turbo.",
    "transform": "Do transforms once ahead, on whole batches with NumPy or torch, or on the GPU.",
    "collate": "Return tensors of equal shape from the data set, and stack them in one call.",
    "hand-over": "Return tensors rather than Python objects: they pass without a copy.",
}
"""Advice for a stage that itself must get cheaper."""
OF_CAUSE = {
    "main-process": "Let worker processes make the batches.",
    "too-few-workers": "Use more workers.",
    "too-many-workers": "Use fewer workers.",
    "other-programs": "Run it with nothing else on the machine.",
    "heavy-tail": "Let more batches be made ahead, and look at the slow samples below.",
    "gil": "Use processes in place of threads, or NumPy and torch calls that release the lock.",
    "pickling": OF_STAGE["hand-over"],
    "shared-memory": "Give /dev/shm more room (docker run --shm-size=8g), or use fewer workers.",
    "workers-restart": "Keep the workers between epochs.",
    "short-epochs": "Make one epoch of several, with a sampler that goes over the data repeatedly.",
    "slow-start": "Do the work before the first batch once, not in each epoch.",
    "pageable-memory": "Use page-locked memory and copy without waiting.",
    "copy": "Copy without waiting, and copy the next batch while this one is computed.",
    "disk": OF_STAGE["read"],
    "network": "Read more requests at once: more workers, or larger files.",
    "slow-storage": "Read more files at once: more workers. Or keep a copy on a local disk.",
}
MOST_OTHERS = 3
LOADERS = {
    "torch": "loader = DataLoader(dataset, ..., {})",
    "datasets": "loader = torch.utils.data.DataLoader(dataset, ..., {})",
    "webdataset": "loader = webdataset.WebLoader(dataset, batch_size=None, {})",
    "litdata": "loader = litdata.StreamingDataLoader(dataset, ..., {})",
}
"""Lines for a loader with other settings."""
GRAIN_THREADS = "dataset = dataset.to_iter_dataset(grain.ReadOptions(num_threads={}))"
KERAS_WORKERS = "data = ...(..., workers={}, use_multiprocessing=True)  # your PyDataset"
GRAIN_PROCESSES = (
    "dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=os.cpu_count()))"
)
COPY_LINE = "batch = batch.to(device, non_blocking=True)"
SHM_LINE = 'torch.multiprocessing.set_sharing_strategy("file_system")'


def advice_of(cause: WaitCause) -> str:
    """Return what to do about a cause, in a sentence."""
    if cause.cause == "cores":
        return OF_STAGE.get(cause.stage, "Make a sample cheaper, or use more cores.")
    return OF_CAUSE.get(cause.cause, "")


def lines_of(cause: WaitCause, library: str) -> list[str]:
    """Return the lines to paste against a cause."""
    lines = []
    if library in LOADERS and cause.settings:
        words = ", ".join(f"{name}={value!r}" for name, value in cause.settings.items())
        lines.append(LOADERS[library].format(words))
    if library == "grain" and "num_workers" in cause.settings:
        lines.append(GRAIN_THREADS.format(cause.settings["num_workers"]))
    if library == "keras" and ("num_workers" in cause.settings or cause.cause == "gil"):
        lines.append(KERAS_WORKERS.format(cause.settings.get("num_workers", "os.cpu_count()")))
    if library == "grain" and cause.cause == "gil":
        lines.append(GRAIN_PROCESSES)
    if cause.stage == "copy":
        lines.append(COPY_LINE)
    if cause.cause == "shared-memory" and library == "torch":
        lines.append(SHM_LINE)
    if library == "tf.data" and cause.cause not in {"none", "gil"}:
        lines += [
            "dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)",
            "dataset = dataset.prefetch(tf.data.AUTOTUNE)",
        ]
    return lines


class LoopVerdict:
    """Outcome of a watch over one loop, of all its ranks."""

    def __init__(self, ranks: Sequence[Facts]) -> None:
        """Judge.

        Args:
            ranks: facts of each rank, at least one.
        """
        self.ranks = tuple(ranks)
        self.facts = max(ranks, key=lambda facts: facts.lost_s / max(facts.elapsed_s, 1e-9))
        self.diagnosis: Diagnosis = diagnose(self.facts)

    @property
    def clock(self) -> str:
        """The source of the waits: "cuda events" or "host"."""
        return "host" if self.facts.empty_s is None else "cuda events"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, two with advice."""
        facts, diagnosis = self.facts, self.diagnosis
        cause = diagnosis.causes[0]
        share = _percent(diagnosis.waiting)
        if cause.cause == "none":
            return f"The loader keeps up: the loop waits for data {share} of the time."
        if cause.cause == "shared-memory" and facts.shm_free_bytes is not None:
            free, room = facts.shm_free_bytes >> 20, (facts.shm_bytes or 0) >> 20
            return (
                f"The shared memory has {free} of {room} MiB free: a few more batches would "
                "hang the loop or end it."
            )
        if cause.cause == "gil":
            return (
                f"Threads that make batches ({STAGE_WORDS[cause.stage]}) hold Python's lock (GIL), "
                f"which costs the loop {_percent(cause.share)} of its time."
            )
        where = f" (rank {facts.rank}, the slowest of {facts.ranks})"
        said = (
            f"The loop waits for data {share} of the time"
            f"{where if facts.ranks > 1 else ''}, most for "
            f"{STAGE_WORDS[cause.stage]}: {REASONS.get(cause.cause, cause.cause)}."
        )
        if cause.rate is None:
            return said
        return (
            f"{said} {_remedy(cause)} it would make about {cause.rate:.3g} batches per second "
            f"in place of {diagnosis.rate:.3g}."
        )

    def lines(self) -> list[str]:
        """Return the verdict as text: sentence, table, advice."""
        facts, diagnosis = self.facts, self.diagnosis
        of = LIBRARIES.get(facts.library, facts.library)
        lines = [
            self.sentence,
            "",
            (
                f"  loop           {facts.name}, {of}; {facts.batches} batches in "
                f"{facts.epochs} epoch{'s' * (facts.epochs != 1)}, {facts.elapsed_s:.1f} s"
            ),
            *_other_loops(facts),
            (
                f"  rate           {diagnosis.rate:.3g} batches/s; {diagnosis.free_rate:.3g} if "
                "data were free"
            ),
            (
                f"  waits          {_percent(diagnosis.waiting)}, at starts of epochs "
                f"{_percent(diagnosis.starting)} ({self._clock_words()})"
            ),
            f"  cores          {facts.busy_cores:.1f} of {facts.cores:g} used by the loop"
            + (f", {facts.cores_busy:.1f} busy" if facts.cores_busy is not None else ""),
        ]
        if facts.stall_s > SMALL * facts.elapsed_s:
            lines.append(f"  longest wait   {_time(facts.stall_s)}, left out of these figures")
        if facts.workers:
            busy = _percent(min(facts.busy, 1.0))
            lines.append(f"  workers        {facts.workers}, busy {busy} of the time")
        lines += ["", *_stage_table(facts)]
        for cause in diagnosis.causes:
            if cause.cause != "none":
                lines += ["", *self._told(cause)]
        if diagnosis.causes[0].cause == "heavy-tail" and facts.slowest:
            slow = ", ".join(f"{name} ({_time(seconds)})" for seconds, name in facts.slowest)
            lines.append(f"  slowest samples: {slow}")
        named = any(cause.cause == "other-programs" for cause in diagnosis.causes)
        if others_share(facts) > CROWDED and not named:
            used = f"{others_share(facts) * facts.cores:.1f} cores"
            lines += [
                "",
                f"  Other programs used {used} meanwhile; without them the loop is faster.",
            ]
        if not facts.in_main_thread:
            lines += ["", "  Another thread than the main one asks this loader; its waits count."]
        return lines

    def _clock_words(self) -> str:
        return "times of the host" if self.clock == "host" else "events on the GPU's stream"

    def _told(self, cause: WaitCause) -> list[str]:
        reason = REASONS.get(cause.cause, cause.cause)
        told = [
            f"  {_percent(cause.share)} {STAGE_WORDS[cause.stage]}: {reason}. {advice_of(cause)}"
        ]
        return told + [f"      {line}" for line in lines_of(cause, self.facts.library)]

    def to_json(self) -> dict[str, Any]:
        """Return everything; times in seconds, shares as parts of 1."""
        facts, diagnosis = self.facts, self.diagnosis
        causes = [
            {
                **asdict(cause),
                "advice": advice_of(cause),
                "lines": lines_of(cause, facts.library),
            }
            for cause in diagnosis.causes
        ]
        measured = {name: value for name, value in asdict(facts).items() if name != "waits"}
        return {
            "sentence": self.sentence,
            "clock": self.clock,
            "batches_per_s": diagnosis.rate,
            "batches_per_s_if_data_were_free": diagnosis.free_rate,
            "waiting": diagnosis.waiting,
            "starting": diagnosis.starting,
            "left_out_s": facts.stall_s,
            "causes": causes,
            "facts": measured,
            "ranks": [
                {
                    "rank": one.rank,
                    "waiting": one.lost_s / max(one.elapsed_s, 1e-9),
                    "batches": one.batches,
                }
                for one in self.ranks
            ],
        }


def _remedy(cause: WaitCause) -> str:
    if "num_workers" in cause.settings:
        count = cause.settings["num_workers"]
        return f"With {count} worker{'s' * (count != 1)}"
    if cause.settings:
        return "With " + ", ".join(f"{name}={value!r}" for name, value in cause.settings.items())
    return "Without that"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _other_loops(facts: Facts) -> list[str]:
    """Return a line for each further loop of the process, the longest first."""
    others = sorted(facts.others, key=lambda other: other[1], reverse=True)[:MOST_OTHERS]
    return [
        f"  another loop   {name}; {elapsed_s:.1f} s, waits {_percent(wait_s / (elapsed_s or 1))}"
        for name, elapsed_s, wait_s in others
    ]


def _stage_table(facts: Facts) -> list[str]:
    if not facts.stages:
        return []
    rows: list[tuple[str, ...]] = [("stage", "per batch", "CPU", "call p50", "p99", "most in")]
    rows += [_stage_row(name, cost) for name, cost in facts.stages.items()]
    if facts.sample_p50_s is not None:
        p99 = _time(facts.sample_p99_s)
        rows.append(("sample", "", "", _time(facts.sample_p50_s), p99, ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
        for row in rows
    ]


def _stage_row(name: str, cost: StageCost) -> tuple[str, ...]:
    spread = (_time(cost.p50_s), _time(cost.p99_s))
    return (name, _time(cost.wall_s), _time(cost.cpu_s), *spread, cost.place)


def verdict_of(
    folder: str, killed_by: int | None = None, loop: int | None = None
) -> LoopVerdict | None:
    """Return the verdict on what processes wrote to a folder; None if no loop was seen.

    Args:
        folder: of the watch.
        killed_by: signal that ended the program.
        loop: number of the loop in its process; without it, that which took longest.
    """
    ranks = facts_of(folder, killed_by, loop)
    return LoopVerdict(ranks) if ranks else None


def write_trace(folder: str, path: str) -> None:
    """Write the waits and steps of all loops as a trace in Chrome's format."""
    events: list[dict[str, Any]] = []
    for process in read_processes(folder):
        pid = process["pid"]
        name = {"name": f"rank {process['rank']}, {process['program']}"}
        for loop in process["loops"]:
            if not loop["rows"]:
                continue
            events.append({"ph": "M", "pid": pid, "name": "process_name", "args": name})
            before = None
            for epoch, asked, arrived, _ in loop["rows"]:
                base = {"ph": "X", "pid": pid, "tid": loop["number"]}
                if before is not None:
                    step = {"name": "step", "ts": before / 1e3, "dur": (asked - before) / 1e3}
                    events.append({**base, **step})
                wait = {"name": "wait", "ts": asked / 1e3, "dur": (arrived - asked) / 1e3}
                events.append({**base, **wait, "args": {"epoch": max(epoch, ~epoch)}})
                before = arrived if epoch >= 0 else None
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
