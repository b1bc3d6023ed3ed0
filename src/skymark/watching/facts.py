"""Measured facts about a watched loop, from the files of its processes."""

from __future__ import annotations

import glob
import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skymark.watching.costs import ENOUGH_LOOKS, Costs, StageCost, span_s
from skymark.watching.recorder import FUNCTION, ROW

WORST = 20
"""One in this many batches belongs to those that waited longest."""


@dataclass(frozen=True)
class Facts:
    """One rank's loop. Times are in seconds of the whole watch, unless they say per batch."""

    library: str
    name: str = ""
    rank: int = 0
    ranks: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    batches: int = 0
    epochs: int = 1
    elapsed_s: float = 0.0
    start_s: float = 0.0
    """Waits for first batches of epochs, and at their ends."""
    wait_s: float = 0.0
    """All other waits."""
    wait_cpu_s: float = 0.0
    """CPU time of the loop's thread in them."""
    longest_s: float = 0.0
    """The longest of these waits."""
    worst_share: float = 0.0
    """Part of these waits that the twentieth of the batches with the longest had."""
    empty_s: float | None = None
    """Time in which the GPU's stream was empty between asking and arrival; None without a GPU."""
    copy_s: float = 0.0
    """Time of the loop's thread in copies to the device, outside of waits."""
    workers: int = 0
    feed_s: float = 0.0
    """Time of one worker for one batch; without workers, the loop's own."""
    feed_cpu_s: float = 0.0
    busy: float = 0.0
    """Part of the workers' time in which they make batches."""
    run_delay: float = 0.0
    """Part of the making in which a worker stands in line for a core."""
    stages: dict[str, StageCost] = field(default_factory=dict)
    hand_over_main_s: float = 0.0
    """Time of the loop's process for unpacking one batch."""
    sample_p50_s: float | None = None
    sample_p99_s: float | None = None
    tail_share: float = 0.0
    """Part of the samples' time that the slowest fiftieth took."""
    slowest: tuple[tuple[float, str], ...] = ()
    cores: float = 1.0
    busy_cores: float = 0.0
    """By the loop's processes."""
    cores_busy: float | None = None
    """By everything on the machine."""
    idle_share: float = 0.0
    """Part of all cores of the machine that nothing uses."""
    loop_cpu_s: float = 0.0
    """CPU time of the loop's own process per batch."""
    disk_bytes_per_s: float = 0.0
    network_bytes_per_s: float = 0.0
    io_pressure: float | None = None
    """Part of the time in which something on the machine waited for a disk."""
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    late_s: float = 0.0
    """Mean delay in getting Python's lock in the loop's process, without that of the cores."""
    active_threads: float = 0.0
    """Threads of the loop's process that run, on average."""
    in_main_thread: bool = True
    in_threads: bool = False
    """Whether threads of the loop's process make the batches."""
    killed_by: int | None = None
    """Signal that ended a worker or the program."""
    waits: tuple[tuple[float, float], ...] = ()
    """Begin and length of waits in seconds; of many, the longest of neighbours."""

    others: tuple[tuple[str, float, float], ...] = ()
    """Further loops of the process: name, time and waits in seconds."""

    @property
    def step_s(self) -> float:
        """Time per batch without waits and copies."""
        own = self.elapsed_s - self.start_s - self.wait_s - self.copy_s
        return max(own / self.batches, 1e-9) if self.batches else 0.0

    @property
    def lost_s(self) -> float:
        """Time in which the accelerator had nothing to do for want of data."""
        waited = self.wait_s if self.empty_s is None else self.empty_s
        return self.start_s + waited + self.copy_s

    @property
    def stall_s(self) -> float:
        """A single wait of many that is longer than all others together; 0 without one.

        It says nothing of the others: a library imported a module, or the disk stood still.
        """
        is_single = self.batches >= WORST and self.longest_s > self.wait_s / 2
        return self.longest_s if is_single and self.empty_s is None else 0.0


Row = tuple[int, int, int, int]
"""Epoch, asked and arrived in ns, CPU time meanwhile: see `skymark.watching.recorder.ROW`."""


