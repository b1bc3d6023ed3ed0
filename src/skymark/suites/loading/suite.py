"""The planning side of the loading suite: from names to cells, with the reasons against."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.model.cell import Cell, Setting
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.metric import Declaration, Figure
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cause, RoundResult, StabilityWarning, Status
from skymark.model.span import Span
from skymark.model.venv import VenvSpec
from skymark.suite.contract import Row, Suite
from skymark.suites.loading.adapter import ABILITIES, Adapter
from skymark.suites.loading.efforts import EFFORTS, LoadingLimits
from skymark.suites.loading.figures import all_figures
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.options import OPTIONS, LoadingOptions
from skymark.suites.loading.registry import (
    adapter_class,
    adapter_slug,
    adapters,
    scenario_class,
    scenarios,
)
from skymark.suites.loading.settings import check_settings
from skymark.suites.loading.specification import LoadingSpecification, reference_of
from skymark.suites.loading.stability import warnings_of
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.importing import RealData
    from skymark.suites.loading.scenario import Scenario

VERIFYING_S_PER_ELEMENT = 0.001
"""To compare one delivered element with the reference. 256 elements take 0.1 to 0.5 s
(`skymark run --effort quick`, two cores)."""


class LoadingSuite(Suite):
    """Scenarios × data-loading libraries."""

    name: ClassVar = "loading"
    title: ClassVar = "data-loading libraries, with proof that they did the same work"
    runner: ClassVar = "skymark.suites.loading.bench:AdapterBench"
    declaration: ClassVar[Declaration] = DECLARATION
    efforts: ClassVar[Mapping[str, Effort]] = EFFORTS
    options: ClassVar[tuple[Option, ...]] = OPTIONS

    def scenarios(self) -> list[Row]:
        """Return a line per scenario."""
        return [
            {
                "id": cls.id,
                "tier": cls.tier,
                "work": cls.title,
                "variants": list(cls.variants),
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
                "native": sorted(cls.native),
            }
            for slug, cls in adapters().items()
        ]

    def declared(self, cells: Iterable[Cell]) -> Declaration:
        """Return the metrics with the titles of scenarios and the names of libraries."""
        cells = list(cells)
        titles = {one.scenario: scenarios().get(one.scenario) for one in cells}
        slugs = {one.adapter.partition("@")[0] for one in cells}
        return self.declaration.model_copy(
            update={
                "scenario_titles": {id: cls.title for id, cls in titles.items() if cls},
                "adapter_names": {
                    slug: cls.name for slug, cls in adapters().items() if slug in slugs
                },
            }
        )

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection: scenario by scenario, adapter by adapter."""
        chosen_options = LoadingOptions.of(selection.options)
        names = selection.scenarios or ("tier-1",)
        chosen = [pair for name in names for pair in scenario_variants(name)]
        slugs = [adapter_slug(name) for name in selection.adapters] or list(adapters())
        chosen_axes = chosen_options.axes
        check_axes(chosen_axes, [cls for cls, _ in chosen])
        options = {name for slug in slugs for name in adapter_class(slug).options}
        check_settings(selection.settings, options)
        data = opened_data(chosen_options.data)
        specified = {
            pair: specification_of(*pair, chosen_options.seed, data)
            for pair in dict.fromkeys(chosen)
        }
        return [
            planned_cell(
                cell_of(cls, variant, slug, axes, selection.settings, specified[cls, variant]),
                effort,
            )
            for (cls, variant), slug in product(specified, dict.fromkeys(slugs))
            for axes in axis_points(cls, chosen_axes)
        ]

    def venv(self, cell: Cell) -> VenvSpec:
        """Return the venv of a cell's adapter: its locked file, or the packages it names."""
        return venv_of(reference_of(cell))

    def venvs(self, names: Sequence[str] = ()) -> dict[str, VenvSpec]:
        """Return the venvs of adapters, or of all that install by themselves."""
        chosen = [adapter_slug(name) for name in names] or [
            slug for slug, cls in adapters().items() if not cls.install_hint
        ]
        return {slug: venv_of(slug) for slug in chosen}

    def absence(self, cell: Cell) -> Cause | None:
        """Return the command that installs a library, where no package does it by itself."""
        adapter = adapter_class(reference_of(cell))
        if not adapter.install_hint:
            return None
        if importlib.util.find_spec(adapter.imports.partition(".")[0]) is not None:
            return None
        return Cause(
            kind="library-absent",
            message=f"{adapter.name} has no package that installs by itself",
            action=adapter.install_hint,
        )

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return the cells whose data is not on disk in their format yet."""
        missing: list[Cell] = []
        for cell in cells:
            cls, storage = adapter_class(reference_of(cell)), Storage.of_cell(cache, cell)
            usual = cls.format_for(type(storage.scenario), cell.axes)
            if not storage.is_ready(cls, str(cell.settings.get("format") or usual)):
                missing.append(cell)
        return missing

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Import the real data of cells that is not on disk yet, here: adapters cannot read all."""
        for cell in cells:
            storage = Storage.of_cell(cache, cell)
            if storage.data is not None and not storage.is_imported:
                announce(f"importing {storage.data} for {cell.scenario}")
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
            "null loader": f"{null_utilisation(1.0):.2%} utilisation at 1 ms (at least 99 %)",
        }


