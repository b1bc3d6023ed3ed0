"""Noise of a machine in words, and the changes that can be shown in spite of it."""

from __future__ import annotations

from collections.abc import Iterable

from skymark.machine.noise import Noise
from skymark.report.text import MISSING, duration, share
from skymark.statistics.detection import Detection


def noise_rows(noise: Noise) -> list[tuple[str, str]]:
    """Return what was seen of a machine's noise, as rows of a title and a text."""
    frequency = noise.frequency_mhz
    waits = ", ".join(f"{name} {share(one)}" for name, one in noise.pressure.items())
    times = (noise.fastest_s, noise.median_s, noise.slowest_s)
    fastest, middle, slowest = map(duration, times)
    return [
        ("noise", f"{share(noise.spread)} between {len(noise.rounds_s)} rounds of the same work"),
        ("one repetition", f"{fastest} to {slowest}, mostly {middle}"),
        ("stolen by the host", share(noise.steal_share)),
        ("used by other programs", share(noise.others_share)),
        ("load of the last minute", f"{noise.load_average_1m:.2f}"),
        ("programs that waited", waits or MISSING),
        (
            "frequency",
            MISSING if frequency is None else f"{frequency[0]:,.0f} to {frequency[1]:,.0f} MHz",
        ),
    ]


def detection_rows(found: Iterable[Detection]) -> list[tuple[str, str, str]]:
    """Return a row for each effect: its size, the rounds that show it, and their time."""
    return [
        (
            share(one.effect),
            "more than a thousand rounds" if one.rounds is None else f"{one.rounds} rounds each",
            duration(one.measured_s),
        )
        for one in found
    ]
