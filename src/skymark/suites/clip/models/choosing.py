"""Models by name: open_clip's architectures with tags or files, folders, hubs and Python files."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import UnknownNameError, UsageError
from skymark.plain_files import read_regular
from skymark.suites.clip.names import ALL, LISTING, expanded, is_glob, matching, nearest
from skymark.suites.clip.specification import Model, ModelConfiguration, Weights

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

    def at(self, edge: int | None) -> Sizes:
        """Return the sizes for images with this many pixels along an edge; None for its own."""
        part = 1.0 if edge is None else (edge / self.image_size) ** 2
        found = {name: round(getattr(self, name) * part) for name in ("image_flops", "image_bytes")}
        return self.model_copy(update=found)


class Architecture(Frozen):
    """A model configuration of open_clip."""

    quick_gelu: bool
    """Whether its activation is QuickGELU, as in OpenAI's models."""
    captions: bool = False
    """Whether its models write captions."""
    sizes: Sizes | None
    """None if the survey could not build it, and for the user's own."""
    tags: dict[str, bool] = Field(default_factory=dict)
    """Whether the weights of each tag were trained with QuickGELU."""
    pixels: dict[str, str] = Field(default_factory=dict)
    """Resizing and interpolation of each tag's images."""
    normalisation: dict[str, str] = Field(default_factory=dict)
    """Mean and standard deviation of each tag's pixels."""
    digests: dict[str, str] = Field(default_factory=dict)
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


def architecture_of(model: Model) -> Architecture | None:
    """Return the configuration of a model's architecture; None if it comes with the weights."""
    if model.configuration is not None:
        content = configuration_in(Path(model.configuration.path))
        return Architecture(
            quick_gelu=bool(content.get("quick_gelu", False)),
            captions=writes_captions(content),
            sizes=None,
        )
    if model.library != "open_clip" or model.weights.folder or model.weights.hub:
        return None
    return registry().architectures.get(model.architecture)


NO_CAPTIONS = "writes no captions; name a CoCa model with open_clip's own tokenizer"


def writes_captions(configuration: Mapping[str, object]) -> bool:
    """Whether a configuration in open_clip's format is of a CoCa model with the tokenizer of CLIP.

    open_clip's ``generate`` and clip_benchmark know the tokens of that tokenizer only.
    """
    text = configuration["text_cfg"]
    return "multimodal_cfg" in configuration and "hf_tokenizer_name" not in dict(text)  # type: ignore[call-overload]


def lacks_captions(model: Model) -> bool:
    """Whether a model writes no captions; only its worker knows that of a folder or repository."""
    known = architecture_of(model)
    return model.library != "open_clip" or (known is not None and not known.captions)


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
FOLDER_CONFIGURATION = {"local-dir": "open_clip_config.json", "transformers": "config.json"}
"""File that a folder needs, by the prefix of its name."""
OPEN_CLIP_ALL = "openclip_all"
COLLECTIONS = {
    "openai": tuple(
        f"{name},openai" for name in ("ViT-B-32", "ViT-B-16", "ViT-L-14", "ViT-L-14-336")
    ),
    "openclip_base": (
        "ViT-B-32-quickgelu,laion400m_e32",
        "ViT-B-32,laion2b_e16",
        "ViT-B-32,laion2b_s34b_b79k",
        "ViT-B-16,laion400m_e32",
        "ViT-B-16-plus-240,laion400m_e32",
        "ViT-L-14,laion400m_e32",
        "ViT-L-14,laion2b_s32b_b82k",
        "ViT-H-14,laion2b_s32b_b79k",
        "ViT-g-14,laion2b_s12b_b42k",
    ),
    "openclip_multilingual": (
        "xlm-roberta-base-ViT-B-32,laion5b_s13b_b90k",
        "xlm-roberta-large-ViT-H-14,frozen_laion5b_s13b_b90k",
    ),
}
"""CLIP_benchmark's names for several models."""
PREFIXES = ("local-dir", "hf-hub", "transformers")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
FOLDER_SUFFIXES = frozenset({".safetensors", ".bin", ".pth", ".json", ".txt", ".model", ".jinja"})
"""Files of a folder that decide figures: weights, configurations and vocabularies."""
WEIGHTS_SUFFIXES = {
    "local-dir": frozenset({".safetensors", ".bin", ".pth"}),
    "transformers": frozenset({".safetensors", ".bin"}),
}
LARGEST_CONFIGURATION_BYTES = 1 << 20
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
        plain = known if name in {ALL, OPEN_CLIP_ALL} else [name]
        if name in COLLECTIONS:
            plain = list(COLLECTIONS[name])
        elif name != ALL and is_glob(name):
            plain = matching(name, known, KIND)
        for one in map(chosen_model, plain):
            found[one.name] = one
    return list(found.values())


