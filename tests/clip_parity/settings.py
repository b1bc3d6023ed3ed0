"""The table of settings of ``docs/reference/clip-parity.md``: what each does to the metrics.

python -m tests.clip_parity.settings docs/reference/clip-parity.md [ARCHITECTURE …]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.clip_parity.__main__ import (
    USUAL,
    answers,
    data_and_checkpoints,
    interpreters,
    specification,
    theirs,
)
from tests.clip_parity.cases import CASES, in_amp
from tests.faults.table import renew

CHOSEN = {"classification": "acc1", "multi-label": "mAP", "retrieval": "image R@5"}
METRICS = {
    "acc1": "acc1",
    "mAP": "mean_average_precision",
    "image R@5": "image_retrieval_recall@5",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp32, channels-last": {"channels_last": True},
    "fp32, compiled": {"compile": True},
    "fp32, text tail kept": {"drop_text_tail": False},
    "amp": {"precision": "amp", "drop_text_tail": False},
    "bf16": {"precision": "bf16", "drop_text_tail": False},
    "bf16, text tail dropped": {"precision": "bf16"},
    "fp16": {"precision": "fp16", "drop_text_tail": False},
}
PEER = "clip_benchmark with its amp"


def measured(architectures: Sequence[str]) -> dict[str, list[str]]:
    """Score all models under all settings; returns the rows of the table."""
    peer, own = interpreters()
    root = data_and_checkpoints(peer, architectures)
    cases = [case for case in CASES if case.title in CHOSEN]
    rows: dict[str, list[str]] = {name: [] for name in (*SETTINGS, PEER)}
    with TemporaryDirectory() as name:
        for architecture in architectures:
            cells = [
                specification(root, architecture, case, changed)
                for changed in SETTINGS.values()
                for case in cases
            ]
            found = iter(answers(own, "ours.py", Path(name) / "cache", cells))
            for setting in SETTINGS:
                for case in cases:
                    rows[setting].append(_cell(case.title, next(found)["metrics"]))
            for case in cases:
                place = Path(name) / architecture / case.set
                place.mkdir(parents=True)
                metrics = theirs(peer, root, architecture, in_amp(case), place)
                rows[PEER].append(_cell(case.title, metrics))
    return rows


def _cell(title: str, metrics: Mapping[str, float]) -> str:
    return f"{metrics[METRICS[CHOSEN[title]]]:.4f}"


def main() -> None:
    """Score, and write the table."""
    page, *named = sys.argv[1:]
    architectures = named or USUAL
    rows = measured(architectures)
    columns = ("", *(f"{one} {metric}" for one in architectures for metric in METRICS))
    renew(Path(page), "clip settings", columns, tuple(rows), rows)
    for name, cells in rows.items():
        print(name, *cells)


if __name__ == "__main__":
    main()
