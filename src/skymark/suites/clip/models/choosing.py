"""From names to models: ``ARCHITECTURE:TAG``, ``ARCHITECTURE:FILE``, globs, ``all`` and lists."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.clip.models.registry import (
    Sizes,
    activation_fits,
    pairs,
    registry,
    twin_of,
)
from skymark.suites.clip.names import ALL, expanded, is_glob, matching, nearest
from skymark.suites.clip.specification import Model, Weights

KIND = "model"
FORM = "write ARCHITECTURE:TAG or ARCHITECTURE:FILE, such as ViT-B-32:laion2b_s34b_b79k"
FILE_SUFFIXES = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors"})
SHORT_DIGEST = 8
"""Hex digits of a file's digest in a model's name: many checkpoints are called epoch_32.pt."""


class ChosenModel(Frozen):
    """A model that was asked for."""

    name: str
    """As cells call it."""
    model: Model
    sizes: Sizes | None
    notes: tuple[str, ...] = ()
    """What is assumed of a file of weights, for the plan."""


def chosen_models(names: Iterable[str]) -> list[ChosenModel]:
    """Return the models that names stand for, each once, in order.

    ``all`` and globs stand for weights that open_clip has and whose activation is that of the
    architecture; those of another are an error where they are named.

    Raises:
        UsageError: a name is unknown, a file cannot be read, or an activation is wrong.
    """
    known = [f"{architecture}:{tag}" for architecture, tag in pairs()]
    found: dict[str, ChosenModel] = {}
    for name in expanded(names, KIND):
        plain = known if name == ALL else [name]
        if name != ALL and is_glob(name):
            plain = matching(name, known, KIND)
        for one in map(chosen_model, plain):
            found[one.name] = one
    return list(found.values())


def chosen_model(name: str) -> ChosenModel:
    """Return the model that one name stands for.

    As open_clip does, a slash in an architecture is read as a dash, and a tag in any spelling.

    Raises:
        UsageError: there is no such architecture, tag or file, or the activation is wrong.
    """
    typed, colon, weights = name.partition(":")
    if not colon and name.count(",") == 1:  # as lists of CLIP_benchmark have it
        typed, colon, weights = name.partition(",")
    if typed.startswith(("hf-hub", "local-dir")):
        raise UsageError(
            f"model {name!r}: models are named by their architecture; fetch the file and {FORM}"
        )
    architecture = typed.strip().replace("/", "-")
    architectures = registry().architectures
    if architecture not in architectures:
        raise UnknownNameError(
            f"architecture of open_clip {registry().open_clip}", architecture, architectures
        )
    tags = architectures[architecture].tags
    if not weights:
        has = f"its tags are {', '.join(tags)}" if tags else "open_clip has no weights of it"
        raise UsageError(f"model {name!r} names no weights; {FORM}; {has}")
    tag = weights.strip().casefold().replace("-", "_")
    if tag in tags:
        return _of_tag(architecture, tag)
    if _is_path(weights):
        return _of_file(architecture, Path(weights))
    raise UsageError(
        f"{architecture} has no weights {weights!r}; {nearest(tag, tags)} "
        f"Its tags are {', '.join(tags) or 'none'}; a file is named with its path: ./NAME.pt"
    )


def _is_path(weights: str) -> bool:
    return "/" in weights or Path(weights).suffix in FILE_SUFFIXES


def _of_tag(architecture: str, tag: str) -> ChosenModel:
    """Return a model with weights that open_clip has.

    Raises:
        UsageError: they were trained with another activation than the architecture has.
    """
    known = registry().architectures[architecture]
    if not activation_fits(architecture, tag):
        trained, has = ("QuickGELU", "GELU") if known.tags[tag] else ("GELU", "QuickGELU")
        twin = twin_of(architecture, tag)
        remedy = f"name {twin}:{tag}" if twin else "open_clip has no architecture for them"
        raise UsageError(
            f"{architecture}:{tag} would give wrong figures: the weights were trained with "
            f"{trained}, and {architecture} has {has}; {remedy}"
        )
    return ChosenModel(
        name=f"{architecture}:{tag}",
        model=Model(architecture=architecture, weights=Weights(tag=tag)),
        sizes=known.sizes,
    )


def _of_file(architecture: str, path: Path) -> ChosenModel:
    """Return a model with weights in a file.

    Raises:
        UsageError: it is no file, empty, or cannot be read.
    """
    try:
        if not path.is_file():
            raise UsageError(f"there is no checkpoint {path}; name a file")
        if path.stat().st_size == 0:
            raise UsageError(f"the checkpoint {path} is empty; it was not copied to its end")
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"cannot read the checkpoint {path}: {error.strerror}") from error
    return ChosenModel(
        name=f"{architecture}:{path.stem}@{digest[:SHORT_DIGEST]}",
        model=Model(
            architecture=architecture,
            weights=Weights(file=os.path.realpath(path), sha256=digest),
        ),
        sizes=registry().architectures[architecture].sizes,
    )