def chosen_model(name: str) -> ChosenModel:
    """Choose a model by one name.

    As in open_clip, a slash in an architecture means a dash, and a tag may have any case. In
    CLIP_benchmark's form, ``ARCHITECTURE,TAG``, the tag decides the activation.

    Raises:
        UsageError: the architecture, tag or file does not exist, or the activation is wrong.
    """
    typed, colon, weights = name.partition(":")
    is_listed = not colon and name.count(",") == 1
    if is_listed:
        typed, _, weights = name.partition(",")
    if typed in PREFIXES:
        return _of_prefix(typed, weights)
    if Path(typed).suffix == ".py":
        return _of_python(Path(typed), weights)
    if Path(typed).suffix == ".json":
        return _of_own_architecture(Path(typed), weights)
    architecture = typed.strip().replace("/", "-")
    architectures = registry().architectures
    if architecture not in architectures:
        raise UnknownNameError(
            f"architecture of open_clip {registry().open_clip}",
            architecture,
            architectures,
            listing=LISTING["model"],
        )
    tags = architectures[architecture].tags
    if not weights:
        has = f"its tags are {', '.join(tags)}" if tags else "open_clip has no weights of it"
        raise UsageError(f"model {name!r} names no weights; {FORM}; {has}")
    tag = weights.strip().casefold().replace("-", "_")
    if tag in tags:
        return _of_listed(architecture, tag) if is_listed else _of_tag(architecture, tag)
    if _is_path(weights):
        return _of_file(architecture, Path(weights))
    raise UsageError(
        f"{architecture} has no weights {weights!r}; {nearest(tag, tags)}"
        f"Its tags are {', '.join(tags) or 'none'}; for a file, write its path: ./NAME.pt"
    )


def _is_path(weights: str) -> bool:
    return "/" in weights or Path(weights).suffix in FILE_SUFFIXES


def _of_listed(architecture: str, tag: str) -> ChosenModel:
    """Return the model of a line in CLIP_benchmark's lists.

    The lists were written for releases of open_clip in which a tag decided the activation.

    Raises:
        UsageError: open_clip has no architecture with the activation of the weights.
    """
    twin = twin_of(architecture, tag)
    if twin is None or activation_fits(architecture, tag):
        return _of_tag(architecture, tag)
    trained = "QuickGELU" if registry().architectures[twin].quick_gelu else "GELU"
    note = f"{architecture},{tag}: trained with {trained}, so skymark takes {twin}:{tag}"
    return _of_tag(twin, tag).model_copy(update={"notes": (note,)})


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


def _of_file(
    architecture: str, path: Path, configuration: ModelConfiguration | None = None
) -> ChosenModel:
    """Return a model with weights in a file.

    Raises:
        UsageError: the file is missing, empty, or cannot be read.
    """
    digest = digest_of_file(path, "checkpoint")
    sizes = None if configuration else registry().architectures[architecture].sizes
    return ChosenModel(
        name=f"{architecture}:{path.stem}@{digest[:SHORT_DIGEST]}",
        model=Model(
            architecture=architecture,
            weights=Weights(file=os.path.realpath(path), sha256=digest),
            configuration=configuration,
        ),
        sizes=sizes,
    )


def digest_of_file(path: Path, noun: str) -> str:
    """Return the SHA-256 hex digest of a file that the user names.

    Raises:
        UsageError: the file is missing, empty, or cannot be read.
    """
    try:
        if not path.is_file():
            raise UsageError(f"there is no {noun} {path}; name a file")
        if path.stat().st_size == 0:
            raise UsageError(f"the {noun} {path} is empty; it was not copied to its end")
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"cannot read the {noun} {path}: {error.strerror}") from error


def digest_of_folder(folder: Path) -> str:
    """Return a SHA-256 hex digest of a folder's weights, configurations and vocabularies.

    Raises:
        UsageError: a file is empty or cannot be read.
    """
    chosen = sorted(one for one in folder.iterdir() if one.suffix in FOLDER_SUFFIXES)
    return digest_of([[one.name, digest_of_file(one, "file")] for one in chosen])


