"""Costs of the stages of a loader, from the processes that make its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skymark.watching.sampler import IDLE
from skymark.watching.stages import FETCH, SAMPLE, STAGES, duration_of

TAIL = 50
"""One in this many samples belongs to the slowest."""
ENOUGH_LOOKS = 20
LEAST_RUNNING = 0.1
"""Part of the time that a thread on a crowded machine runs at least."""


@dataclass(frozen=True)
class StageCost:
    """Cost of one stage: seconds per batch, all workers together; of one call the percentiles."""

    wall_s: float
    cpu_s: float = 0.0
    p50_s: float | None = None
    p99_s: float | None = None
    place: str = ""
    """Function of the user's that was seen most in it."""


class Costs:
    """Stages of the processes that make the batches."""

    def __init__(
        self,
        makers: list[dict[str, Any]],
        main: dict[str, Any],
        loop: dict[str, Any],
        own: tuple[float, float],
        batches: int,
    ) -> None:
        own_s, own_cpu_s = own
        self._makers = makers
        self._stages = _merged(makers)
        fetch = self._stages.get(FETCH, {})
        in_main = makers == [main]
        batches = batches if in_main else fetch.get("calls", 0) or batches
        hand_over_s = 0.0 if in_main else self._stages.get("hand-over", {}).get("wall_ns", 0) / 1e9
        if fetch and not in_main:
            self.made_s = fetch["whole_ns"] / 1e9 + hand_over_s
            cpu_s = (
                sum(
                    process["last"]["cpu_ns"] - process["first"]["cpu_ns"]
                    for process in makers
                    if process["last"] and process["first"]
                )
                / 1e9
            )
        else:
            self.made_s = own_s if in_main else sum(map(_working_s, makers))
            cpu_s = own_cpu_s if in_main else sum(_grown_s(maker, "cpu_ns") for maker in makers)
        self._cpu_s = cpu_s
        self.feed_s = self.made_s / batches
        self.feed_cpu_s = cpu_s / batches
        # The main thread stands in line in its steps, too.
        part = min(own_cpu_s / max(_grown_s(main, "main_cpu_ns"), 1e-9), 1.0) if in_main else 1.0
        self.run_delay = _run_delay(makers, self.made_s, part)
        counts = _counts(makers, "wait" if in_main else "work")
        counts.pop(IDLE, None)
        beside = _counts([main], "work")
        self.in_threads = in_main and _looks(beside) > _looks(counts)
        if self.in_threads:
            counts = beside
            self.made_s = span_s(main) * _looks(beside) / max(main["looks"], 1)
            cpu_s = max(_grown_s(main, "cpu_ns") - _grown_s(main, "main_cpu_ns"), 0.0)
            self._cpu_s = min(cpu_s, self.made_s)
            self.feed_s, self.feed_cpu_s = self.made_s / batches, self._cpu_s / batches
        told = loop["settings"].get("stages")
        runs_python = self.in_threads and 2 * _looks(beside) > main["looks"]
        if told and not runs_python:  # a pipeline whose threads have no stacks of Python
            counts = {stage: {"": ENOUGH_LOOKS} for stage in _heaviest(told)}
            self.in_threads = False
            threads_s = _grown_s(main, "cpu_ns") - _grown_s(main, "main_cpu_ns")
            self.feed_cpu_s = max(min(threads_s, self.made_s * main["cores"]), 0.0) / batches
        self.stages = self._split(counts, batches)

    def _split(self, counts: dict[str, dict[str, int]], batches: int) -> dict[str, StageCost]:
        """Divide the time of no known stage by the looks at stacks."""
        wall = {name: self._stages.get(name, {}).get("wall_ns", 0) / 1e9 for name in STAGES}
        cpu = {name: self._stages.get(name, {}).get("cpu_ns", 0) / 1e9 for name in STAGES}
        rest_s = max(self.made_s - sum(wall.values()), 0.0)
        rest_cpu_s = max(self._cpu_s - sum(cpu.values()), 0.0)
        looks = {name: sum(places.values()) for name, places in counts.items()}
        total = sum(looks.values())
        on_core_s = rest_s * max(1 - self.run_delay, LEAST_RUNNING)
        unknown = "transform" if rest_cpu_s > on_core_s / 2 else "read"
        weights = dict.fromkeys(STAGES, 0.0)
        if total >= ENOUGH_LOOKS:
            for name, count in looks.items():
                stage = name or unknown
                weights[stage] = weights.get(stage, 0.0) + self.made_s * count / total
            weights = {name: max(seen - wall[name], 0.0) for name, seen in weights.items()}
        if not sum(weights.values()):
            weights[unknown] = 1.0
        costs = {}
        for name in STAGES:
            share = weights[name] / sum(weights.values())
            whole_s = wall[name] + share * rest_s
            if whole_s > 0:
                places = counts.get(name) or (counts.get("") if name == unknown else None) or {}
                costs[name] = StageCost(
                    wall_s=whole_s / batches,
                    cpu_s=(cpu[name] + share * rest_cpu_s) / batches,
                    p50_s=_percentile(self._stages.get(name), 0.5),
                    p99_s=_percentile(self._stages.get(name), 0.99),
                    place=max(places, key=lambda place: places[place]) if places else "",
                )
        return costs

    def sample(self, part: float) -> float | None:
        """Return a percentile of the samples' time."""
        return _percentile(self._stages.get(SAMPLE), part)

    def tail_share(self) -> float:
        """Return the part of the samples' time that the slowest took."""
        buckets = sorted(self._stages.get(SAMPLE, {}).get("histogram", {}).items(), reverse=True)
        total = sum(duration_of(bucket) * count for bucket, count in buckets)
        left = sum(count for _, count in buckets) / TAIL
        tail = 0.0
        for bucket, count in buckets:
            tail += duration_of(bucket) * min(count, left)
            left -= min(count, left)
        return tail / total if total else 0.0

    def slowest(self) -> tuple[tuple[float, str], ...]:
        """Return the slowest samples: seconds and index."""
        every = [(wall / 1e9, name) for maker in self._makers for wall, name in maker["slowest"]]
        return tuple(sorted(every, reverse=True)[:5])


