"""The user's own JSON files for several data sets: class names and prompts.

Both files have an object with an entry per data set, in CLIP_benchmark's formats. Class names
(``--custom_classname_file``, such as ``it_classnames.json``): a list of names in the order of
labels. Prompts (``--custom_template_file``, such as ``cupl_prompts.json``): a list of templates, or
an object from class to prompts.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

from skymark.model.errors import ChangedSincePlanError, DataError
from skymark.plain_files import read_regular
from skymark.suites.clip.reading.layout import (
    Prompts,
    is_sound,
    require_bounded,
    require_place_for_name,
)
from skymark.suites.clip.specification import FileEntry
from skymark.tar_files import printable

PLACE = re.compile(r"\{c?\}")
"""Field for a class name."""
LARGEST_BYTES = 256 << 20
"""CLIP_benchmark's prompts of ImageNet take 10 MB."""


class Entries(ABC):
    """Content of a file, read once."""

    noun: ClassVar[str]
    """Noun for the content of an entry, for messages."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            DataError: the file cannot be read, or has another format.
        """
        self.path = path
        data = self._bytes()
        self.sha256 = sha256(data).hexdigest()
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is no JSON ({error}); correct it") from error
        if not isinstance(content, dict) or not content:
            raise DataError(f"{path} is no JSON object with an entry per data set")
        self.entries: dict[str, Any] = content

    @classmethod
    def read_again(cls, file: FileEntry) -> Self:
        """Read the file of a plan again.

        Raises:
            ChangedSincePlanError: the file is another than that of the plan.
        """
        found = cls(Path(file.path))
        if found.sha256 != file.sha256:
            raise ChangedSincePlanError(file.path)
        return found

    def entry_for(self, name: str) -> FileEntry:
        """Return a data set's entry, by its name with or without ``wds/``.

        Raises:
            DataError: the entry is missing, or has another format.
        """
        for entry in (name, name.removeprefix("wds/")):
            if entry in self.entries:
                self.check(entry)
                return FileEntry(path=str(self.path), sha256=self.sha256, entry=entry)
        raise DataError(
            f"{self.path} has no {self.noun} for {name}, but only for "
            f"{printable(', '.join(sorted(self.entries)))}; add an entry, or leave the data set out"
        )

    @abstractmethod
    def check(self, entry: str) -> None:
        """Refuse an entry in another format.

        Raises:
            DataError: the format is wrong.
        """

    def _bytes(self) -> bytes:
        try:
            return read_regular(self.path, largest=LARGEST_BYTES, through_links=True)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the {self.noun} in {self.path}: {error}") from error


class Naming(Entries):
    """Content of a file of class names, read and checked once."""

    noun: ClassVar[str] = "class names"

    def names(self, entry: str, count: int | None) -> tuple[str, ...]:
        """Return the names of a data set's classes.

        Args:
            entry: of the data set.
            count: number of its classes; None if unknown yet.

        Raises:
            DataError: the number or the format is wrong.
        """
        self.check(entry)
        found = tuple(self.entries[entry])
        if count is not None and len(found) != count:
            raise DataError(
                f"{self.path} has {len(found)} class names for {entry}, which has {count} classes; "
                "write a name for each class, in the order of labels"
            )
        return found

    def check(self, entry: str) -> None:
        """Refuse an entry unless it is a list of names."""
        found = self.entries[entry]
        if not isinstance(found, list) or not found:
            raise DataError(f"{self.path} has no list of class names for {entry}")
        # CLIP_benchmark's own names of CLEVR's distances have an empty one.
        if not any(found) or not all(
            isinstance(name, str) and is_sound(name) and (name.strip() or not name)
            for name in found
        ):
            raise DataError(f"{self.path} has class names for {entry} that are empty or no texts")


class Prompting(Entries):
    """Content of a file of prompts, read and checked once."""

    noun: ClassVar[str] = "prompts"

    def prompts(self, entry: str, classes: tuple[str, ...]) -> Prompts:
        """Return the prompts of a data set with these class names.

        Raises:
            DataError: a class has no prompts, or the format is wrong.
        """
        self.check(entry)
        found = self.entries[entry]
        if isinstance(found, list):
            prompts = Prompts(classes=classes, templates=tuple(found))
            require_bounded(prompts)
            return prompts
        if missing := [name for name in classes if not found.get(name)]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise DataError(
                f"{self.path} has no prompts in {entry} for {', '.join(missing[:3])}{more}; add "
                "them, under the class names that are scored"
            )
        by_class = {name: tuple(found[name]) for name in classes}
        return Prompts(classes=classes, templates=(), by_class=by_class)

    def check(self, entry: str) -> None:
        """Refuse an entry unless it has templates or prompts by class."""
        found = self.entries[entry]
        texts = [found] if isinstance(found, list) else []
        texts += found.values() if isinstance(found, dict) else []
        if not texts or not all(isinstance(one, list) and one for one in texts):
            raise DataError(
                f"{self.path} needs a list of templates, or an object from class to prompts, for "
                f"{entry}"
            )
        if not all(isinstance(text, str) and is_sound(text) for one in texts for text in one):
            raise DataError(f"{self.path} has prompts for {entry} that are no texts")
        for where, text in self._placed(entry):
            if isinstance(found, list):
                require_place_for_name(text, where)
            elif not text.strip():
                raise DataError(f"{where} is blank; write a prompt, or remove it")
            elif place := PLACE.search(text):
                raise DataError(
                    f"{where}: {text[:80]!r} has {place[0]}; write the class name, because prompts "
                    "by class are used as they are"
                )

    def _placed(self, entry: str) -> Iterator[tuple[str, str]]:
        """Yield the file and position of each text of an entry, and the text."""
        found = self.entries[entry]
        by_class = {"": found} if isinstance(found, list) else found
        for name, texts in by_class.items():
            of_class = f", class {printable(name[:80])}" if name else ""
            for number, text in enumerate(texts, 1):
                yield f"{self.path}, {entry}{of_class}, text {number}", text
