"""CLIP_benchmark's files of results: write and read one JSON file per pair."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from skymark.model.errors import DataError, UsageError
from skymark.model.record import Record, Status
from skymark.plain_files import write_whole
from skymark.suite.contract import ForeignFigures
from skymark.suites.clip.metrics import ACCURACIES, SCORE, score_of
from skymark.suites.clip.options import ENGLISH
from skymark.suites.clip.specification import ClipSpecification, LinearProbe

UNSAFE = re.compile(r"[^\w.+=@-]", re.ASCII)
NUMBERED = re.compile(r"(image|text)_retrieval_recall@\d+")
LARGEST_BYTES = 16 << 20
"""Largest file; a file with all class names and templates has less than 1 MB."""
SHORT_DIGEST = 8


class Dumped(BaseModel):
    """Content of a file, as CLIP_benchmark 1.6.2 writes it."""

    model_config = ConfigDict(extra="ignore")

    dataset: str
    model: str
    pretrained: str
    task: str
    metrics: dict[str, JsonValue]
    language: str = ENGLISH


class ClipBenchmarkFormat:
    """The format. Implements `skymark.suite.contract.ForeignFormat`."""

    def write(self, records: Iterable[Record], directory: Path) -> list[Path]:
        """Write the `ok` records into a directory; returns their files.

        Raises:
            UsageError: a file exists with other content, or cannot be written.
        """
        contents: dict[str, bytes] = {}
        for record in records:
            if record.status is Status.OK:
                content = dumped(record)
                name = file_name(content)
                if name in contents:
                    name = f"{name.removesuffix('.json')}_{record.cell_hash[:SHORT_DIGEST]}.json"
                contents[name] = (json.dumps(content, allow_nan=False) + "\n").encode()
        files = {directory / name: content for name, content in contents.items()}
        try:
            for path, text in files.items():
                if path.exists() and path.read_bytes() != text:
                    raise UsageError(
                        f"{path} is there with other figures; name another directory with --output"
                    )
            directory.mkdir(parents=True, exist_ok=True)
            for path, text in files.items():
                write_whole(path, text)
        except OSError as error:
            raise UsageError(f"cannot write to {directory}: {error.strerror}") from error
        return list(files)

    def read(self, file: Path) -> ForeignFigures:
        """Read the figures of one file, without any that are NaN.

        Raises:
            DataError: CLIP_benchmark did not write the file.
        """
        try:
            if file.stat().st_size > LARGEST_BYTES:
                raise DataError(f"{file} is too long for a file of results")
            found = Dumped.model_validate(json.loads(file.read_bytes()))
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error
        except (ValidationError, ValueError, RecursionError) as error:
            raise DataError(f"{file} is no result of CLIP_benchmark: {error}") from error
        metrics = {
            name: float(value)
            for name, value in found.metrics.items()
            if isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
        }
        score = score_of(metrics)
        return ForeignFigures(
            scenario=found.dataset,
            variant=found.task,
            adapter=f"{found.model}:{found.pretrained}",
            axes={} if found.language == ENGLISH else {"language": found.language},
            metrics=metrics if score is None else {SCORE: score, **metrics},
        )


def dumped(record: Record) -> dict[str, JsonValue]:
    """Return a record in CLIP_benchmark's form; a missing figure is null, not NaN."""
    specification = ClipSpecification.of(record.cell)
    weights = specification.model.weights
    own = {one.name for one in ACCURACIES}
    metrics: dict[str, JsonValue] = {
        name: figure.value
        for name, figure in record.metrics.items()
        if name in own or NUMBERED.fullmatch(name)
    }
    if "acc1" in metrics:
        metrics.setdefault("acc5", None)
    if specification.linear_probe is not None:
        metrics |= _of_probe(record, specification.linear_probe, specification.seed)
    return {
        "dataset": record.cell.scenario,
        "model": specification.model.architecture,
        "pretrained": weights.name,
        "task": specification.task,
        "metrics": metrics,
        "language": specification.language,
    }


def _of_probe(record: Record, probe: LinearProbe, seed: int) -> dict[str, JsonValue]:
    decay = record.metrics.get("weight_decay")
    return {
        "lp_acc5": None if (acc5 := record.metrics.get("lp_acc5")) is None else acc5.value,
        "weight_decay": 0 if decay is None else decay.value,
        "epochs": probe.epochs,
        "seed": seed,
        "fewshot_k": probe.fewshot_k,
        "normalized": probe.normalize,
    }


def file_name(content: dict[str, JsonValue]) -> str:
    """Return CLIP_benchmark's name for a file."""
    dataset = str(content["dataset"]).removeprefix("wds/")
    pretrained = Path(str(content["pretrained"])).name
    parts = (dataset, pretrained, content["model"], content["language"], content["task"])
    return UNSAFE.sub("_", "_".join(map(str, parts))) + ".json"
