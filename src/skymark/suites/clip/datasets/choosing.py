"""Data sets by name: CLIP_benchmark's public data sets, directories, collections, lists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import get_args

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.clip.datasets.local import DataSet, local_set, sugar_crepe
from skymark.suites.clip.names import ALL, LISTING, expanded, is_glob, matching, nearest
from skymark.suites.clip.reading.samples import readable, real_path
from skymark.suites.clip.specification import OWN_FIGURES, OwnFigure, Source, Task

FILE = "public.toml"
PREFIX = "wds/"
"""Start of the names of public data sets, which have CLIP_benchmark's webdataset layout."""
OWNER = "clip-benchmark"
"""Their owner on the hub."""

ROBUSTNESS = ("imagenetv2", "imagenet_sketch", "imagenet-a", "imagenet-r", "objectnet")
NOT_IN_VTAB = ("vtab/cifar10", "vtab/dsprites_label_y_position")
"""Public data sets that VTAB's authors leave out of it."""
DATACOMP = "datacomp"
"""DataComp's 38 data sets; without a root, those of them on the hub."""

HUB_PAGE = re.compile(
    r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)(?:/(?:tree|resolve)/main)?/?"
)


class PublicSet(Frozen):
    """An entry of `public.toml`."""

    title: str
    task: Task
    multilabel: bool = False
    classes: int | None = None
    prompts: int | None = None
    images: int
    texts: int | None = None
    languages: tuple[str, ...] = ("en",)
    hub: bool | str = True
    """Whether the hub has it; ``OWNER/NAME`` of a repository with another name."""
    group_column: int | None = None
    datacomp: str | None = None
    """Its metric among DataComp's 38 sets; None for other sets."""

    @property
    def figure(self) -> OwnFigure | None:
        """Its own figure, which is computed for it alone."""
        return next((one for one in OWN_FIGURES if one == self.datacomp), None)


@cache
def public_sets() -> dict[str, PublicSet]:
    """Return the public data sets by name, such as ``wds/vtab/cifar10``."""
    content = tomllib.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return {f"{PREFIX}{name}": PublicSet.model_validate(one) for name, one in content.items()}


@cache
def collections() -> dict[str, list[str]]:
    """Return the public data sets that CLIP_benchmark's names for several stand for."""
    plain = [name.removeprefix(PREFIX) for name in public_sets()]
    of_vtab = [one for one in plain if one.startswith("vtab/") and one not in NOT_IN_VTAB]
    found = {
        "imagenet_robustness": ROBUSTNESS,
        "vtab": (*of_vtab, "sun397"),
        "vtab+": (
            *("imagenet1k", *ROBUSTNESS, "fer2013", "voc2007", "voc2007_multilabel", "sun397"),
            *("cars", "fgvc_aircraft", "mnist", "stl10", "gtsrb", "country211", "renderedsst2"),
            *("vtab/cifar10", *of_vtab),
        ),
        "retrieval": ("mscoco_captions", "flickr8k", "flickr30k"),
        "sugar_crepe": (one for one in plain if one.startswith("sugar_crepe/")),
    }
    return {name: [f"{PREFIX}{one}" for one in chosen] for name, chosen in found.items()}


def public_set(name: str, root: str | None, split: str) -> DataSet:
    """Return a public data set.

    Args:
        name: a key of `public_sets`.
        root: a directory or an address of data sets, with ``{dataset}`` or ``{dataset_cleaned}``
            (slashes as dashes) for the name; None for the hub.
        split: to score.

    Raises:
        UsageError: the hub does not serve it, or the directory does not have it.
    """
    one = public_sets()[name]
    if root is None and not one.hub:
        raise UsageError(
            f"{name} ({one.title}) is not on the hub in a layout that is read here; build it, and "
            "name its directory in its place or with --dataset-root"
        )
    facts = one.model_dump(exclude={"hub", "languages", "datacomp"}) | {"figure": one.figure}
    if root is None:
        source = source_of(name, None)
        if isinstance(one.hub, str):
            source = source.model_copy(update={"address": one.hub})
        return DataSet(source=source, **facts)
    found = set_below(name, root, split)
    if found.source.kind == "directory" and found.task != one.task:
        raise UsageError(
            f"{found.source.address} is for {found.task}, and {name} for {one.task}; name the "
            "right directory"
        )
    del facts["classes"], facts["prompts"]  # the directory's own are known
    return found.model_copy(update=facts)


def set_below(name: str, root: str, split: str) -> DataSet:
    """Return a data set below a root; at an address, its sizes are unknown.

    Raises:
        UsageError: the root does not have it, or it has no known layout.
    """
    source = source_of(name, root)
    if source.kind != "directory":
        return DataSet(title=source.address, source=source, task="zeroshot_classification")
    part = Path(source.address) / f"{name.rpartition('/')[2]}.json"
    if "sugar_crepe/" in name and part.exists():
        return sugar_crepe(part, name)
    return local_set(Path(source.address), name, split)


def source_of(name: str, root: str | None) -> Source:
    """Return the source of a data set in the webdataset layout.

    Raises:
        UsageError: the directory does not exist.
    """
    plain = name.removeprefix(PREFIX)
    cleaned = plain.replace("/", "-")
    if root is None:
        address = f"{OWNER}/wds_{cleaned}"
        return Source(name=name, kind="hub", address=address, layout="webdataset")
    place = root.replace("{dataset_cleaned}", cleaned).replace("{dataset}", plain)
    if page := HUB_PAGE.fullmatch(place):
        return Source(name=name, kind="hub", address=page[1], layout="webdataset")
    if place.startswith(("https://", "http://")):
        if "?" in place or "@" in place:
            raise UsageError(
                f"--dataset-root {root}: an address with a user or a query would show its key in "
                "every plan and result; give one without, or a directory"
            )
        return Source(name=name, kind="url", address=place.rstrip("/"), layout="webdataset")
    path = real_path(Path(place))
    if not path.is_dir():
        raise UsageError(
            f"{name} is not at {path}, where --dataset-root {root} says; name its directory with "
            "{dataset} or {dataset_cleaned} in place of the name"
        )
    return Source(name=name, kind="directory", address=str(path), layout="webdataset")