def venv_of(reference: str) -> VenvSpec:
    """Return an adapter's venv, given its slug, ``slug@version`` or ``FILE.py:CLASS``."""
    cls = adapter_class(reference)
    version = "" if ".py:" in reference else reference.partition("@")[2]
    if version:
        return VenvSpec(
            name=f"{cls.slug}@{version}",
            declared=f"adapters/{cls.slug}.in",
            packages=(f"{cls.distribution}=={version}",),
            python=cls.python,
        )
    if cls.__module__.startswith("skymark.suites.loading.adapters."):
        return VenvSpec(name=cls.slug, locked=f"adapters/{cls.slug}.txt", python=cls.python)
    return VenvSpec(
        name=cls.slug if cls.requirements else "numpy",
        locked="adapters/numpy.txt",
        packages=cls.requirements,
        python=cls.python,
    )


def scenario_variants(name: str) -> list[tuple[type[Scenario], str]]:
    """Return the scenario classes and variants that ``ID``, ``ID:variant`` or ``tier-N`` names.

    Raises:
        UnknownNameError: no such scenario or variant.
    """
    plain, _, variant = name.partition(":")
    if plain.casefold().startswith("tier-"):
        tier = plain.casefold().removeprefix("tier-")
        found = [cls for cls in scenarios().values() if tier == str(cls.tier)]
        if not found:
            tiers = {f"tier-{cls.tier}" for cls in scenarios().values()}
            raise UnknownNameError("scenario tier", plain, tiers)
    elif plain == "all":
        found = list(scenarios().values())
    else:
        found = [scenario_class(plain)]
    variant = variant or "small"
    for cls in found:
        if variant not in cls.variants:
            raise UnknownNameError(f"variant of {cls.id}", variant, cls.variants)
    return [(cls, variant) for cls in found]


def check_axes(axes: Mapping[str, tuple[Setting, ...]], chosen: list[type[Scenario]]) -> None:
    """Refuse an axis that none of the chosen scenarios has, or a value that it cannot have.

    Words are those that the scenario has; numbers, which are counts, may be any from 1.

    Raises:
        UsageError: an axis or a value is wrong.
    """
    known = {name: values for cls in chosen for name, values in cls.axis_values.items()}
    for name, values in axes.items():
        if name not in known:
            raise UnknownNameError("axis", name, known or ["(these scenarios have no axis)"])
        expected = type(known[name][0])
        for value in values:
            if type(value) is not expected:
                raise UsageError(
                    f"axis {name}={value!r} must be {expected.__name__}, such as {known[name]}"
                )
            if isinstance(value, str) and value not in known[name]:
                raise UnknownNameError(f"value of axis {name}", value, map(str, known[name]))
            if isinstance(value, int) and value < 1:
                raise UsageError(f"axis {name}={value} must be at least 1")


