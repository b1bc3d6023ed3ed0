"""The user's own weights: their preprocessing and activation.

Weights have no field for either. The preprocessing comes from the file's family: open_clip's tags
of the architecture. The activation comes from words in the file, its name or a file beside it.
Without such a sign, the plan and the record call the activation assumed.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from skymark.model.errors import UsageError
from skymark.plain_files import read_regular
from skymark.suites.clip.models.choosing import (
    Architecture,
    ChosenModel,
    architecture_of,
    normalisation_of,
    other_form,
    registry,
)
from skymark.suites.clip.specification import (
    OPEN_CLIP_DEFAULT,
    PIXEL_OPTIONS,
    Model,
    PixelOptions,
)

OPTION = "--preprocessing-of"
QUICK = "QuickGELU"
AS_THEY_ARE = PixelOptions()
WHOLE = frozenset({"mean", "std", "resize_mode", "interpolation"})
"""Fields that describe a preprocessing, besides the size."""
LARGEST_DESCRIPTION_BYTES = 16 << 20
"""Limit for the part of a checkpoint that describes its tensors."""
LARGEST_TEXT_BYTES = 16 << 20
HUB_CONFIGURATION = "open_clip_config.json"
"""File of the hub beside weights whose names begin with ``open_clip_``."""
TRAINING_PARAMETERS = "params.txt"
"""File of open_clip's training in the folder above ``checkpoints``."""
MENTION = re.compile(
    rb"""(force_)?quick[-_]?gelu
    (?: (?:q.|r....|\x94)? ([\x88\x89N])          # pickled: True, False or None
      | \\*["']?\s*[:=]\s*(true|false|none|null) )?  # JSON, YAML or Python
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
ARCHIVED_QUICK_GELU = b"1.702"
"""QuickGELU's factor, in the code of a TorchScript archive such as OpenAI's."""
TRAINED_OTHERWISE = ("image_mean", "image_std", "image_interpolation", "image_resize_mode")
"""Options of open_clip's training that change a tag's preprocessing."""
DAMAGED = (
    *(OSError, ValueError, LookupError, EOFError, RuntimeError),
    *(zlib.error, zipfile.BadZipFile),
)
"""Errors of reading a damaged archive, or a file that is no archive."""
NO = {b"\x89", b"N", b"false", b"none", b"null"}


class Activation(NamedTuple):
    """Activation of the training, and the source that names it."""

    quick: bool
    told_by: str


def with_families(
    models: Sequence[ChosenModel], tags: Sequence[str], pixels: PixelOptions = AS_THEY_ARE
) -> list[ChosenModel]:
    """Return the models, each file with its family's preprocessing, all with the user's own.

    Args:
        models: chosen models.
        tags: of open_clip; each decides for the files of its architectures.
        pixels: the user's own preprocessing, over each model's.

    Raises:
        UsageError: a file was trained with another activation, its family has several ways of
            preprocessing and no tag decides, a tag fits no file, or a model has preprocessing that
            open_clip does not build.
    """
    cleaned = [tag.strip().casefold().replace("-", "_") for tag in tags]
    files = [one for one in models if _needs_family(one.model)]
    for tag in cleaned:
        if not any(tag in choices_of(one.model.architecture) for one in files):
            known = dict.fromkeys(
                tag for one in files for tag in choices_of(one.model.architecture)
            )
            raise UsageError(
                f"{OPTION} {tag}: no file of weights is of an architecture with this tag; "
                f"{'give one of ' + ', '.join(known) if known else 'leave it out'}"
            )
    own = [_with_pixels(one, pixels) for one in models] if pixels.given else models
    return [_with_family(one, cleaned) if _needs_family(one.model) else one for one in own]


def _needs_family(model: Model) -> bool:
    """Whether a model is a file of weights, which says nothing of its preprocessing."""
    return model.library == "open_clip" and model.weights.file is not None


def _with_pixels(chosen: ChosenModel, pixels: PixelOptions) -> ChosenModel:
    options = " ".join(PIXEL_OPTIONS[name] for name in pixels.given)
    verb = "replaces" if len(pixels.given) == 1 else "replace"
    if chosen.model.library != "open_clip":
        raise UsageError(
            f"{options}: {chosen.name} has preprocessing of its own, not open_clip's; change it "
            "there, or score this model in another run"
        )
    return chosen.model_copy(
        update={
            "model": chosen.model.model_copy(update={"pixels": pixels}),
            "sizes": chosen.sizes and chosen.sizes.at(pixels.size),
            "notes": (*chosen.notes, f"{chosen.name}: {options} {verb} its own preprocessing"),
        }
    )


def choices_of(architecture: str) -> tuple[str, ...]:
    """Return the possible values of `OPTION`: the architecture's tags, and the default."""
    known = registry().architectures.get(architecture)
    return (*(known.tags if known else ()), OPEN_CLIP_DEFAULT)


def families_of(known: Architecture) -> dict[str, list[str]]:
    """Return an architecture's ways of preprocessing, each with its tags.

    Tags of another activation count only if the architecture has no fitting tag.
    """
    fitting = [tag for tag, quick in known.tags.items() if quick == known.quick_gelu]
    found: dict[str, list[str]] = {}
    for tag in fitting or known.tags:
        found.setdefault(known.preprocessing(tag), []).append(tag)
    return found


def activation_in(model: Model) -> Activation | None:
    """Return the activation from a file of weights or a file beside it; None without a sign."""
    path, digest = Path(str(model.weights.file)), model.weights.sha256 or ""
    known = architecture_of(model)
    if known is not None and (tag := _published(known, digest)) is not None:
        return Activation(known.tags[tag], f"its content, which is that of the tag {tag},")
    if (quick := _told_within(path, digest)) is not None:
        return Activation(quick, "its content")
    return _told_beside(path)


def activation_in_name(model: Model) -> Activation | None:
    """Return the activation from a file's name: from its words, or a tag in it."""
    path = Path(str(model.weights.file))
    if _told([path.name.encode(errors="replace")]):
        return Activation(True, "its name")
    other = other_form(model.architecture)
    if other is None:
        return None
    words = f"_{re.sub(r'[^a-z0-9]+', '_', path.stem.casefold())}_"
    known = registry().architectures
    tags = {**known[other].tags, **known[model.architecture].tags}
    for tag in sorted(tags, key=len, reverse=True):
        if f"_{tag}_" in words:
            return Activation(tags[tag], f"its name, which has the tag {tag},")
    return None


def conditions_of(model: Model, activations: Mapping[str, int]) -> dict[str, str]:
    """Return the record's conditions: the source of the preprocessing, and the activation.

    Args:
        model: the scored model.
        activations: layers of each kind of GELU in its network.
    """
    quick = QUICK in activations
    has, _ = _names(quick)
    weights = model.weights
    own = "".join(f" {PIXEL_OPTIONS[name]}" for name in model.pixels.given)
    if not _needs_family(model):
        named = has if model.library == "open_clip" else " ".join(activations) or "unknown"
        return {"preprocessing_of": f"{weights.name}{own}", "activation": named}
    source = f"{weights.preprocessing_of or OPEN_CLIP_DEFAULT}{own}"
    told = activation_in(model) or activation_in_name(model)
    if told is not None and told.quick == quick:
        has = f"{has}, as {told.told_by.rstrip(',')} says"
    elif other_form(model.architecture) is not None:
        has = f"{has}, assumed: the file does not say it"
    return {"preprocessing_of": source, "activation": has}


def known_architecture(model: Model) -> Architecture:
    """Return the configuration of a file's architecture, from open_clip or the user's own file."""
    known = architecture_of(model)
    assert known is not None, "a file of weights has an architecture"
    return known


def _with_family(chosen: ChosenModel, tags: Sequence[str]) -> ChosenModel:
    model = chosen.model
    known = known_architecture(model)
    named = [tag for tag in tags if tag in choices_of(model.architecture)]
    told = activation_in(model)
    if told is None and named and named[0] != OPEN_CLIP_DEFAULT:
        told = Activation(known.tags[named[0]], f"{OPTION} {named[0]}")
    told = told or activation_in_name(model)
    if told is not None and told.quick != known.quick_gelu:
        raise _wrong_activation(model, told)
    source, note = (
        (None, "preprocessing of the options alone")
        if model.pixels.given.keys() >= WHOLE
        else _family_of(model, named)
    )
    notes = [f"{chosen.name}: {note}", *chosen.notes]
    if told is None and (other := other_form(model.architecture)) is not None:
        has, needs = _names(known.quick_gelu)
        notes.append(
            f"{chosen.name}: the file does not say its activation, and {has} is assumed, as "
            f"{model.architecture} has it; weights that were trained with {needs} need {other}"
        )
        if known.tags and known.quick_gelu not in known.tags.values():
            notes[-1] += f", as all tags of {model.architecture} do"
    weights = model.weights.model_copy(update={"preprocessing_of": source})
    return chosen.model_copy(
        update={"model": model.model_copy(update={"weights": weights}), "notes": tuple(notes)}
    )


def _family_of(model: Model, named: Sequence[str]) -> tuple[str | None, str]:
    """Return the tag that decides a file's preprocessing, and a note; None for open_clip's default.

    Raises:
        UsageError: nothing decides between several ways.
    """
    known = known_architecture(model)
    ways = {tag: known.preprocessing(tag) for tag in known.tags}
    ways[OPEN_CLIP_DEFAULT] = registry().default_preprocessing
    chosen = list(dict.fromkeys(ways[tag] for tag in named))
    if len(chosen) > 1:
        raise UsageError(
            f"{OPTION} {' '.join(named)}: these tags of {model.architecture} have "
            f"different preprocessing ({'; '.join(chosen)}); give one"
        )
    if chosen:
        return named[0], f"preprocessing of the tag {named[0]}: {chosen[0]}"
    if (tag := _published(known, model.weights.sha256 or "")) is not None:
        return tag, f"preprocessing of the tag {tag}, whose file this is: {ways[tag]}"
    families = families_of(known)
    if (beside := _preprocessing_beside(Path(str(model.weights.file)))) is not None:
        way, source = beside
        same = [*families.get(way, ()), *(tag for tag, other in ways.items() if other == way)]
        if not same:
            raise UsageError(
                f"{source} says that {model.weights.file} is preprocessed by {way}, which no tag "
                f"of {model.architecture} is; give {' '.join(PIXEL_OPTIONS.values())}, or name "
                f"the nearest tag: {OPTION} TAG"
            )
        tag = None if way == ways[OPEN_CLIP_DEFAULT] else same[0]
        return tag, f"preprocessing that {source} says: {way}"
    if len(families) > 1:
        choices = "; ".join(f"{way} ({', '.join(tags)})" for way, tags in families.items())
        raise UsageError(
            f"{model.architecture}:{model.weights.file} does not say its preprocessing, and "
            f"open_clip's tags of {model.architecture} have different ones: {choices}. Name the "
            f"tag that the weights were trained from: {OPTION} TAG, or {OPTION} "
            f"{OPEN_CLIP_DEFAULT} for open_clip's default"
        )
    default = registry().default_preprocessing
    if not families:
        return None, f"open_clip's default preprocessing, as the architecture has no tag: {default}"
    ((way, tags),) = families.items()
    if way == default:
        return None, f"preprocessing of its family, which is open_clip's default: {way}"
    return tags[0], f"preprocessing of its family, as the tag {tags[0]} has it: {way}"


def _wrong_activation(model: Model, told: Activation) -> UsageError:
    has, _ = _names(not told.quick)
    trained, _ = _names(told.quick)
    other = other_form(model.architecture)
    remedy = (
        f"name {other}:{model.weights.file}"
        if other is not None
        else "open_clip has no architecture for them"
    )
    return UsageError(
        f"{model.architecture}:{model.weights.file} would give wrong figures: {told.told_by} says "
        f"that the weights were trained with {trained}, and {model.architecture} has {has}; "
        f"{remedy}"
    )


def _names(quick: bool) -> tuple[str, str]:
    """Return the names of an activation and of its counterpart."""
    return ("QuickGELU", "GELU") if quick else ("GELU", "QuickGELU")


def _published(known: Architecture, digest: str) -> str | None:
    """Return the tag whose published file has a digest."""
    return next((tag for tag, one in known.digests.items() if digest.startswith(one)), None)


def _told(texts: Iterator[bytes] | Sequence[bytes]) -> bool | None:
    """Whether texts mention QuickGELU as used; None without a mention."""
    found: bool | None = None
    for text in texts:
        if text.startswith(ARCHIVED_QUICK_GELU):
            return True
        for mention in MENTION.finditer(text):
            force, pickled, written = mention.groups()
            if (pickled or (written or b"").lower()) not in NO:
                return True
            if not force:
                found = False
    return found


@cache
def _told_within(path: Path, digest: str) -> bool | None:
    """Whether the content of a file mentions QuickGELU as used; cached by its digest."""
    del digest
    return _told(_descriptions(path))


def _descriptions(path: Path) -> Iterator[bytes]:
    """Yield the parts of a checkpoint that describe its tensors; nothing is unpickled or run."""
    try:
        with path.open("rb") as file:
            start = file.read(9)
            if start[8:] == b"{":  # safetensors
                yield file.read(min(int.from_bytes(start[:8], "little"), LARGEST_DESCRIPTION_BYTES))
            elif not zipfile.is_zipfile(file):
                file.seek(0)
                yield file.read(LARGEST_DESCRIPTION_BYTES)
            else:
                yield from _archived(zipfile.ZipFile(file))
    except DAMAGED:
        return  # loading reports the fault


def _archived(archive: zipfile.ZipFile) -> Iterator[bytes]:
    for name in archive.namelist():
        if name.endswith(("/data.pkl", ".py")):
            with archive.open(name) as member:
                content = member.read(LARGEST_DESCRIPTION_BYTES)
            yield content
            if name.endswith(".py") and ARCHIVED_QUICK_GELU in content:
                yield ARCHIVED_QUICK_GELU


def _told_beside(path: Path) -> Activation | None:
    """Return the activation from open_clip's own file beside weights; None without one."""
    file, said = _configuration_beside(path)
    if isinstance(found := said.get("model_cfg"), dict):
        return Activation(bool(found.get("quick_gelu", False)), file)
    if said.get("force_quick_gelu") == "True":
        return Activation(True, file)
    known = registry().architectures.get(str(said.get("model")).replace("/", "-"))
    return None if known is None else Activation(known.quick_gelu, file)


def _preprocessing_beside(path: Path) -> tuple[str, str] | None:
    """Return the preprocessing from open_clip's own file beside weights, and the file."""
    file, said = _configuration_beside(path)
    if isinstance(found := said.get("preprocess_cfg"), dict):
        try:
            pixels = f"{found['resize_mode']} {found['interpolation']}"
            return f"{pixels}, {normalisation_of(found['mean'], found['std'])}", file
        except (LookupError, TypeError, ValueError):
            return None
    known = registry().architectures.get(str(said.get("model")).replace("/", "-"))
    if known is None or any(said.get(name, "None") != "None" for name in TRAINED_OTHERWISE):
        return None
    tag = str(said.get("pretrained", "?")).casefold().replace("-", "_")
    if not tag:
        return registry().default_preprocessing, file
    return (known.preprocessing(tag), file) if tag in known.tags else None


def _configuration_beside(path: Path) -> tuple[str, dict[str, object]]:
    """Read open_clip's own file beside weights: its path and fields; no fields without one."""
    file = path.parent / HUB_CONFIGURATION
    if path.name.startswith("open_clip_") and (text := _text(file)) is not None:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            content = None
        return str(file), content if isinstance(content, dict) else {}
    file = path.parent.parent / TRAINING_PARAMETERS
    if path.parent.name == "checkpoints" and (text := _text(file)) is not None:
        lines = (line.partition(":") for line in text.splitlines())
        return str(file), {name.strip(): value.strip() for name, _, value in lines}
    return str(path), {}


def _text(path: Path) -> str | None:
    try:
        return read_regular(path, largest=LARGEST_TEXT_BYTES, through_links=True).decode()
    except (OSError, ValueError):
        return None
