"""The public data sets of CLIP_benchmark, and the places where they lie."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.suites.clip.datasets.local import DataSet, local_set, sugar_crepe
from skymark.suites.clip.reading.samples import real_path
from skymark.suites.clip.specification import Source, Task

FILE = "public.toml"
PREFIX = "wds/"
"""Of the names of data sets in CLIP_benchmark's webdataset layout."""
OWNER = "clip-benchmark"
"""Who serves them on the hub."""

COLLECTIONS = {
    "imagenet_robustness": (
        "imagenetv2",
        "imagenet_sketch",
        "imagenet-a",
        "imagenet-r",
        "objectnet",
    ),
    "retrieval": ("mscoco_captions", "flickr8k", "flickr30k"),
    "sugar_crepe": tuple(
        f"sugar_crepe/{name}"
        for name in (
            "add_att",
            "add_obj",
            "replace_att",
            "replace_obj",
            "replace_rel",
            "swap_att",
            "swap_obj",
        )
    ),
}
"""Names of several data sets, as CLIP_benchmark has them."""

HUB_PAGE = re.compile(
    r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)(?:/(?:tree|resolve)/main)?/?"
)


class PublicSet(Frozen):
    """An entry of the file."""

    title: str
    task: Task
    multilabel: bool = False
    classes: int | None = None
    prompts: int | None = None
    images: int
    texts: int | None = None
    languages: tuple[str, ...] = ("en",)
    hub: bool = True


@cache
def public_sets() -> dict[str, PublicSet]:
    """Return the public data sets by name, such as ``wds/vtab/cifar10``."""
    content = tomllib.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return {f"{PREFIX}{name}": PublicSet.model_validate(one) for name, one in content.items()}


def public_set(name: str, root: str | None, split: str) -> DataSet:
    """Return a public data set.

    Args:
        name: one of `public_sets`.
        root: a directory or an address where data sets lie, with ``{dataset}`` or
            ``{dataset_cleaned}`` (slashes as dashes) for the name; None for the hub.
        split: the one that is to be scored.

    Raises:
        UsageError: nobody is known to serve it, or it is not in the directory.
    """
    one = public_sets()[name]
    if root is None and not one.hub:
        raise UsageError(
            f"{name} ({one.title}) is not on the hub in a layout that is read here; build it, and "
            "name its directory in its place or with --dataset-root"
        )
    if root is None:
        return DataSet(source=source_of(name, None), **one.model_dump(exclude={"hub", "languages"}))
    found = set_below(name, root, split)
    if found.source.kind == "directory" and found.task != one.task:
        raise UsageError(
            f"{found.source.address} is for {found.task}, and {name} for {one.task}; name the "
            "right directory"
        )
    sizes = one.model_dump(include={"title", "task", "multilabel", "images", "texts"})
    return found.model_copy(update=sizes)


def set_below(name: str, root: str, split: str) -> DataSet:
    """Return a data set at the place that a root says; of what lies elsewhere little is known.

    Raises:
        UsageError: it is not there, or in no known layout.
    """
    source = source_of(name, root)
    if source.kind != "directory":
        return DataSet(title=source.address, source=source, task="zeroshot_classification")
    part = Path(source.address) / f"{name.rpartition('/')[2]}.json"
    if "sugar_crepe/" in name and part.exists():
        return sugar_crepe(part, name)
    return local_set(Path(source.address), name, split)


def source_of(name: str, root: str | None) -> Source:
    """Return the place of a data set in the webdataset layout.

    Raises:
        UsageError: there is no such directory.
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
