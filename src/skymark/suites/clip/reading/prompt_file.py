"""A file of prompts for data sets: templates, or prompts that are each of one class.

Its format is that of CLIP_benchmark's ``--custom_template_file``, such as its
``cupl_prompts.json``: an object with an entry per data set, each a list of templates or an object
from class to prompts.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.plain_files import read_regular
from skymark.suites.clip.reading.layout import Prompts, require_place_for_name
from skymark.suites.clip.specification import PromptFile

LARGEST_BYTES = 256 << 20
"""CLIP_benchmark's prompts of ImageNet take 10 MB."""


class Prompting:
    """The content of a file of prompts, read and checked once."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            DataError: it cannot be read, or is in another format.
        """
        self.path = path
        data = _bytes_of(path)
        self.sha256 = sha256(data).hexdigest()
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is no JSON ({error})") from error
        if not isinstance(content, dict) or not content:
            raise DataError(f"{path} is no JSON object with an entry per data set")
        self._entries: dict[str, Any] = content

    def entry_for(self, name: str) -> PromptFile:
        """Return the place of a data set's prompts, by its name with or without ``wds/``.

        Raises:
            DataError: it has none, or they are in another format.
        """
        for entry in (name, name.removeprefix("wds/")):
            if entry in self._entries:
                self._check(entry)
                return PromptFile(path=str(self.path), sha256=self.sha256, entry=entry)
        raise DataError(
            f"{self.path} has no prompts for {name}, but for {', '.join(sorted(self._entries))}; "
            "add an entry, or leave the data set out"
        )

    def prompts(self, entry: str, classes: tuple[str, ...]) -> Prompts:
        """Return the prompts of a data set with these class names.

        Raises:
            DataError: a class has none, or they are in another format.
        """
        self._check(entry)
        found = self._entries[entry]
        if isinstance(found, list):
            return Prompts(classes=classes, templates=tuple(found))
        if missing := [name for name in classes if not found.get(name)]:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise DataError(
                f"{self.path} has no prompts in {entry} for {', '.join(missing[:3])}{more}; add "
                "them, under the data set's own class names"
            )
        by_class = {name: tuple(found[name]) for name in classes}
        return Prompts(classes=classes, templates=(), by_class=by_class)

    def _check(self, entry: str) -> None:
        """Refuse an entry that is neither templates nor prompts by class."""
        found = self._entries[entry]
        texts = [found] if isinstance(found, list) else []
        texts += found.values() if isinstance(found, dict) else []
        if not texts or not all(isinstance(one, list) and one for one in texts):
            raise DataError(
                f"{self.path} has neither a list of templates nor an object from class to prompts "
                f"for {entry}"
            )
        if not all(isinstance(text, str) for one in texts for text in one):
            raise DataError(f"{self.path} has prompts for {entry} that are no texts")
        if isinstance(found, list):
            for template in found:
                require_place_for_name(template)


def prompts_in(file: PromptFile, classes: tuple[str, ...]) -> Prompts:
    """Return the prompts that a cell was planned with.

    Raises:
        DataError: the file changed since, or a class has no prompts there.
    """
    read = Prompting(Path(file.path))
    if read.sha256 != file.sha256:
        raise DataError(f"{file.path} changed since the run was planned; plan again")
    return read.prompts(file.entry, classes)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_regular(path, largest=LARGEST_BYTES, through_links=True)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the prompts in {path}: {error}") from error