def axis_points(
    cls: type[Scenario], chosen: Mapping[str, tuple[Setting, ...]]
) -> list[dict[str, Setting]]:
    """Return one dictionary per combination of the scenario's axis values, each once."""
    values = {
        name: tuple(dict.fromkeys(chosen.get(name, default)))
        for name, default in cls.axis_values.items()
    }
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


def cell_of(
    cls: type[Scenario],
    variant: str,
    slug: str,
    axes: dict[str, Setting],
    settings: Mapping[str, Setting],
    specified: LoadingSpecification,
) -> Cell:
    """Return one cell; `specified` is what `specification_of` says of the scenario and its data."""
    adapter = adapter_class(slug)
    own: dict[str, object] = {"adapter_version": adapter.version}
    if own_file := ".py:" in slug:
        source = Path(slug.rpartition(":")[0]).read_bytes()
        own |= {"adapter_file": slug, "adapter_digest": sha256(source).hexdigest()}
    return Cell(
        suite=LoadingSuite.name,
        scenario=cls.id,
        variant=variant,
        adapter=adapter.slug if own_file else slug,
        axes=axes,
        settings=dict(settings),
        specification=specified.model_copy(update=own).json_content(),
    )


def planned_cell(cell: Cell, effort: Effort) -> PlannedCell:
    """Return a cell with its process, its machine and its time.

    Cells of one adapter share a process, unless their scenario measures memory or start-up; cells
    that are compared with one another, those of one scenario, size and axes, share a machine.
    """
    reference = reference_of(cell)
    cls, adapter = scenario_class(cell.scenario), adapter_class(reference)
    return PlannedCell(
        cell=cell,
        group=f"{reference} {cell.id}" if cls.own_process else reference,
        shard_key=cell.label,
        guess=guess(cell, effort),
        refusal=refusal(cls, adapter, cell.axes, cell.settings),
    )


def guess(cell: Cell, effort: Effort) -> Span:
    """Return the seconds of one round, from its bounds: nothing but its time limit bounds it."""
    limits = LoadingLimits.of(effort)
    elements = min(limits.verified_elements, LoadingSpecification.of(cell).size.elements)
    expected_s = 2 * limits.min_seconds + elements * VERIFYING_S_PER_ELEMENT
    return Span(
        low_s=limits.min_seconds,
        expected_s=min(expected_s, effort.cell_timeout_s),
        high_s=effort.cell_timeout_s,
    )


def opened_data(data: str | None) -> RealData | None:
    """Open the real data that a user names, if any.

    Raises:
        DataError: it cannot be read.
    """
    if data is None:
        return None
    from skymark.suites.loading.dataset.importing import RealData

    return RealData(data)


def specification_of(
    cls: type[Scenario], variant: str, seed: int, data: RealData | None
) -> LoadingSpecification:
    """Return what decides a scenario's data and work: versions, seed, size, real data.

    Raises:
        DataError: the real data is not what the scenario reads.
    """
    size = cls.variants[variant]
    if data is None:
        return LoadingSpecification(scenario_version=cls.version, seed=seed, size=size)
    data.check(cls)
    return LoadingSpecification(
        scenario_version=cls.version,
        seed=seed,
        size=data.size(cls, size),
        data=data.name,
        data_fingerprint=data.fingerprint,
    )


def refusal(
    cls: type[Scenario],
    adapter: type[Adapter],
    axes: Mapping[str, Setting],
    settings: Mapping[str, Setting],
) -> tuple[Status, Cause] | None:
    """Return why a cell cannot be run: what the adapter lacks of what the scenario needs."""
    if lacking := sorted(cls.requirements(axes) - adapter.abilities):
        reasons = "; ".join(
            adapter.limits.get(name, f"the adapter does not {ABILITIES[name]}") for name in lacking
        )
        return Status.UNSUPPORTED, Cause(kind="lacks-ability", message=reasons)
    if (format := settings.get("format")) is not None and format not in adapter.formats:
        return Status.UNSUPPORTED, Cause(
            kind="lacks-format",
            message=f"{adapter.name} does not read the format {format!r}",
            action=f"choose from {', '.join(adapter.formats)}",
        )
    return None