def read_processes(folder: str) -> list[dict[str, Any]]:
    """Return what each process wrote, with the rows of its loops."""
    processes = []
    for path in sorted(glob.glob(os.path.join(folder, "process-*.json"))):
        try:
            with open(path, encoding="utf-8") as file:
                process = json.load(file)
        except (OSError, ValueError):
            continue
        for loop in process["loops"]:
            loop["rows"] = _rows(folder, process["pid"], loop["number"])
        processes.append(process)
    return processes


def _rows(folder: str, pid: int, number: int) -> list[Row]:
    values = array("q")
    try:
        with open(os.path.join(folder, f"loop-{pid}-{number}.waits"), "rb") as file:
            content = file.read()
    except OSError:
        return []
    values.frombytes(content[: len(content) // (8 * ROW) * 8 * ROW])
    numbers = iter(values)
    return list(zip(numbers, numbers, numbers, numbers))


def facts_of(folder: str, killed_by: int | None = None, number: int | None = None) -> list[Facts]:
    """Return the facts of each rank, of its loop of a number or that took longest."""
    processes = read_processes(folder)
    mains = [process for process in processes if any(loop["rows"] for loop in process["loops"])]
    facts = []
    for main in mains:
        loops = _joined(_known(main["loops"]))
        asked = [loop for loop in loops if number in loop["numbers"]]
        loop = asked[0] if asked else _slowest_of_longest(loops)
        helpers = [
            process
            for process in processes
            if process is not main
            and not process["loops"]
            and not process["seeks"]
            and process["first"]
            and process["last"]
            and (len(mains) == 1 or process["parent"] == main["pid"])
            and (process["loop"] or 0) in loop["numbers"]
        ]
        others = [other for other in loops if other is not loop and other["rows"]]
        facts.append(_facts(main, loop, others, helpers, killed_by))
    return sorted(facts, key=lambda one: one.rank)


def _known(loops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the loops over loaders, if there is one: functions may ask these for their batches."""
    over_loaders = [loop for loop in loops if loop["library"] != FUNCTION and loop["rows"]]
    return over_loaders or loops


def _joined(loops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return loops of one place and with the same settings as one, if one goes on after another.

    Such as several trainings in one program, each over a data set of its own. Training and
    validation in one line take turns, so they stay apart.
    """
    joined: list[dict[str, Any]] = []
    for loop in loops:
        before = next((known for known in joined if _goes_on(known, loop)), None)
        if before is None:
            joined.append({**loop, "numbers": [loop["number"]]})
            continue
        shift = before["rows"][-1][0]
        shift = max(shift, ~shift) + 1
        before["numbers"].append(loop["number"])
        before["rows"] = before["rows"] + [
            (epoch + shift if epoch >= 0 else epoch - shift, *times)
            for epoch, *times in loop["rows"]
        ]
        if before["events"] and loop["events"]:
            before["events"] = {
                name: before["events"][name] + value for name, value in loop["events"].items()
            }
    return joined


def _goes_on(known: dict[str, Any], loop: dict[str, Any]) -> bool:
    """Tell whether a loop is a further training of one that is over; both have several epochs."""
    alike = all(known[name] == loop[name] for name in ("library", "name", "settings"))
    if not (alike and known["rows"] and loop["rows"]):
        return False
    is_after = known["rows"][-1][1] <= loop["rows"][0][1]
    return is_after and min(_epochs(known["rows"]), _epochs(loop["rows"])) > 1


def _epochs(rows: list[Row]) -> int:
    return len({epoch for epoch, *_ in rows if epoch >= 0})


def _slowest_of_longest(loops: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the loop that took longest, or one beside it that waited longer.

    `zip(labelled, unlabelled)` asks both loaders for each step.
    """
    longest = max(loops, key=lambda loop: _elapsed_ns(loop["rows"]))
    enough_ns = _elapsed_ns(longest["rows"]) / 2
    beside = [loop for loop in loops if _shared_ns(loop["rows"], longest["rows"]) >= enough_ns]
    return max(beside, key=lambda loop: _waited_ns(loop["rows"]), default=longest)


def _waited_ns(rows: list[Row]) -> int:
    return sum(arrived - asked for _, asked, arrived, _ in rows)


def _shared_ns(rows: list[Row], others: list[Row]) -> int:
    """Return the time in which epochs of both loops ran."""
    spans, other_spans = list(_spans(rows)), list(_spans(others))
    return sum(
        max(min(last, other_last) - max(first, other_first), 0)
        for first, last in spans
        for other_first, other_last in other_spans
    )


def _inner_ns(rows: list[Row], others: list[Row]) -> int:
    """Return the time of epochs of another loop that ran within a step of this one.

    Such as a validation after each hundredth batch, which is no part of a step.
    """
    arrivals = [arrived for _, _, arrived, _ in rows]
    inner = 0
    for first, last in _spans(others):
        place = bisect_right(arrivals, first)
        if not 0 < place < len(rows):
            continue
        before, after = rows[place - 1], rows[place]
        is_same_epoch = before[0] >= 0 and before[0] in {after[0], ~after[0]}
        if is_same_epoch and last <= after[1]:
            inner += last - first
    return inner


def _elapsed_ns(rows: list[Row]) -> int:
    return sum(last - first for first, last in _spans(rows))


def _spans(rows: list[Row]) -> Iterable[tuple[int, int]]:
    """Return start and end of each epoch."""
    spans: dict[int, list[int]] = {}
    for epoch, asked, arrived, _ in rows:
        span = spans.setdefault(epoch if epoch >= 0 else ~epoch, [asked, arrived])
        span[1] = max(span[1], arrived)
    return [(first, last) for first, last in spans.values()]


def _facts(
    main: dict[str, Any],
    loop: dict[str, Any],
    others: list[dict[str, Any]],
    helpers: list[dict[str, Any]],
    killed: int | None,
) -> Facts:
    rows = loop["rows"]
    inner_ns = sum(_inner_ns(rows, other["rows"]) for other in others)
    elapsed_s = (_elapsed_ns(rows) - inner_ns) / 1e9
    seen: set[int] = set()
    start_ns = 0
    steady = []
    for row in rows:
        epoch, asked, arrived, _ = row
        if epoch < 0 or epoch not in seen:
            seen.add(epoch)
            start_ns += arrived - asked
        else:
            steady.append(row)
    batches = sum(epoch >= 0 for epoch, *_ in rows)
    waits = sorted((arrived - asked for _, asked, arrived, _ in steady), reverse=True)
    worst = waits[: max(len(waits) // WORST, 1)]
    makers = helpers if helpers and loop["settings"].get("num_workers", 1) else [main]
    wait_s = sum(waits) / 1e9
    own_s = start_ns / 1e9 + wait_s
    own_cpu_s = _cpu_s(rows)
    costs = Costs(makers, main, loop, (own_s, own_cpu_s), max(batches, 1))
    rates = _rates(main, helpers, span_s(main))
    return Facts(
        library=loop["library"],
        name=loop["name"],
        rank=main["rank"],
        ranks=main["ranks"],
        settings=loop["settings"],
        batches=batches,
        epochs=max(_epochs(rows), 1),
        elapsed_s=elapsed_s,
        start_s=start_ns / 1e9,
        wait_s=wait_s,
        wait_cpu_s=_cpu_s(steady),
        longest_s=max(waits, default=0) / 1e9,
        worst_share=sum(worst) / max(sum(waits), 1),
        empty_s=_empty_s(loop, len(steady)),
        copy_s=_copy_s(main, elapsed_s - own_s),
        workers=_workers(loop, helpers),
        feed_s=costs.feed_s,
        feed_cpu_s=costs.feed_cpu_s,
        busy=costs.made_s / max(elapsed_s * max(_workers(loop, helpers), 1), 1e-9),
        run_delay=costs.run_delay,
        stages=costs.stages,
        hand_over_main_s=_stage_s(main, "hand-over") / max(batches, 1),
        sample_p50_s=costs.sample(0.5),
        sample_p99_s=costs.sample(0.99),
        tail_share=costs.tail_share(),
        slowest=costs.slowest(),
        cores=main["cores"],
        loop_cpu_s=(main["last"]["cpu_ns"] - main["first"]["cpu_ns"]) / 1e9 / max(batches, 1),
        late_s=main["late_ns"] / 1e9 / max(main["looks"], 1),
        active_threads=main["active"] / max(main["looks"], 1),
        in_main_thread=loop["in_main_thread"],
        in_threads=costs.in_threads,
        killed_by=killed,
        waits=_thinned(rows),
        others=tuple(_beside(other, loop) for other in others),
        **rates,
    )


def _beside(other: dict[str, Any], loop: dict[str, Any]) -> tuple[str, float, float]:
    """Return name, time and waits of another loop; of one in the same place, its own settings."""
    told = [other["name"]]
    if other["name"] == loop["name"]:
        told += [
            f"{name}={value}"
            for name, value in other["settings"].items()
            if isinstance(value, int) and value != loop["settings"].get(name)
        ]
    rows = other["rows"]
    return ", ".join(told), _elapsed_ns(rows) / 1e9, _waited_ns(rows) / 1e9


def _cpu_s(rows: list[Row]) -> float:
    """Estimate the CPU time in all waits from the measured ones."""
    taken = [(cpu, arrived - asked) for _, asked, arrived, cpu in rows if cpu >= 0]
    whole = sum(arrived - asked for _, asked, arrived, _ in rows)
    part = sum(wait for _, wait in taken)
    return sum(cpu for cpu, _ in taken) / 1e9 * (whole / part if part else 0.0)


def _workers(loop: dict[str, Any], helpers: list[dict[str, Any]]) -> int:
    return int(loop["settings"].get("num_workers", len(helpers)))


def _empty_s(loop: dict[str, Any], steady: int) -> float | None:
    """Return the time of an empty stream, of all batches by those whose events were read."""
    events = loop["events"]
    if not events or not events["pairs"]:
        return None
    return float(events["empty_ms"] / 1e3 * max(steady / events["pairs"], 1.0))


def _copy_s(main: dict[str, Any], step_s: float) -> float:
    """Return the time of copies by the looks at the loop's thread between waits."""
    steps = [(stage, count) for phase, stage, _, count in main["stacks"] if phase == "step"]
    looks = sum(count for _, count in steps)
    copies = sum(count for stage, count in steps if stage == "copy")
    return max(step_s, 0.0) * copies / looks if looks >= ENOUGH_LOOKS else 0.0


def _stage_s(process: dict[str, Any], stage: str) -> float:
    return float(process["stages"].get(stage, {}).get("wall_ns", 0)) / 1e9


def _rates(main: dict[str, Any], helpers: list[dict[str, Any]], span_s: float) -> dict[str, Any]:
    first, last = main["first"], main["last"]

    def grown(name: str, processes: Iterable[dict[str, Any]] = (main,)) -> float:
        return float(
            sum(
                process["last"].get(name, 0) - process["first"].get(name, 0)
                for process in processes
                if process["last"] and process["first"]
            )
        )

    rates: dict[str, Any] = {
        "busy_cores": grown("cpu_ns", [main, *helpers]) / 1e9 / span_s,
        "disk_bytes_per_s": grown("read_bytes", [main, *helpers]) / span_s,
        "network_bytes_per_s": grown("network_bytes") / span_s,
        "shm_bytes": last.get("shm_bytes"),
        "shm_free_bytes": last.get("shm_free_bytes"),
    }
    if "io_pressure_ns" in last and "io_pressure_ns" in first:
        rates["io_pressure"] = grown("io_pressure_ns") / 1e9 / span_s
    if "all_ns" in last and grown("all_ns") > 0:
        cores = os.cpu_count() or 1
        rates["idle_share"] = grown("idle_ns") / grown("all_ns")
        rates["cores_busy"] = cores * (1 - rates["idle_share"])
    return rates


def _thinned(rows: list[Row], most: int = 2000) -> tuple[tuple[float, float], ...]:
    """Return the waits over time; of more than `most`, the longest of each group of neighbours."""
    if not rows:
        return ()
    first = rows[0][1]
    group = -(-len(rows) // most)
    waits = [((asked - first) / 1e9, (arrived - asked) / 1e9) for _, asked, arrived, _ in rows]
    return tuple(
        max(waits[place : place + group], key=lambda wait: wait[1])
        for place in range(0, len(waits), group)
    )