def _of_prefix(prefix: str, address: str) -> ChosenModel:
    """Return a model in a folder, or on the hub.

    Raises:
        UsageError: the folder lacks its configuration or weights, or the name is invalid.
    """
    library: Literal["open_clip", "transformers"] = (
        "transformers" if prefix == "transformers" else "open_clip"
    )
    folder = Path(address)
    local = prefix == "local-dir" or (prefix == "transformers" and folder.is_dir())
    if not local:
        if not REPOSITORY.fullmatch(address):
            other = " or a folder" if prefix == "transformers" else ""
            raise UsageError(f"model {prefix}:{address} needs OWNER/NAME{other} behind the colon")
        return ChosenModel(
            name=f"{prefix}:{address}",
            model=Model(
                library=library,
                architecture=address.rpartition("/")[2],
                weights=Weights(hub=address),
            ),
            sizes=None,
            notes=(f"{prefix}:{address}: the repository decides preprocessing and tokenizer",),
        )
    configuration = folder / FOLDER_CONFIGURATION[prefix]
    if not configuration.is_file():
        raise UsageError(f"model {prefix}:{address}: there is no {configuration}; name its folder")
    if not any(one.suffix in WEIGHTS_SUFFIXES[prefix] for one in folder.iterdir()):
        endings = ", ".join(sorted(WEIGHTS_SUFFIXES[prefix]))
        raise UsageError(f"model {prefix}:{address}: {folder} has no weights ({endings})")
    digest = digest_of_folder(folder)
    name = f"{prefix}:{folder.resolve().name}@{digest[:SHORT_DIGEST]}"
    return ChosenModel(
        name=name,
        model=Model(
            library=library,
            architecture=folder.resolve().name,
            weights=Weights(folder=os.path.realpath(folder), sha256=digest),
        ),
        sizes=None,
        notes=(f"{name}: the files in {folder} decide preprocessing and tokenizer",),
    )


def _of_python(path: Path, function: str) -> ChosenModel:
    """Return the model that a function of the user's own file makes; nothing is run.

    Raises:
        UsageError: the file cannot be read, or lacks the function.
    """
    digest = digest_of_file(path, "Python file")
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is no valid Python: {error}; correct it") from error
    names = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    if function not in names:
        raise UsageError(
            f"{path} has no function {function!r}; write {path}:NAME with one of "
            f"{', '.join(names) or 'its functions: it has none'}"
        )
    name = f"{path.name}:{function}@{digest[:SHORT_DIGEST]}"
    return ChosenModel(
        name=name,
        model=Model(
            library="python",
            architecture=function,
            weights=Weights(file=os.path.realpath(path), sha256=digest),
        ),
        sizes=None,
        notes=(f"{name}: {path} is run, and decides preprocessing and tokenizer",),
    )


def _of_own_architecture(path: Path, weights: str) -> ChosenModel:
    """Return a model with the user's own architecture, and weights in a file.

    Raises:
        UsageError: a file cannot be read, or the configuration is invalid.
    """
    if not weights:
        raise UsageError(f"model {path} names no weights; write {path}:./FILE.pt")
    digest = digest_of_file(path, "architecture")
    configuration_in(path)
    if path.stem in registry().architectures:
        raise UsageError(f"open_clip has an architecture {path.stem} already; rename {path}")
    configuration = ModelConfiguration(path=os.path.realpath(path), sha256=digest)
    return _of_file(path.stem, Path(weights), configuration)


def configuration_in(path: Path) -> dict[str, object]:
    """Read an architecture in open_clip's format.

    Raises:
        UsageError: the file cannot be read, or lacks a part.
    """
    try:
        content = json.loads(read_regular(path, largest=LARGEST_CONFIGURATION_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read the architecture {path}: {error}") from error
    parts = ("embed_dim", "vision_cfg", "text_cfg")
    missing = [one for one in parts if not isinstance(content, dict) or one not in content]
    if not missing:
        return dict(content)
    if isinstance(content, dict) and "model_cfg" in content:
        raise UsageError(
            f"{path} describes a whole model; name its folder: local-dir:{path.parent}"
        )
    raise UsageError(f"the architecture {path} lacks {', '.join(missing)}; see open_clip's own")
