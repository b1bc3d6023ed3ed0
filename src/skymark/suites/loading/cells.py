"""Cells by the names of scenarios, variants, axes and adapters, with reasons against a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from skymark.machine.cgroup import Need
from skymark.model.data import DataTaken
from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.machine import Platform
from skymark.model.plan import PlannedCell
from skymark.model.record import Cause, Cell, Setting, Status
from skymark.suites.loading.adapter import OTHER_IMAGES, Adapter
from skymark.suites.loading.delivery.framework import REACHED, FrameworkName
from skymark.suites.loading.drives.stream import epoch_batches
from skymark.suites.loading.options import LoadingSettings, read_settings
from skymark.suites.loading.registry import (
    adapter_class,
    adapter_of,
    bind_scenario,
    scenario_class,
    scenarios,
)
from skymark.suites.loading.specification import (
    IMPORT_VERSION,
    FileReference,
    LoadingSpecification,
    SlugReference,
    reference_of,
)
from skymark.suites.loading.step.step import IMAGE_BATCH, IMAGE_NETWORKS, TRAINED_BY
from skymark.suites.loading.tuning import LoadingLimits

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.importing import RealData
    from skymark.suites.loading.scenario import Scenario

SUITE = "loading"

ALL = "all"
"""In place of names: every scenario, or every adapter."""

SMALLEST = "small"
"""Default variant of scenarios, if neither a name nor a profile has one."""

BESIDES_S = 0.5
"""Time to open and close a loader, check whether its data is in memory, and pass on its evidence:
0.3 to 0.8 s (`skymark run --effort rented`, two cores)."""

FILES_OF_WORKER = 4
"""Pipes and locks of a worker process, in the process that takes its batches."""

FILES_OF_BATCH = 2
"""Files through which a batch's arrays come: an index and another field at least."""

VERIFYING_S_PER_ELEMENT = 0.001
"""To compare one delivered element with the reference. 256 elements take 0.1 to 0.5 s
(`skymark run --effort quick`, two cores)."""


def scenario_variants(
    name: str, variant_unnamed: str = SMALLEST
) -> list[tuple[type[Scenario], str]]:
    """Return the scenario classes and variants that ``ID``, ``ID:variant`` or ``tier-N`` names.

    Args:
        name: such a name, or ``all``.
        variant_unnamed: the variant for a name without one.

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
    elif plain == ALL:
        found = list(scenarios().values())
    else:
        found = [scenario_class(plain)]
    variant = variant or variant_unnamed
    for cls in found:
        if variant not in (sizes := cls.sizes()):
            raise UnknownNameError(f"variant of {cls.id}", variant, sizes)
    return [(cls, variant) for cls in found]


def check_axes(axes: Mapping[str, tuple[Setting, ...]], chosen: list[type[Scenario]]) -> None:
    """Refuse an axis that no chosen scenario has, or an invalid value.

    The scenario lists the valid words; numbers, which are counts, may be any from 1.

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
    reference: SlugReference | FileReference,
    axes: dict[str, Setting],
    settings: Mapping[str, Setting],
    specified: LoadingSpecification,
) -> Cell:
    """Return one cell; `specified` is the scenario's and the data's `specification_of`."""
    adapter = adapter_class(str(reference))
    own: dict[str, object] = {"adapter_version": adapter.version}
    slug = str(reference)
    if isinstance(reference, FileReference):
        slug = adapter.slug
        digest = sha256(reference.path.read_bytes()).hexdigest()
        own |= {"adapter_file": reference.from_here, "adapter_digest": digest}
    return Cell(
        suite=SUITE,
        scenario=cls.id,
        variant=variant,
        adapter=slug,
        axes=axes,
        settings=dict(settings),
        specification=specified.model_copy(update=own).json_content(),
    )


def settings_of(
    cls: type[Scenario], settings: Mapping[str, Setting], platform: Platform
) -> dict[str, Setting]:
    """Return a scenario's settings, and the settings that follow from them and the platform.

    Batches for a device are copied ahead. On an accelerator, a network of images takes
    `IMAGE_BATCH` images per step, because smaller batches do not fill it.
    """
    given, _ = read_settings(settings)
    found = dict(settings)
    if given.deliver == "device":
        found.setdefault("copies", "ahead")
    step = given.step_kind
    if platform != "cpu" and cls.images and step and step.network in IMAGE_NETWORKS:
        found.setdefault("batch_size", IMAGE_BATCH)
    return found


