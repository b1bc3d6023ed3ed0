"""The clip suite's worker: load a model once, and score all cells of its group."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from skymark.model.effort import Effort
from skymark.model.record import Resources, RoundResult, Setting
from skymark.suites.clip.encoding.libraries import import_open_clip
from skymark.suites.clip.encoding.loading import activations_of, tokenizer_title
from skymark.suites.clip.features import features_directory
from skymark.suites.clip.metrics import (
    CAPTION_RATE,
    DECODE_RATE,
    ENCODE_RATE,
    END_TO_END_RATE,
    SAMPLE_COLUMNS,
    score_of,
)
from skymark.suites.clip.models.own_weights import conditions_of
from skymark.suites.clip.pixels.preprocessing import UndecodedPixels
from skymark.suites.clip.reading.fetching import fetch, splits_of
from skymark.suites.clip.reading.opening import open_for
from skymark.suites.clip.scoring import Opened, ScoredCell, Scorer
from skymark.suites.clip.specification import CAPTIONING, ClipSpecification

if TYPE_CHECKING:
    from skymark.model.machine import Platform
    from skymark.model.record import Cell
    from skymark.suite.contract import TimedRegion
    from skymark.suites.clip.encoding.encoder import Encoder
    from skymark.suites.clip.reading.samples import DamagedElement

MOST_SAID = 100
"""Limit for damaged elements in a cell's log."""
LIBRARIES = ("torch", "torchvision", "open_clip_torch", "numpy", "pillow")


