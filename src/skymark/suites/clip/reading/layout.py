"""A data set's directory in CLIP_benchmark's layout: shards, class names, templates, type."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import DataError, UnknownNameError
from skymark.plain_files import read_regular
from skymark.tar_files import printable

TYPE_FILE = "dataset_type.txt"
CLASS_FILE = "classnames.txt"
TEMPLATE_FILE = "zeroshot_classification_templates.txt"
SHARD_COUNT_FILE = "nshards.txt"
LANGUAGE_FILE = "language.txt"
LARGEST_TEXT_BYTES = 16 << 20
"""Limit for a file of names or templates."""
MOST_SHARDS = 1_000_000
LONGEST_TEXT = 100_000
"""Characters of a caption or a prompt; models read about 77 tokens."""
MOST_PLACES = 10
"""Fields for the class name in a template."""
LONG_WORD = re.compile(r"\w{1000}")
"""A word that takes tokenizers too long: their time is quadratic in its length."""
MOST_PROMPTS = 20_000_000
"""Prompts of a data set: 21,841 classes with 80 templates make a tenth."""

Kind = Literal["classification", "multilabel", "retrieval", "selection"]
"""Type of a data set, from ``dataset_type.txt``."""
KINDS: dict[str, Kind] = {
    "classification": "classification",
    "multilabel": "multilabel",
    "retrieval": "retrieval",
    "selection": "selection",
}


class Prompts(Frozen):
    """Class names of one language with templates for all of them, or prompts of each class."""

    classes: tuple[str, ...]
    templates: tuple[str, ...]
    by_class: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 hex digest of names, templates and the classes' own prompts."""
        return digest_of([self.classes, self.templates, self.by_class])

    @property
    def counts(self) -> list[int]:
        """Number of prompts of each class, in order."""
        return [len(self.by_class.get(name, self.templates)) for name in self.classes]

    def of_class(self, name: str) -> list[str]:
        """Return the prompts of a class."""
        if self.by_class:
            return list(self.by_class[name])
        return [template.format(c=name) for template in self.templates]


def kind_of(directory: Path) -> Kind:
    """Return the type from ``dataset_type.txt``; classification without the file.

    Raises:
        UnknownNameError: the file has another word.
    """
    file = directory / TYPE_FILE
    if not file.exists():
        return "classification"
    named = read_text(file).strip().lower()
    if named not in KINDS:
        raise UnknownNameError(f"type of data set in {file}", named, KINDS)
    return KINDS[named]


def shards_of(directory: Path, split: str) -> list[Path]:
    """Return the shards of a split in order, from the number in ``nshards.txt``.

    Raises:
        DataError: the split is missing, or the number is wrong.
    """
    place = directory / split
    counted = place / SHARD_COUNT_FILE
    if not counted.exists():
        splits = sorted(one.parent.name for one in directory.glob(f"*/{SHARD_COUNT_FILE}"))
        known = f"it has {', '.join(splits)}" if splits else "no split of it has one"
        raise DataError(f"{counted} is missing; {known}; build the data set again")
    text = read_text(counted).strip()
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_SHARDS:
        raise DataError(
            f"{counted} holds {text[:20]!r}, which is no number of shards from 1 to "
            f"{MOST_SHARDS:,}; write the number of .tar files beside it"
        )
    shards = [place / f"{number}.tar" for number in range(int(text))]
    named = {shard.name for shard in shards}
    others = sorted(
        one.name for one in place.glob("*.tar") if one.name not in named and one.name[0] != "."
    )
    if others:
        raise DataError(
            f"{counted} counts {len(shards)} shards, 0.tar to {shards[-1].name}, and "
            f"{', '.join(others[:3])} lies beside; correct the number, or move that away"
        )
    return shards


def require_shard(shard: Path) -> None:
    """Refuse a missing or empty shard.

    Raises:
        DataError: the shard is missing or empty.
    """
    if not shard.is_file():
        raise DataError(
            f"{shard} is missing; {SHARD_COUNT_FILE} counts it; fetch or build it again"
        )
    if shard.stat().st_size == 0:
        raise DataError(f"{shard} has 0 bytes; fetch or build it again")


