"""The planning side of the loading suite, as every suite has one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar

from skymark.cache.location import stand_in
from skymark.machine.cgroup import Need
from skymark.model.data import NamedData
from skymark.model.effort import Effort
from skymark.model.machine import Platform, Target
from skymark.model.metric import Declaration, Figure
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cause, Cell, Record, RoundResult, StabilityWarning
from skymark.model.sizes import percent
from skymark.model.venv import WORKER, VenvSpec
from skymark.suite.contract import DeviceLibrary, Row, Suite, Tuning
from skymark.suite.given import read_given
from skymark.suites.loading.adapter import Adapter
from skymark.suites.loading.cells import (
    ALL,
    SMALLEST,
    SUITE,
    axis_points,
    cell_of,
    check_axes,
    need_of,
    opened_data,
    planned_cell,
    reaches,
    scenario_variants,
    settings_of,
    specification_of,
)
from skymark.suites.loading.figures import all_figures
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.options import OPTIONS, LoadingOptions, check_settings, read_settings
from skymark.suites.loading.registry import (
    adapter_class,
    adapter_of,
    adapter_reference,
    adapters,
    scenario_class,
    scenarios,
)
from skymark.suites.loading.specification import (
    LoadingSpecification,
    SlugReference,
    parse_reference,
    reference_of,
)
from skymark.suites.loading.stability import warnings_of
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.tuning import EFFORTS, TUNING


class LoadingSuite(Suite):
    """Scenarios × data-loading libraries."""

    name: ClassVar = SUITE
    title: ClassVar = "data-loading libraries, with proof that they did the same work"
    runner: ClassVar = "skymark.suites.loading.bench:AdapterBench"
    judge: ClassVar = "skymark.suites.loading.judge:LoadingJudge"
    ceilings: ClassVar = "skymark.suites.loading.ceilings"
    doubtful: ClassVar = frozenset(
        {"claimed-time", "kept-work", "slow-single-rank", "worked-ahead"}
    )
    declaration: ClassVar[Declaration] = DECLARATION
    efforts: ClassVar[Mapping[str, Effort]] = EFFORTS
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    tuning: ClassVar[Tuning | None] = TUNING

    def scenarios(self) -> list[Row]:
        """Return a line per scenario."""
        return [
            {
                "id": cls.id,
                "tier": cls.tier,
                "work": cls.title,
                "variants": list(cls.sizes()),
                "axes": {name: list(values) for name, values in cls.axis_values.items()},
                "needs": sorted(cls.needs),
            }
            for cls in scenarios().values()
        ]

    def adapters(self) -> list[Row]:
        """Return a line per adapter; `install` is the command where none installs by itself."""
        return [
            {
                "slug": slug,
                "name": cls.name,
                "install": cls.install_hint or None,
                "formats": list(cls.formats),
                "shuffles": cls.shuffles,
                "native": sorted(cls.native),
                "guide": cls.guide,
            }
            for slug, cls in adapters().items()
        ]

    def declared(self, cells: Iterable[Cell]) -> Declaration:
        """Return the metrics with the titles of scenarios and the names of libraries."""
        cells = list(cells)
        titles = {one.scenario: scenarios().get(one.scenario) for one in cells}
        names = {one.adapter: display_name(one.adapter) for one in cells}
        return self.declaration.model_copy(
            update={
                "scenario_titles": {id: cls.title for id, cls in titles.items() if cls},
                "adapter_names": {slug: name for slug, name in names.items() if name},
            }
        )

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection: scenario by scenario, adapter by adapter."""
        chosen_options = read_given(LoadingOptions, "option", selection.options)
        names = selection.scenarios or ("tier-1",)
        size = selection.size or SMALLEST
        chosen = [pair for name in names for pair in scenario_variants(name, size)]
        known = tuple(adapters())
        chosen_names = [
            slug
            for name in selection.adapters or (ALL,)
            for slug in (known if name == ALL else (name,))
        ]
        references = list(dict.fromkeys(map(adapter_reference, chosen_names)))
        chosen_axes = chosen_options.axes
        check_axes(chosen_axes, [cls for cls, _ in chosen])
        options = {name for one in references for name in adapter_class(str(one)).options}
        check_settings(selection.settings, options)
        data = opened_data(chosen_options.data, skip_damaged=chosen_options.skip_damaged)
        elements = read_settings(selection.settings)[0].elements
        specified = {
            pair: specification_of(*pair, chosen_options.seed, data, elements)
            for pair in dict.fromkeys(chosen)
        }
        return [
            planned_cell(
                cell_of(
                    *(cls, variant, reference, axes),
                    settings_of(cls, selection.settings, selection.platform),
                    specified[cls, variant].specification,
                ),
                effort,
                selection.platform,
                specified[cls, variant],
            )
            for (cls, variant), reference in product(specified, references)
            for axes in axis_points(cls, chosen_axes)
        ]

    def venv(self, cell: Cell) -> VenvSpec:
        """Return the venv of a cell's adapter: its locked file, or the packages it names."""
        adapter_of(cell)  # before anything of a file is used
        return venv_of(reference_of(cell))

    def adapter_reference(self, cell: Cell) -> str:
        """Return the slug, ``slug@version`` or ``FILE.py:CLASS`` of a cell's adapter."""
        return reference_of(cell)

    def code_of(self, record: Record) -> str:
        """Return the lines of a user's program with a record's workers and prefetched batches."""
        settings, _ = read_settings({**record.cell.settings, **record.cell.axes})
        in_threads = str(record.conditions.get("execution", "")).endswith("threads")
        return adapter_of(record.cell).code(
            settings.workers, settings.prefetch, in_threads=in_threads
        )

    def venvs(self, names: Sequence[str] = ()) -> dict[str, VenvSpec]:
        """Return the venvs of adapters, or of all that install by themselves."""
        chosen = [str(adapter_reference(name)) for name in names] or [
            slug for slug, cls in adapters().items() if not cls.install_hint
        ]
        return {slug: venv_of(slug) for slug in chosen}

    def codec(self, cell: Cell) -> str | None:
        """Return the codec that a cell's scenario decodes."""
        return scenario_class(cell.scenario).codec

    def need(self, cell: Cell) -> Need:
        """Return what the batches of worker processes need of the machine."""
        return need_of(cell)

    def absence(self, cell: Cell) -> Cause | None:
        """Return the command that installs a library, where no package does it by itself."""
        adapter = adapter_of(cell)
        if not adapter.install_hint:
            return None
        if importlib.util.find_spec(adapter.imports.partition(".")[0]) is not None:
            return None
        return Cause(
            kind="library-absent",
            message=f"{adapter.name} has no package that installs by itself",
            action=adapter.install_hint,
        )

    def device_library(self, cell: Cell, platform: Platform) -> DeviceLibrary | None:
        """Return the library by which a cell's adapter sees the accelerator of a platform.

        A library that works on the host has none, unless its batches go to the accelerator.
        """
        cls = adapter_of(cell)
        settings, _ = read_settings(cell.settings)
        used = settings.deliver == "device" or settings.step is not None
        seen_by = cls.acceleration.seen_by.get(platform)
        if seen_by is None and used and platform != "cpu" and reaches(cls, platform):
            seen_by = cls.framework
        if seen_by is None:
            return None
        return DeviceLibrary(
            name=seen_by,
            measured=cls.imports,
            variables=cls.variables_on(platform),
        )

    def data_of(self, cell: Cell) -> str | None:
        """Return a cell's ``--data``; None for synthetic data."""
        return LoadingSpecification.of(cell).data

    def open_data(self, name: str) -> NamedData:
        """Open what ``--data`` names."""
        from skymark.suites.loading.dataset.importing import RealData

        return RealData(name)

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return the cells whose data is not on disk in their format yet."""
        missing: list[Cell] = []
        for cell in cells:
            cls, storage = adapter_of(cell), Storage.of_cell(cache, cell)
            usual = cls.format_for(type(storage.scenario), cell.axes)
            if not storage.is_ready(cls, str(cell.settings.get("format") or usual)):
                missing.append(cell)
        return missing

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Import the real data of cells that is not on disk yet, here: adapters cannot read all."""
        for cell in cells:
            storage = Storage.of_cell(cache, cell)
            if storage.data is not None and not storage.is_imported:
                kept = " from its Parquet" if stand_in(storage.fingerprint, os.environ) else ""
                announce(f"importing {storage.data}{kept} for {cell.scenario}")
                storage.dataset()

    def figures(self, rounds: Sequence[RoundResult]) -> dict[str, Figure]:
        """Return the metrics over all rounds, percentiles of the pooled waits among them."""
        return all_figures(rounds)

    def warnings(
        self, rounds: Sequence[RoundResult], effort: Effort
    ) -> tuple[StabilityWarning, ...]:
        """Return what makes the rate, the waits or the warm-up doubtful."""
        return (*super().warnings(rounds, effort), *warnings_of(rounds))

    def self_test(self) -> dict[str, str]:
        """Return the timed loop's cost per batch, and the null loader's utilisation."""
        from skymark.suites.loading.self_test import null_utilisation, own_cost_ns

        return {
            "own cost per batch": f"{own_cost_ns():.0f} ns (limit 250)",
            "null loader": (
                f"{percent(null_utilisation(1.0), 2)} utilisation at 1 ms (at least 99 %)"
            ),
        }


