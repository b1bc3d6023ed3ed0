"""Compare the clip suite with clip_benchmark: the same checkpoints and data, scored by both.

    python -m tests.clip_parity docs/reference/clip-parity.md [ARCHITECTURE …]

Both run with the same batch size, in fp32 and in mixed precision. Architectures are small ones of
both kinds, or those of open_clip that are named.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.venv import VenvSpec
from skymark.suites.clip.specification import (
    ClipSpecification,
    LinearProbe,
    Model,
    Source,
    Weights,
)
from skymark.suites.clip.suite import CAPTION_VENV, VENV
from tests.clip_parity.cases import AMP_CASES, CAPTIONING_CASES, CASES, Case
from tests.faults.table import renew

HERE = Path(__file__).parent
BATCH_SIZE = 64
CAPTIONER = "CoCa-parity"
USUAL = ("ViT-parity", "RN-parity", CAPTIONER)
MEASURED = (
    *("acc", "mean", "lp_", "image_", "text_", "weight_decay"),
    *("Bleu_", "METEOR", "ROUGE_L", "CIDEr"),
)
"""Starts of the names of clip_benchmark's metrics that are compared."""
COLUMNS = ("model, task and metric", "clip_benchmark 1.6.2", "skymark", "difference")


@dataclass(frozen=True)
class Row:
    """One metric of one case."""

    model: str
    case: str
    metric: str
    theirs: float
    ours: float | None
    tolerance: float

    @property
    def name(self) -> str:
        """Name of its row."""
        return f"{self.model}, {self.case}, {self.metric}"

    @property
    def difference(self) -> float:
        """Infinite where one of the two is missing."""
        return float("inf") if self.ours is None else abs(self.theirs - self.ours)


def interpreters(spec: VenvSpec = VENV) -> tuple[Path, Path]:
    """Return the Python of clip_benchmark's environment, and of one of the clip suite's."""
    venvs = Venvs(cache_directory(), lambda text: print(text, file=sys.stderr))
    peer = venvs.ensure(VenvSpec(name="clip-benchmark", locked="clip-benchmark.txt"))
    return peer.python, venvs.ensure(spec).python


def data_and_checkpoints(python: Path, architectures: Sequence[str]) -> Path:
    """Make what is not there yet; returns its directory."""
    root = cache_directory() / "clip-parity"
    root.mkdir(parents=True, exist_ok=True)
    make = [str(python), "-m", "tests.clip_parity.making", str(root), *architectures]
    subprocess.run(make, check=True, env=environment(), cwd=HERE.parents[1])
    return root


UNCOMPILED = "PYTHONDONTWRITEBYTECODE"
"""With this variable Python compiles its sources in each process."""


def environment() -> dict[str, str]:
    """Return environment variables under which both programs run."""
    source = Path(__file__).parents[2] / "src"
    given = {name: value for name, value in os.environ.items() if name != UNCOMPILED}
    return {**given, "PYTHONPATH": str(source), "HF_HUB_OFFLINE": "1"}


def theirs(
    python: Path,
    root: Path,
    architecture: str,
    case: Case,
    place: Path,
) -> dict[str, float]:
    """Return clip_benchmark's metrics of a case."""
    out = place / "result.json"
    command = [
        *(str(python), str(HERE / "peer.py"), "eval", *case.peer_precision),
        *("--num_workers", "1"),
        *("--model", architecture, "--pretrained", str(root / f"{architecture}.pt")),
        *("--dataset", case.peer_name, "--dataset_root", str(root / "sets" / case.set)),
        *("--task", case.task, "--batch_size", str(BATCH_SIZE), "--output", str(out)),
        *("--feature_root", str(place / "features"), *case.peer_options),
    ]
    done = subprocess.run(
        command, env=environment(), cwd=place, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stderr[-3000:]}\nclip_benchmark failed at {case.title}")
    metrics: dict[str, float] = json.loads(out.read_text())["metrics"]
    return metrics