def _looks(counts: dict[str, dict[str, int]]) -> int:
    return sum(sum(places.values()) for places in counts.values())


def _heaviest(stages: list[str]) -> list[str]:
    """Return the stages that cost most as a rule: decoding, else transforms, else all."""
    for stage in ("decode", "transform"):
        if stage in stages:
            return [stage]
    return stages


def _working_s(process: dict[str, Any]) -> float:
    """Return the time of a worker in which a look at its stacks met work."""
    looks = _looks(_counts([process], "work"))
    return float(min(looks / max(process["looks"], 1), 1.0) * span_s(process))


def span_s(process: dict[str, Any]) -> float:
    """Return the seconds between the first and last facts of a process."""
    return float(max((process["last"]["time_ns"] - process["first"]["time_ns"]) / 1e9, 1e-9))


def _grown_s(process: dict[str, Any], name: str) -> float:
    return float(process["last"].get(name, 0) - process["first"].get(name, 0)) / 1e9


def _counts(makers: list[dict[str, Any]], phase: str) -> dict[str, dict[str, int]]:
    """Return looks by stage and place."""
    counts: dict[str, dict[str, int]] = {}
    for maker in makers:
        for seen, stage, place, count in maker["stacks"]:
            if seen == phase:
                places = counts.setdefault(stage, {})
                places[place] = places.get(place, 0) + count
    return counts


def _merged(makers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the stages of several processes as those of one."""
    merged: dict[str, dict[str, Any]] = {}
    for maker in makers:
        for name, stage in maker["stages"].items():
            sums = merged.setdefault(
                name, {"calls": 0, "wall_ns": 0, "cpu_ns": 0, "whole_ns": 0, "histogram": {}}
            )
            for key in ("calls", "wall_ns", "cpu_ns", "whole_ns"):
                sums[key] += stage[key]
            for bucket, count in stage["histogram"]:
                sums["histogram"][bucket] = sums["histogram"].get(bucket, 0) + count
    return merged


def _percentile(stage: dict[str, Any] | None, part: float) -> float | None:
    """Return a percentile of the calls of a stage in seconds."""
    if not stage or not stage["calls"]:
        return None
    left = part * sum(stage["histogram"].values())
    for bucket, count in sorted(stage["histogram"].items()):
        left -= count
        if left <= 0:
            return duration_of(bucket) / 1e9
    return None


def _run_delay(makers: list[dict[str, Any]], made_s: float, part: float) -> float:
    """Return the part of the making in which its threads stand in line for a core.

    Args:
        makers: processes.
        made_s: time of the making.
        part: of the threads' delay that counts to it.
    """
    delay_ns = sum(
        maker["last"].get("main_run_delay_ns", 0) - maker["first"].get("main_run_delay_ns", 0)
        for maker in makers
        if maker["last"] and maker["first"]
    )
    return min(part * delay_ns / 1e9 / made_s, 1.0) if made_s else 0.0