def planned_cell(
    cell: Cell, effort: Effort, platform: Platform, specified: Specified
) -> PlannedCell:
    """Return a cell with its process, its machine and its time.

    Cells of one adapter share a process, unless their scenario measures memory or start-up. Cells
    of one scenario, size and axes share a machine, because they are compared.
    """
    reference = reference_of(cell)
    cls, specification = scenario_class(cell.scenario), LoadingSpecification.of(cell)
    reason = next(refusals(cell, platform, specified.images), None)
    return PlannedCell(
        cell=cell,
        group=f"{reference} {cell.id}" if cls.own_process else reference,
        shard_key=cell.label,
        guess=guess(cell, effort),
        local_files=tuple(specification.local_files),
        data=specified.data,
        refusal=None if reason is None else (Status.UNSUPPORTED, reason),
    )


def guess(cell: Cell, effort: Effort) -> Span:
    """Return the seconds of one round, from its bounds; the time limit is the only upper bound."""
    limits = LoadingLimits.of(effort)
    elements = min(limits.verified_elements, LoadingSpecification.of(cell).size.elements)
    least_s = scenario_class(cell.scenario).times_as_long * limits.min_seconds
    # Without a limit of its own, the warm-up takes about as long as the measured epochs.
    warm_up_s = least_s if limits.warm_up_seconds is None else 2 * limits.warm_up_seconds
    expected_s = least_s + warm_up_s + BESIDES_S + elements * VERIFYING_S_PER_ELEMENT
    return Span(
        low_s=least_s,
        expected_s=min(expected_s, effort.cell_timeout_s),
        high_s=effort.cell_timeout_s,
    )


def opened_data(data: str | None, *, skip_damaged: bool = False) -> RealData | None:
    """Open the real data that a user names, if any.

    Raises:
        DataError: it cannot be read.
        UsageError: damaged elements are to be left out of synthetic data, which has none.
    """
    if data is None:
        if skip_damaged:
            raise UsageError("--skip-damaged is for real data; add --data, or leave it out")
        return None
    from skymark.suites.loading.dataset.importing import RealData

    return RealData(data, skip_damaged=skip_damaged)


class Specified(NamedTuple):
    """The specification of a scenario's cells, and the account of the real data that it reads."""

    specification: LoadingSpecification
    data: DataTaken | None = None
    images: frozenset[str] = frozenset()
    """Kinds of the first images; the import looks at all of them."""


def specification_of(
    cls: type[Scenario],
    variant: str,
    seed: int,
    data: RealData | None,
    elements: int | None = None,
) -> Specified:
    """Return the specification of a scenario's data and work: versions, seed, size, real data.

    Args:
        cls: the scenario.
        variant: name of a size.
        seed: seed of random numbers.
        data: the user's data; None for synthetic data.
        elements: most elements, in place of the variant's number.

    Raises:
        DataError: the scenario cannot read the real data.
    """
    size = cls.sizes()[variant]
    if elements is not None:
        size = size.model_copy(update={"elements": elements})
    if data is None:
        return Specified(LoadingSpecification(scenario_version=cls.version, seed=seed, size=size))
    data.check(cls)
    found = data.size(cls, size)
    specification = LoadingSpecification(
        scenario_version=cls.version,
        seed=seed,
        size=found,
        data=data.name,
        data_fingerprint=data.fingerprint,
        skip_damaged=data.skip_damaged or None,
        import_version=IMPORT_VERSION,
    )
    return Specified(
        specification, data.taken(cls, size, found), data.image_kinds(cls, found.elements)
    )


