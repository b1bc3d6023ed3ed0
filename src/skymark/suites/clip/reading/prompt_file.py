"""A file of prompts for data sets: templates, or prompts that are each of one class.

Its format is that of CLIP_benchmark's ``--custom_template_file``, such as its
``cupl_prompts.json``: an object with an entry per data set, each a list of templates or an object
from class to prompts.
"""

from __future__ import annotations

from typing import ClassVar

from skymark.model.errors import DataError
from skymark.suites.clip.reading.entries import Entries
from skymark.suites.clip.reading.layout import (
    Prompts,
    is_sound,
    require_bounded,
    require_place_for_name,
)
from skymark.suites.clip.specification import FileEntry


class Prompting(Entries):
    """The content of a file of prompts, read and checked once."""

    noun: ClassVar[str] = "prompts"

    def prompts(self, entry: str, classes: tuple[str, ...]) -> Prompts:
        """Return the prompts of a data set with these class names.

        Raises:
            DataError: a class has none, or they are in another format.
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
        """Refuse an entry that is neither templates nor prompts by class."""
        found = self.entries[entry]
        texts = [found] if isinstance(found, list) else []
        texts += found.values() if isinstance(found, dict) else []
        if not texts or not all(isinstance(one, list) and one for one in texts):
            raise DataError(
                f"{self.path} has neither a list of templates nor an object from class to prompts "
                f"for {entry}"
            )
        if not all(isinstance(text, str) and is_sound(text) for one in texts for text in one):
            raise DataError(f"{self.path} has prompts for {entry} that are no texts")
        if isinstance(found, list):
            for template in found:
                require_place_for_name(template)


def prompts_in(file: FileEntry, classes: tuple[str, ...]) -> Prompts:
    """Return the prompts that a cell was planned with.

    Raises:
        DataError: the file changed since, or a class has no prompts there.
    """
    return Prompting.read_again(file).prompts(file.entry, classes)
