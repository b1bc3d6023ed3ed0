"""open_clip's architectures and tags, as `survey` wrote them down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from skymark.model.base import Frozen

FILE = "open_clip.json"


class Sizes(Frozen):
    """Sizes of an architecture; operations and bytes are of one image or text in fp32."""

    image_size: int
    """Pixels along an edge."""
    context_length: int
    """Positions of a text."""
    image_parameters: int
    text_parameters: int
    """All that are not the image encoder's."""
    image_flops: int
    text_flops: int
    image_bytes: int
    """Most that an operation of the image encoder reads and writes, parameters left out."""
    text_bytes: int


class Architecture(Frozen):
    """One of open_clip's model configurations."""

    quick_gelu: bool
    """Whether its activation is QuickGELU, as OpenAI's models have it."""
    sizes: Sizes | None
    """None where it could not be built for the survey."""
    tags: dict[str, bool]
    """Whether the weights of each tag were trained with QuickGELU."""
    pixels: dict[str, str]
    """How each tag's images are resized and interpolated."""
    normalisation: dict[str, str]
    """Mean and standard deviation of each tag's pixels."""
    digests: dict[str, str]
    """Beginning of the SHA-256 hex digest of each tag's file, where its address has it."""

    def preprocessing(self, tag: str) -> str:
        """Return how a tag's images are resized, interpolated and normalised, in a few words."""
        return f"{self.pixels[tag]}, {self.normalisation[tag]}"


class Registry(Frozen):
    """All that a version of open_clip has."""

    open_clip: str
    architectures: dict[str, Architecture]
    default_preprocessing: str
    """Of weights without a tag, where nothing else is asked for."""


def normalisation_of(mean: Sequence[float], std: Sequence[float]) -> str:
    """Return the mean and standard deviation of pixels per channel, in a few words."""
    return "mean {}, std {}".format(*(" ".join(f"{one:g}" for one in part) for part in (mean, std)))


@cache
def registry() -> Registry:
    """Return open_clip's models."""
    text = files(__package__).joinpath(FILE).read_text("utf-8")
    return Registry.model_validate_json(text)


def activation_fits(architecture: str, tag: str) -> bool:
    """Whether an architecture has the activation that the weights of a tag were trained with."""
    known = registry().architectures[architecture]
    return known.tags[tag] == known.quick_gelu


def twin_of(architecture: str, tag: str) -> str | None:
    """Return the architecture with the activation that a tag needs, where there is one."""
    others = registry().architectures
    quick = f"{architecture}-quickgelu"
    for name in (quick, architecture.removesuffix("-quickgelu")):
        if name in others and tag in others[name].tags and activation_fits(name, tag):
            return name
    return None


def other_form(architecture: str) -> str | None:
    """Return the architecture that differs in the activation alone, where there is one."""
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
