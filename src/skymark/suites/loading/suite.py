"""The planning side of the loading suite: from names to cells, with the reasons against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.model.cell import Cell, Setting
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Cause, Status
from skymark.model.venv import VenvSpec
from skymark.suites.loading.adapter import ABILITIES, Adapter
from skymark.suites.loading.registry import (
    adapter_class,
    adapter_slug,
    adapters,
    scenario_class,
    scenarios,
)
from skymark.suites.loading.settings import check_settings
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.importing import RealData
    from skymark.suites.loading.scenario import Scenario


class LoadingSuite:
    """Scenarios × data-loading libraries. Implements `skymark.suite.contract.Suite`."""

    name = "loading"
    runner = "skymark.suites.loading.bench:AdapterBench"

    def plan(self, selection: Selection) -> list[PlannedCell]:
        """Return the cells of a selection: scenario by scenario, adapter by adapter."""
        names = selection.scenarios or ("tier-1",)
        chosen = [pair for name in names for pair in scenario_variants(name)]
        slugs = [adapter_slug(name) for name in selection.adapters] or list(adapters())
        check_axes(selection.axes, [cls for cls, _ in chosen])
        options = {name for slug in slugs for name in adapter_class(slug).options}
        check_settings(selection.settings, options)
        data = opened_data(selection)
        specified = {
            pair: specification_of(*pair, selection.seed, data) for pair in dict.fromkeys(chosen)
        }
        return [
            plan_cell(cls, variant, slug, axes, selection, specified[cls, variant])
            for (cls, variant), slug in product(specified, dict.fromkeys(slugs))
            for axes in axis_points(cls, selection.axes)
        ]

    def venv(self, adapter: str) -> VenvSpec:
        """Return the adapter's venv: its locked file, or the packages it names."""
        cls = adapter_class(adapter)
        version = "" if ".py:" in adapter else adapter.partition("@")[2]
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

    def group(self, cell: Cell) -> str:
        """Group cells by adapter; a scenario that measures memory has a process to itself."""
        alone = scenario_class(cell.scenario).own_process
        return f"{cell.reference} {cell.id}" if alone else cell.reference

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return the cells whose data is not on disk in their format yet."""
        missing: list[Cell] = []
        for cell in cells:
            cls, storage = adapter_class(cell.reference), Storage.of_cell(cache, cell)
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


def plan_cell(
    cls: type[Scenario],
    variant: str,
    slug: str,
    axes: dict[str, Setting],
    selection: Selection,
    specified: Mapping[str, object],
) -> PlannedCell:
    """Make one cell, with the reason if it cannot be run.

    `specified` is what `specification_of` says of the scenario and its data.
    """
    adapter = adapter_class(slug)
    specification: dict[str, object] = {**specified, "adapter_version": adapter.version}
    if own_file := ".py:" in slug:
        source = Path(slug.rpartition(":")[0]).read_bytes()
        specification |= {"adapter_file": slug, "adapter_digest": sha256(source).hexdigest()}
    cell = Cell(
        suite="loading",
        scenario=cls.id,
        variant=variant,
        adapter=adapter.slug if own_file else slug,
        axes=axes,
        settings=dict(selection.settings),
        specification=specification,
    )
    return PlannedCell(cell=cell, refusal=refusal(cls, adapter, axes, cell.settings))


def opened_data(selection: Selection) -> RealData | None:
    """Open the real data that a selection names, if it names any.

    Raises:
        DataError: it cannot be read.
    """
    if selection.data is None:
        return None
    from skymark.suites.loading.dataset.importing import RealData

    return RealData(selection.data)


def specification_of(
    cls: type[Scenario], variant: str, seed: int, data: RealData | None
) -> dict[str, object]:
    """Return what decides a scenario's data and work: versions, seed, size, real data.

    Raises:
        DataError: the real data is not what the scenario reads.
    """
    size = cls.variants[variant]
    specification: dict[str, object] = {"scenario_version": cls.version, "seed": seed}
    if data is not None:
        data.check(cls)
        specification |= {"data": data.name, "data_fingerprint": data.fingerprint}
        size = data.size(cls, size)
    return {**specification, "size": size.model_dump(mode="json")}


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
    if adapter.install_hint:
        import importlib.util

        if importlib.util.find_spec(adapter.imports.partition(".")[0]) is None:
            return Status.SKIPPED, Cause(
                kind="library-absent",
                message=f"{adapter.name} has no package that installs by itself",
                action=adapter.install_hint,
            )
    return None