def refusals(cell: Cell, platform: Platform, images: frozenset[str]) -> Iterator[Cause]:
    """Yield the reasons why a cell cannot run on a platform.

    Args:
        cell: scenario, adapter and settings.
        platform: of the machine.
        images: kinds of the first images of real data.
    """
    cls, adapter = scenario_class(cell.scenario), adapter_class(reference_of(cell))
    settings, _ = read_settings(cell.settings)
    yield from refusals_of_abilities(cls, adapter, cell.axes, settings)
    if settings.deliver == "device" and not reaches(adapter, platform):
        none = f"no framework of an accelerator in its venv: none of {', '.join(sorted(REACHED))}"
        name = adapter.framework
        why = none if name is None else unreached(adapter, name, platform)
        yield Cause(
            kind="lacks-framework",
            message=f"{adapter.name} cannot deliver batches to a device: {why}",
            action="measure it with --deliver host",
        )
    if settings.step_kind is not None:
        yield from refusals_of_step(cls, adapter, settings.step_kind.network, platform)
    if (reason := adapter.cannot_share(bind_scenario(cell), settings.workers)) is not None:
        yield Cause(kind="uneven-shares", message=reason, action="set another --workers")
    if (reason := adapter.undecoded(cls.id, images)) is not None:
        yield Cause(kind="lacks-decoder", message=reason, action=OTHER_IMAGES)


def need_of(cell: Cell) -> Need:
    """Return the memory and open files for the batches that worker processes hold ready, if any."""
    settings, _ = read_settings(cell.settings)
    scenario, adapter = bind_scenario(cell), adapter_of(cell)
    if adapter.model(scenario) != "processes" or not settings.workers:
        return Need()
    ranks = int(cell.axes.get("ranks", 1))
    size = min(settings.batch_size or scenario.size.batch_size, scenario.size.elements)
    whole = epoch_batches(scenario.size.elements, size, ranks)
    batches = min(settings.workers * settings.prefetch, whole)
    held_bytes = ranks * batches * size * scenario.element_bytes
    return Need(
        shared_memory_bytes=held_bytes,
        open_files=FILES_OF_WORKER * settings.workers + FILES_OF_BATCH * batches,
        memory_bytes=held_bytes,
    )


def reaches(adapter: type[Adapter], platform: Platform) -> bool:
    """Whether the framework of an adapter's venv computes on a platform's devices."""
    name = adapter.framework_on(platform)
    return name is not None and platform in REACHED[name]


def unreached(adapter: type[Adapter], name: FrameworkName, platform: Platform) -> str:
    """Return why an adapter's framework does not reach a platform, in words."""
    if platform not in REACHED[name]:
        return f"the framework in its venv is {name}, which reaches no {platform}"
    platforms = " or ".join(sorted(adapter.framework_platforms))
    return f"its venv has {name} on machines with a {platforms} only"


def refusals_of_abilities(
    cls: type[Scenario],
    adapter: type[Adapter],
    axes: Mapping[str, Setting],
    settings: LoadingSettings,
) -> Iterator[Cause]:
    """Yield the abilities and the format that an adapter lacks."""
    lacking = "; ".join(adapter.lacks(cls.requirements(axes)))
    if adapter.media_only and not cls.encoded_media:
        lacking = adapter.media_only
    if adapter.native_only and cls.id not in adapter.native:
        lacking = adapter.native_only
    if lacking:
        yield Cause(kind="lacks-ability", message=lacking)
    if settings.format is not None and settings.format not in adapter.formats:
        yield Cause(
            kind="lacks-format",
            message=f"{adapter.name} does not read the format {settings.format!r}",
            action=f"choose from {', '.join(adapter.formats)}",
        )


def refusals_of_step(
    cls: type[Scenario], adapter: type[Adapter], network: str, platform: Platform
) -> Iterator[Cause]:
    """Yield the reasons why an adapter cannot train a network on a scenario's batches."""
    if "jax" in cls.needs:
        yield Cause(
            kind="lacks-step",
            message=f"{cls.id} divides its batches among devices, and a step is of one device",
            action="measure it with --think-time-ms",
        )
    if network in IMAGE_NETWORKS and not cls.images:
        yield Cause(
            kind="lacks-step",
            message=f"{network} is trained on images, and {cls.id} delivers none",
            action="measure it with --step mlp:MS",
        )
    name = adapter.framework
    if name in TRAINED_BY and reaches(adapter, platform):
        return
    if name is None:
        trained_by = " or ".join(TRAINED_BY.values())
        lacking = f"no framework in its venv that has a training step: {trained_by}"
    elif name not in TRAINED_BY:
        lacking = f"the framework in its venv is {name}, which has no training step here"
    else:
        lacking = unreached(adapter, name, platform)
    yield Cause(
        kind="lacks-framework",
        message=f"{adapter.name} cannot make the step {network}: {lacking}",
        action="measure it with --think-time-ms",
    )