def prompts_of(directory: Path, language: str) -> Prompts:
    """Return class names and templates in a language.

    English is in ``classnames.txt`` and ``zeroshot_classification_templates.txt``, another
    language in ``classnames.LANGUAGE.txt`` and so on.

    Raises:
        DataError: a file is missing or empty, or a template has no field for the name.
    """
    classes = _lines(directory, CLASS_FILE, language)
    templates = _lines(directory, TEMPLATE_FILE, language)
    file = directory / language_file(TEMPLATE_FILE, language)
    for number, template in enumerate(templates, 1):
        require_place_for_name(template, f"{file}:{number}")
    found = Prompts(classes=classes, templates=templates)
    require_bounded(found)
    return found


def require_place_for_name(template: str, where: str) -> None:
    """Refuse a template without a field for the class name.

    Args:
        template: text with ``{c}``.
        where: its file and position, for messages.

    Raises:
        DataError: the template is blank, has no field, or another field or format.
    """
    if not template.strip():
        raise DataError(f"{where} is blank; write a template with {{c}}, or remove the line")
    shown = f"{where}: the template {template[:80]!r}"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise DataError(f"{shown} cannot be filled in ({error}); write {{c}} in it") from error
    fields = [
        (field, conversion or "", form or "")
        for _, field, form, conversion in parts
        if field is not None
    ]
    if strange := next((one for one in fields if one != ("c", "", "")), None):
        field = f"{{{strange[0][:40]}}}" if strange[0] != "c" else "a format"
        raise DataError(f"{shown} has {field}; write {{c}} for the class name")
    if not fields:
        raise DataError(f"{shown} has no {{c}} for the class name")


def require_bounded(prompts: Prompts) -> None:
    """Refuse too many or too long prompts: a small file may ask for any number.

    Raises:
        DataError: a limit is exceeded.
    """
    count = sum(prompts.counts)
    if count > MOST_PROMPTS:
        raise DataError(
            f"{len(prompts.classes):,} class names and {len(prompts.templates):,} templates make "
            f"{count:,} prompts, more than {MOST_PROMPTS:,}; use fewer"
        )
    if strange := next((one for one in prompts.classes if not is_sound(one)), None):
        raise DataError(f"the class name {strange[:40]!r} is too long, or has too long a word")
    longest = max(map(len, prompts.classes), default=0)
    for one in prompts.templates:
        places = one.count("{c}")
        length = len(one) + (longest - len("{c}")) * places
        if places > MOST_PLACES or length > LONGEST_TEXT or not is_sound(one):
            raise DataError(
                f"the template {one[:40]!r} has {places:,} times {{c}} and makes texts of "
                f"{length:,} characters; shorten it"
            )


def is_sound(text: str) -> bool:
    """Whether a text is Unicode of a bounded length, with words of a bounded length."""
    return len(text) <= LONGEST_TEXT and printable(text) == text and LONG_WORD.search(text) is None


def check_captions(directory: Path, language: str) -> None:
    """Refuse captions of another language; ``language.txt`` has their language.

    Raises:
        DataError: the languages differ.
    """
    file = directory / LANGUAGE_FILE
    found = (read_text(file).strip() if file.exists() else "") or "en"
    if found != language:
        raise DataError(
            f"the captions in {directory} are in the language {found!r}, not {language!r}; ask for "
            f"that, or write their language into {LANGUAGE_FILE}"
        )


def language_file(name: str, language: str) -> str:
    """Return the name of a file of texts in a language."""
    if language == "en":
        return name
    if not re.fullmatch(r"[A-Za-z][\w-]*", language):
        raise DataError(f"{language!r} names no language; write it as in es, pt-BR or zh")
    return f"{Path(name).stem}.{language}.txt"


def _lines(directory: Path, name: str, language: str) -> tuple[str, ...]:
    file = directory / language_file(name, language)
    if not file.exists():
        what = "class names" if name == CLASS_FILE else "templates"
        raise DataError(
            f"{file} is missing: the data set has no {what} in the language {language!r}; "
            "add the file, one per line"
        )
    lines = tuple(line.strip() for line in read_text(file).splitlines())
    if not any(lines):
        raise DataError(f"{file} is empty; write one per line")
    return lines


def read_text(file: Path) -> str:
    """Read a small text file of a data set.

    Raises:
        DataError: the file cannot be read, is too large, or is not UTF-8.
    """
    try:  # in the hub's cache, files are links
        data = read_regular(file, largest=LARGEST_TEXT_BYTES, through_links=True)
        return data.decode("utf-8-sig")  # Windows writes a mark at the beginning
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is no UTF-8 text ({error})") from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {file}: {error}") from error