def display_name(adapter: str) -> str | None:
    """Return a library's own name, with the requested version; None for unknown libraries."""
    reference = parse_reference(adapter)
    known = adapters().get(reference.slug) if isinstance(reference, SlugReference) else None
    if known is None or not isinstance(reference, SlugReference):
        return None
    return known.name if reference.version is None else f"{known.name}@{reference.version}"


SUFFIXES: Mapping[Target, str] = {"cuda12": ".gpu", "cuda13": ".gpu-cuda13", "tpu": ".tpu"}
"""Suffix of the names of pins for a target, such as ``grain.gpu.txt``."""


def venv_of(name: str) -> VenvSpec:
    """Return an adapter's venv, given its slug, ``slug@version`` or ``FILE.py:CLASS``.

    Its variants are those for the accelerators that the library has builds of its own for.
    """
    cls, reference = adapter_class(name), adapter_reference(name)
    version = reference.version if isinstance(reference, SlugReference) else None
    if version is not None or cls.__module__.startswith("skymark.suites.loading.adapters."):
        usual = _built_for(cls, "cpu", version)
        variants = {target: _built_for(cls, target, version) for target in cls.acceleration.builds}
        return usual.model_copy(update={"variants": variants})
    shared = venv_of("numpy")
    packages = tuple(line for line in cls.requirements if line not in shared.declared)
    return VenvSpec(
        name=cls.slug if packages else shared.name,
        locked=shared.locked,
        declared=shared.declared,
        packages=packages,
        python=cls.python,
        imports=cls.imports,
    )


def _built_for(cls: type[Adapter], target: Target, version: str | None) -> VenvSpec:
    """Return the venv of an adapter for a target: pinned, or with a version that the user names."""
    name, builds = cls.shared_venv or cls.slug, cls.acceleration.builds
    distribution = cls.acceleration.distributions.get(target, cls.distribution)
    own = [one for one in cls.requirements if one != cls.distribution or one == distribution]
    # Targets with the same builds have the same pins, under the name of the first.
    named = next((one for one in builds if builds[one] == builds.get(target)), target)
    pins = f"adapters/{name}{SUFFIXES.get(named, '')}.txt"
    return VenvSpec(
        name=name if version is None else f"{cls.slug}@{version}",
        locked=pins if version is None else None,
        similar=None if version is None else pins,
        declared=(*WORKER, *own, *builds.get(target, ())),
        packages=() if version is None else (f"{distribution}=={version}",),
        python=cls.python,
        imports=cls.imports,
        target=target,
    )