def specification(
    root: Path, architecture: str, case: Case, changed: Mapping[str, Any] = MappingProxyType({})
) -> ClipSpecification:
    """Return the cell of a case, with settings changed."""
    file = root / f"{architecture}.pt"
    with file.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    settings = {**case.settings, **changed}
    if "linear_probe" in settings:
        settings["linear_probe"] = LinearProbe(**settings["linear_probe"])
    return ClipSpecification(
        model=Model(architecture=architecture, weights=Weights(file=str(file), sha256=sha256)),
        source=Source(
            name=case.name,
            kind="directory",
            address=str(root / "sets" / case.set),
            layout=case.layout,
        ),
        task=case.task,
        batch_size=BATCH_SIZE,
        **settings,
    )


def answers(
    python: Path, script: str, cache: Path, cells: Sequence[ClipSpecification]
) -> list[dict[str, Any]]:
    """Return what a script of the clip suite's environment answers to cells, in one process."""
    done = subprocess.run(
        [str(python), str(HERE / script), str(cache)],
        input="".join(f"{cell.model_dump_json()}\n" for cell in cells),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(found) != len(cells):
        sys.exit(f"{done.stderr[-3000:]}\n{script} failed")
    for cell, answer in zip(cells, found, strict=True):
        if not answer.get("passed", True):
            sys.exit(f"{cell.source.name} is invalid: {answer['cause']}")
    return found


def rows_of(
    root: Path, peer: Path, own: Path, architecture: str, cases: Sequence[Case]
) -> list[Row]:
    """Score cases by both programs."""
    rows: list[Row] = []
    with TemporaryDirectory() as name:
        begin = time.monotonic()
        cells = [specification(root, architecture, case) for case in cases]
        found = answers(own, "ours.py", Path(name) / "cache", cells)
        own_metrics = [answer["metrics"] for answer in found]
        print(f"{architecture}: {time.monotonic() - begin:.0f} s, skymark", file=sys.stderr)
        begin = time.monotonic()
        for number, (case, mine) in enumerate(zip(cases, own_metrics, strict=True)):
            place = Path(name) / str(number)
            place.mkdir()
            for metric, value in theirs(peer, root, architecture, case, place).items():
                if metric.startswith(MEASURED) and value == value:
                    own_value = mine.get(metric)
                    row = Row(architecture, case.title, metric, value, own_value, case.tolerance)
                    rows.append(row)
        print(f"{architecture}: {time.monotonic() - begin:.0f} s, clip_benchmark", file=sys.stderr)
    return rows


def write(page: Path, rows: list[Row]) -> None:
    """Renew the table of a page."""
    cells = {
        row.name: [
            f"{row.theirs:.6f}",
            "missing" if row.ours is None else f"{row.ours:.6f}",
            f"{row.difference:.0e}",
        ]
        for row in rows
    }
    renew(page, "clip parity", COLUMNS, tuple(cells), cells)


def main() -> None:
    """Score, write the table, and fail where a metric differs."""
    page, *named = sys.argv[1:]
    peer, own = interpreters()
    architectures = named or USUAL
    root = data_and_checkpoints(peer, architectures)
    rows: list[Row] = []
    for one in architectures:
        if one == CAPTIONER:
            rows += rows_of(root, *interpreters(CAPTION_VENV), one, CAPTIONING_CASES)
        else:
            rows += rows_of(root, peer, own, one, (*CASES, *AMP_CASES))
    write(Path(page), rows)
    for row in rows:
        print(f"{row.difference:.0e} {row.theirs:.6f} {row.name}")
    if apart := [row for row in rows if row.difference > row.tolerance]:
        names = "; ".join(f"{row.name} ({row.difference:.0e})" for row in apart)
        sys.exit(f"{len(apart)} of {len(rows)} metrics differ by more than they may: {names}")


if __name__ == "__main__":
    main()
