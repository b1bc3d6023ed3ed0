"""Images that one of two models has right and the other wrong, as counts and as a page."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from skymark.cache.location import cache_directory
from skymark.model.base import digest_of
from skymark.model.errors import DataError, UsageError
from skymark.model.record import Record, Status
from skymark.report.text import plain
from skymark.rundir.layout import MANIFEST
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import open_run
from skymark.rundir.row import read_samples
from skymark.statistics.outcomes import mcnemar_p_value
from skymark.suites.clip.reading.opening import OpenedSplit, open_for, prompts_for
from skymark.suites.clip.specification import ClipSpecification

MOST_SHOWN = 200
"""Thumbnails of a data set on the page."""
EDGE = 128
"""Pixels along the longer edge of a thumbnail."""
COLUMNS = ("predicted", "label", "correct")
STYLE = (
    "body{font:15px system-ui;margin:2em}figure{display:inline-block;margin:4px;width:132px;"
    "vertical-align:top}img{max-width:128px;max-height:128px}figcaption{font-size:12px}"
)


@dataclass(frozen=True)
class Flip:
    """An image that one model has right and the other wrong."""

    image: int
    label: int
    first: int
    """Class that the first model chose."""
    second: int


@dataclass(frozen=True)
class Flips:
    """The flips of two models on one data set."""

    record: Record
    """Of the first model."""
    images: int
    flips: tuple[Flip, ...]

    @property
    def lost(self) -> int:
        """Images that only the first model has right."""
        return sum(one.first == one.label for one in self.flips)

    @property
    def won(self) -> int:
        """Images that only the second model has right."""
        return len(self.flips) - self.lost

    @property
    def p_value(self) -> float:
        """Of McNemar's test."""
        return mcnemar_p_value(self.won, self.lost)


def flips_at(places: Sequence[str], first: str, second: str) -> list[Flips]:
    """Return the flips of two models on every data set that both have classified.

    Args:
        places: directories of runs, or of several runs.
        first: a model's name in tables.
        second: likewise.

    Raises:
        UsageError: a place is no run, or the models are one, or share no data set with outcomes of
            images.
    """
    if first == second:
        raise UsageError(f"--flips {first} {second}: give two models, as `clip table` shows them")
    held: dict[tuple[str, str], dict[str, tuple[Path, Record]]] = {}
    names: set[str] = set()
    for directory in _directories(places):
        for record in open_run(directory).records:
            names.add(record.cell.adapter)
            if record.status is Status.OK and record.cell.adapter in (first, second):
                by_model = held.setdefault((record.cell.label, record.cell.variant), {})
                by_model.setdefault(record.cell.adapter, (directory, record))
    if missing := [name for name in (first, second) if name not in names]:
        known = ", ".join(sorted(names)) or "none"
        raise UsageError(f"no record is of {' or '.join(missing)}; the models are {known}")
    pairs = [by_model for by_model in held.values() if {first, second} <= by_model.keys()]
    found = [one for pair in pairs if (one := _flips(pair[first], pair[second])) is not None]
    if not found:
        raise UsageError(f"{first} and {second} classified no data set with the same images")
    return found


def _directories(places: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for place in map(Path, places):
        if (place / MANIFEST).exists():
            found.append(place)
        elif place.is_dir() and (runs := runs_in(place)):
            found += runs
        else:
            raise UsageError(
                f"{place} is no run's directory; `skymark fetch` brings one from a store"
            )
    return found


def _flips(first: tuple[Path, Record], second: tuple[Path, Record]) -> Flips | None:
    """Return the flips of two records; None if they scored other images, or have no outcomes."""
    sides = []
    for directory, record in (first, second):
        samples = read_samples(directory, record, ("round", *COLUMNS))
        if samples is None or not len(samples["round"]) or np.isnan(samples["label"]).all():
            return None
        last = samples["round"] == samples["round"].max()
        sides.append({name: samples[name][last].astype(int) for name in COLUMNS})
    one, other = sides
    digests = {record.conditions.get("elements_digest") for _, record in (first, second)}
    if len(digests) > 1 or not np.array_equal(one["label"], other["label"]):
        return None
    chosen = np.flatnonzero(one["correct"] != other["correct"]).tolist()
    return Flips(
        record=first[1],
        images=len(one["label"]),
        flips=tuple(
            Flip(
                image,
                int(one["label"][image]),
                int(one["predicted"][image]),
                int(other["predicted"][image]),
            )
            for image in chosen
        ),
    )


def page_of(found: Sequence[Flips], first: str, second: str) -> str:
    """Return a page with thumbnails of the flipped images, which needs no other file."""
    parts = [
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{escape(f'{first} and {second}')}</title><style>{STYLE}</style>",
        f"<h1>Images that flip between {escape(plain(first))} and {escape(plain(second))}</h1>",
    ]
    for one in found:
        parts.append(f"<h2>{escape(plain(one.record.cell.label))}</h2>")
        parts.append(f"<p>{escape(sentence_of(one, first, second))}</p>")
        try:
            opened, names = _opened(one.record)
        except DataError as error:
            parts.append(f"<p>{escape(plain(str(error)))}</p>")
            continue
        parts += [_figure(flip, opened, names) for flip in one.flips[:MOST_SHOWN]]
        if len(one.flips) > MOST_SHOWN:
            parts.append(f"<p>{len(one.flips) - MOST_SHOWN} more are in the samples.</p>")
    return "\n".join(parts) + "\n"


def sentence_of(one: Flips, first: str, second: str) -> str:
    """Return the counts of a data set's flips in a sentence."""
    return (
        f"Of {one.images} images, {one.lost} are right with {plain(first)} only and {one.won} with "
        f"{plain(second)} only (McNemar's p = {one.p_value:.2g})."
    )


def _opened(record: Record) -> tuple[OpenedSplit, tuple[str, ...]]:
    """Open a record's data set again; returns its split and class names, which may be empty.

    Raises:
        DataError: the data set is not here any more, or has other images.
    """
    specification = ClipSpecification.of(record.cell)
    opened = open_for(specification, specification.split, cache_directory())
    if specification.linear_probe is not None:
        return opened, ()
    digest = digest_of([opened.samples.content_digest])[:16]
    if digest != record.conditions.get("elements_digest"):
        raise DataError(f"{opened.directory} has other images than were scored")
    return opened, prompts_for(specification, opened).classes


def _figure(flip: Flip, opened: OpenedSplit, names: Sequence[str]) -> str:
    def name(label: int) -> str:
        return escape(plain(names[label] if label < len(names) else str(label)))

    data = _thumbnail(opened.samples.read(flip.image))
    source = f"data:image/jpeg;base64,{b64encode(data).decode()}"
    return (
        f"<figure><img alt='image {flip.image}' src='{source}'><figcaption>{name(flip.label)}: "
        f"{name(flip.first)} → {name(flip.second)}</figcaption></figure>"
    )


def _thumbnail(data: bytes) -> bytes:
    """Return a small JPEG of an image; without Pillow, the image itself."""
    try:
        from skymark.suites.clip.pixels.preprocessing import decoded

        image = decoded(data, "an image")
    except (ModuleNotFoundError, DataError):
        return data
    image.thumbnail((EDGE, EDGE))
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()