class ClipRunner:
    """Cells of one model. Implements `skymark.suite.contract.Runner`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform = "cpu") -> None:
        from skymark.suites.clip.features import FeatureStore

        self._cache = cache
        self._platform = platform
        self._encoder: tuple[Any, Encoder] | None = None
        self._read_again: set[str] = set()
        store = (
            None if cell.reuse is None else FeatureStore(features_directory(cell.reuse, cache), say)
        )
        self._scorer = Scorer(cache, store)

    def versions(self) -> dict[str, str]:
        """Return the versions of libraries that affect figures."""
        from importlib.metadata import version

        return {name: version(name) for name in LIBRARIES}

    def prepare(self, cell: Cell) -> None:
        """Fetch and check the cell's data, check the model, decode and resize the images."""
        import_open_clip()
        from skymark.suites.clip.encoding.loading import check_weights, preprocessing_of
        from skymark.suites.clip.pixels.building import ensure_map

        specification = ClipSpecification.of(cell)
        check_weights(specification.model)
        preprocessing = preprocessing_of(specification.model)
        splits = splits_of(specification)
        fetch(specification.source, splits, self._cache, say)
        for split in splits:
            opened = open_for(specification, split, self._cache)
            self._scorer.check(specification, opened)
            if not self._scorer.has_features(specification, opened, preprocessing):
                ensure_map(self._cache, opened, preprocessing)

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Score a cell, and check its data and features."""
        del effort
        import_open_clip()
        from skymark.suites.clip.encoding.timed import EnergyMeter, energy_metrics
        from skymark.suites.clip.oracle.verdict import verify

        begin, started_at = time.perf_counter(), datetime.now(UTC)
        specification = ClipSpecification.of(cell)
        work = self._scorer.opened(specification)
        encoder = self._encoder_for(specification)
        work = self._scorer.with_pixels(specification, work, encoder)
        self._scorer.warm(specification, work, encoder)
        _reset_peak(encoder)
        setup_s = time.perf_counter() - begin
        region.begins()
        meter = EnergyMeter()
        timed_from = time.perf_counter_ns()
        outcome = self._scorer.score(specification, work, encoder)
        timed_ns = time.perf_counter_ns() - timed_from
        packages_j = meter.taken_j()
        resources = region.ends()
        if outcome.report is not None:
            say(outcome.report())
        for one in _left_out(outcome)[:MOST_SAID]:
            say(f"left out: {one.name}: {one.cause}")
        return RoundResult(
            round=round,
            started_at=started_at,
            setup_s=setup_s,
            timed_ns=timed_ns,
            metrics=_metrics(outcome, encoder, timed_ns, resources)
            | _rates(work, outcome, timed_ns)
            | energy_metrics(
                outcome.work.images + outcome.work.captions, encoder.device, packages_j, resources
            ),
            resources=resources,
            samples=_samples(outcome),
            verification=verify(
                specification,
                outcome.scored,
                encoder,
                self._scorer.expected_texts(specification, work),
                seed=specification.seed + round,
                read_again=self._read_again,
            ),
            conditions=_conditions(specification, outcome, encoder),
        )

    def close(self) -> None:
        """Release the model."""
        self._encoder = None

    def _encoder_for(self, specification: ClipSpecification) -> Encoder:
        """Return the group's model with a cell's settings; other settings load it again."""
        import torch

        from skymark.suites.clip.encoding.batches import bound_memory, return_freed_memory
        from skymark.suites.clip.encoding.encoder import Encoder, Settings
        from skymark.suites.clip.encoding.loading import load_model, provide_captions

        settings = Settings(
            precision=specification.precision,
            batch_size=specification.batch_size,
            compile=specification.compile,
            channels_last=specification.channels_last,
            drop_text_tail=specification.drop_text_tail,
        )
        key = (specification.model, settings, specification.seed)
        if self._encoder is None or self._encoder[0] != key:
            self._encoder = None
            device = torch.device(*(("cuda", 0) if self._platform == "gpu" else ("cpu",)))
            bound_memory(device)
            self._scorer.forget()
            return_freed_memory(device)
            loaded = load_model(specification.model, device, specification.seed)
            if specification.task == CAPTIONING:
                provide_captions(loaded)
            self._encoder = key, Encoder(loaded, settings)
        return self._encoder[1]


def _left_out(outcome: ScoredCell) -> list[DamagedElement]:
    """Return the skipped damaged elements of all splits."""
    return [one for split in outcome.scored.splits for one in split.opened.samples.left_out]


def _reset_peak(encoder: Encoder) -> None:
    import torch

    if encoder.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(encoder.device)


def _metrics(
    outcome: ScoredCell, encoder: Encoder, timed_ns: int, resources: Resources
) -> dict[str, float]:
    import torch

    work = outcome.work
    metrics = dict(outcome.scores.metrics)
    if (score := score_of(metrics)) is not None:
        metrics["score"] = score
    metrics |= {
        "images": float(outcome.scored.images),
        "texts": float(len(outcome.scored.texts)),
        "encoder_s": work.encoder_s,
        "other_s": max(0.0, timed_ns / 1e9 - work.encoder_s),
    }
    if any(split.opened.skips for split in outcome.scored.splits):
        metrics["damaged_elements"] = float(len(_left_out(outcome)))
    if work.images:
        metrics["batch_latency_ns"] = median(work.image_batches_ns)
    if resources.peak_pss_bytes is not None:
        metrics["peak_pss_bytes"] = float(resources.peak_pss_bytes)
    if encoder.device.type == "cuda":
        metrics["peak_device_bytes"] = float(torch.cuda.max_memory_allocated(encoder.device))
    return metrics


def _rates(opened: Opened, outcome: ScoredCell, timed_ns: int) -> dict[str, float]:
    """Return images per second; a rate is absent if an earlier cell did its work."""
    work, images = outcome.work, outcome.scored.images
    pairs = zip(opened.pixels, opened.decode_ns, strict=True)
    decoded = [(len(pixels), time_ns) for pixels, time_ns in pairs if time_ns is not None]
    decoded_images = sum(count for count, _ in decoded)
    decode_ns = sum(time_ns for _, time_ns in decoded)
    found = {}
    if decoded_images:
        found[DECODE_RATE] = decoded_images / (decode_ns / 1e9)
    if work.images:
        found[ENCODE_RATE] = work.images / (work.images_ns / 1e9)
    if work.captions:
        found[CAPTION_RATE] = work.captions / (work.captions_ns / 1e9)
    if decoded_images == work.images + work.captions == images:
        found[END_TO_END_RATE] = images / ((decode_ns + timed_ns) / 1e9)
    return found


def say(text: str) -> None:
    """Write a text to standard output, the cell's log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _samples(outcome: ScoredCell) -> dict[str, tuple[int, ...] | tuple[float, ...]]:
    """Return the batches of the encoder, and each image's part of the figures."""
    work = outcome.work
    parts = outcome.scores.parts
    return {
        **{name: tuple(parts[name].tolist()) if name in parts else () for name in SAMPLE_COLUMNS},
        "batch": tuple(range(len(work.image_batches))),
        "encoder_ns": tuple(work.image_batches_ns),
        "images": tuple(work.image_batches),
    }


def _pixels_of(outcome: ScoredCell) -> str:
    """Return where the features of the images come from, for the record's conditions."""
    if outcome.work.images or outcome.work.captions:
        return "computed"
    kept = all(isinstance(one.pixels, UndecodedPixels) for one in outcome.scored.splits)
    return "kept features" if kept else "features of an earlier cell"


def _conditions(
    specification: ClipSpecification, outcome: ScoredCell, encoder: Encoder
) -> dict[str, Setting]:
    import torch

    loaded = encoder.loaded
    found: dict[str, Setting] = {
        "precision": specification.precision,
        "batch_size": encoder.batch_size,
        "weights_digest": loaded.weights_digest or "unknown",
        "preprocessing": loaded.preprocessing.title,
        "normalisation": loaded.preprocessing.normalisation,
        "tokenizer": tokenizer_title(loaded.tokenizer),
        **conditions_of(specification.model, activations_of(encoder.network)),
        "pixels": _pixels_of(outcome),
        "text_tail": "dropped" if encoder.drops_tail else "kept",
        "device": encoder.device.type,
        **outcome.scored.conditions,
    }
    if encoder.batch_size != encoder.asked_batch_size:
        found["batch_size_before_out_of_memory"] = encoder.asked_batch_size
    if encoder.device.type == "cuda":
        found["accelerator"] = torch.cuda.get_device_name(encoder.device)
    return found
