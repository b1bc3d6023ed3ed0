"""Models by name: open_clip's architectures with tags, or with the user's own files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.clip.names import ALL, expanded, is_glob, matching, nearest
from skymark.suites.clip.specification import Model, Weights

FILE = "open_clip.json"


class Sizes(Frozen):
    """Sizes of an architecture; operations and bytes count one image or text in fp32."""

    image_size: int
    """Pixels along an edge."""
    context_length: int
    """Positions of a text."""
    image_parameters: int
    text_parameters: int
    """All parameters besides the image encoder's."""
    image_flops: int
    text_flops: int
    image_bytes: int
    """Most bytes that an operation of the image encoder reads and writes, without parameters."""
    text_bytes: int


class Architecture(Frozen):
    """A model configuration of open_clip."""

    quick_gelu: bool
    """Whether its activation is QuickGELU, as in OpenAI's models."""
    sizes: Sizes | None
    """None if the survey could not build it."""
    tags: dict[str, bool]
    """Whether the weights of each tag were trained with QuickGELU."""
    pixels: dict[str, str]
    """Resizing and interpolation of each tag's images."""
    normalisation: dict[str, str]
    """Mean and standard deviation of each tag's pixels."""
    digests: dict[str, str]
    """Start of the SHA-256 hex digest of each tag's file, if its address has it."""

    def preprocessing(self, tag: str) -> str:
        """Describe the preprocessing of a tag's images in a few words."""
        return f"{self.pixels[tag]}, {self.normalisation[tag]}"


class Registry(Frozen):
    """The models of one version of open_clip."""

    open_clip: str
    architectures: dict[str, Architecture]
    default_preprocessing: str
    """Preprocessing of weights without a tag."""


def normalisation_of(mean: Sequence[float], std: Sequence[float]) -> str:
    """Describe the mean and standard deviation of pixels per channel in a few words."""
    return "mean {}, std {}".format(*(" ".join(f"{one:g}" for one in part) for part in (mean, std)))


@cache
def registry() -> Registry:
    """Return open_clip's models."""
    text = files(__package__).joinpath(FILE).read_text("utf-8")
    return Registry.model_validate_json(text)


def activation_fits(architecture: str, tag: str) -> bool:
    """Whether an architecture has the activation of a tag's weights."""
    known = registry().architectures[architecture]
    return known.tags[tag] == known.quick_gelu


def twin_of(architecture: str, tag: str) -> str | None:
    """Return the architecture with a tag's activation; None if there is none."""
    others = registry().architectures
    quick = f"{architecture}-quickgelu"
    for name in (quick, architecture.removesuffix("-quickgelu")):
        if name in others and tag in others[name].tags and activation_fits(name, tag):
            return name
    return None


def other_form(architecture: str) -> str | None:
    """Return the architecture that differs in the activation only; None if there is none."""
    plain = architecture.removesuffix("-quickgelu")
    other = plain if plain != architecture else f"{architecture}-quickgelu"
    return other if other in registry().architectures else None


def pairs() -> list[tuple[str, str]]:
    """Return every architecture and tag whose activations fit, in order."""
    return [
        (name, tag)
        for name, one in registry().architectures.items()
        for tag in one.tags
        if activation_fits(name, tag)
    ]


KIND = "model"
FORM = "write ARCHITECTURE:TAG or ARCHITECTURE:FILE, such as ViT-B-32:laion2b_s34b_b79k"
FILE_SUFFIXES = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors"})
SHORT_DIGEST = 8
"""Hex digits of a file's digest in a model's name; many files have the name epoch_32.pt."""


class ChosenModel(Frozen):
    """A chosen model."""

    name: str
    """Name in cells."""
    model: Model
    sizes: Sizes | None
    notes: tuple[str, ...] = ()
    """Assumptions about a file of weights, for the plan."""


def chosen_models(names: Iterable[str]) -> list[ChosenModel]:
    """Choose models by name, each once, in order.

    ``all`` and globs match open_clip's weights with the architecture's activation. Naming weights
    with another activation is an error.

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
    """Choose a model by one name.

    As in open_clip, a slash in an architecture means a dash, and a tag may have any case.

    Raises:
        UsageError: the architecture, tag or file does not exist, or the activation is wrong.
    """
    typed, colon, weights = name.partition(":")
    if not colon and name.count(",") == 1:  # the form of CLIP_benchmark's lists
        typed, colon, weights = name.partition(",")
    if typed.startswith(("hf-hub", "local-dir")):
        raise UsageError(
            f"model {name!r}: a name begins with an architecture; fetch the file and {FORM}"
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
        f"Its tags are {', '.join(tags) or 'none'}; for a file, write its path: ./NAME.pt"
    )


def _is_path(weights: str) -> bool:
    return "/" in weights or Path(weights).suffix in FILE_SUFFIXES


def _of_tag(architecture: str, tag: str) -> ChosenModel:
    """Return a model with a tag of open_clip.

    Raises:
        UsageError: its weights do not fit the architecture's activation.
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
        UsageError: the file is missing, empty, or cannot be read.
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