KIND = "data set"
TASKS: tuple[Task, ...] = get_args(Task)


class ChosenSet(Frozen):
    """A chosen data set and its chosen tasks."""

    dataset: DataSet
    tasks: tuple[Task, ...]


def chosen_sets(
    names: Iterable[str], tasks: Iterable[str], root: str | None, split: str
) -> list[ChosenSet]:
    """Choose data sets by name, each once, in order.

    Args:
        names: public names, directories, collections, globs, ``all`` or files of names; a name can
            end in ``:TASK``.
        tasks: for every data set that serves them; empty for each data set's own task.
        root: of public data sets, as for `public_set`.
        split: to score.

    Raises:
        UsageError: a name or a task is unknown, a data set serves no task, a directory has no known
            layout, or two data sets have one name.
    """
    wanted = checked_tasks(tasks)
    found: dict[str, ChosenSet] = {}
    for typed in expanded(names, KIND):
        name, task = _with_task(typed)
        listed = _listed(name, root)
        for one in listed or [name]:
            dataset = chosen_set(one, root, split)
            asked = (task,) if task else wanted
            served = tuple(t for t in asked if t in dataset.tasks) if asked else (dataset.task,)
            if not served and listed is None:
                raise UsageError(
                    f"{one} serves {' and '.join(dataset.tasks)}, and not {', '.join(asked)}; give "
                    "other --tasks, or leave it out"
                )
            before = found.get(dataset.name)
            if before is not None and before.dataset.source != dataset.source:
                raise UsageError(
                    f"{before.dataset.source.address} and {dataset.source.address} would both be "
                    f"called {dataset.name}; rename a directory"
                )
            if served:
                both = (*before.tasks, *served) if before else served
                found[dataset.name] = ChosenSet(dataset=dataset, tasks=tuple(dict.fromkeys(both)))
    if not found:
        raise UsageError(f"none of these data sets serves {', '.join(wanted)}; give other --tasks")
    require_own_places([one.dataset for one in found.values()])
    return list(found.values())


def require_own_places(datasets: Iterable[DataSet]) -> None:
    """Refuse two names for the same images.

    Raises:
        UsageError: two data sets have one address.
    """
    seen: dict[str, DataSet] = {}
    for one in datasets:
        if one.task == "image_caption_selection":  # parts of SugarCrepe share their images
            continue
        other = seen.setdefault(one.source.address, one)
        if other is not one:
            raise UsageError(
                f"{other.name} and {one.name} would both be read from {one.source.address}; name "
                "the place with {dataset} or {dataset_cleaned} in --dataset-root"
            )


def checked_tasks(names: Iterable[str]) -> tuple[Task, ...]:
    """Return tasks by name, each once.

    Raises:
        UnknownNameError: there is no such task.
    """
    by_name: dict[str, Task] = {task: task for task in TASKS}
    for name in names:
        if name not in by_name:
            raise UnknownNameError("task", name, TASKS)
    return tuple(dict.fromkeys(by_name[name] for name in names))


def chosen_set(name: str, root: str | None, split: str) -> DataSet:
    """Choose a data set by one name.

    Raises:
        UsageError: there is no such data set.
    """
    if name in public_sets():
        return public_set(name, root, split)
    if name.startswith(PREFIX) and root is not None:
        return set_below(name, root, split)
    path = Path(name).expanduser()
    is_public = f"{PREFIX}{name}" in public_sets()
    with readable(path):
        if is_public and path.is_dir():
            raise UsageError(
                f"{name} is a public data set, and a directory here; write {PREFIX}{name} or "
                f"./{name}"
            )
        if path.is_dir():
            return local_set(path, real_path(path).name, split)
    if is_public:
        return public_set(f"{PREFIX}{name}", root, split)
    if name.startswith((".", "/", "~")) and path.suffix != ".json":
        raise UsageError(f"there is no directory {name}; give the directory of a data set")
    if path.suffix == ".json":
        return sugar_crepe(path, f"sugar_crepe/{path.stem}")
    near = nearest(name if name.startswith(PREFIX) else f"{PREFIX}{name}", public_sets())
    raise UsageError(
        f"unknown data set {name!r}; {near}Name a public one (`{LISTING[KIND]}` shows all), or a "
        "directory, such as ./my_set"
    )


def _listed(name: str, root: str | None) -> list[str] | None:
    """Return the public names of ``all``, a collection or a glob; None for another name."""
    reachable = [one for one, public in public_sets().items() if public.hub or root is not None]
    if name == ALL:
        return reachable
    if name == DATACOMP:
        return [one for one in reachable if public_sets()[one].datacomp is not None]
    if name in collections():
        return collections()[name]
    if is_glob(name):
        is_whole = name.startswith(PREFIX) or is_glob(name[0])
        return matching(name if is_whole else f"{PREFIX}{name}", reachable, KIND)
    return None


def _with_task(name: str) -> tuple[str, Task | None]:
    plain, colon, task = name.rpartition(":")
    if not colon or not task.isidentifier() or Path(name).exists():
        return name, None
    return plain, checked_tasks([task])[0]
