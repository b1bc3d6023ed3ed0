"""Account of a user's own data: what a scenario takes of it, and what it leaves out."""

from __future__ import annotations

from pydantic import Field

from skymark.model.base import Count, Frozen


class LeftOut(Frozen):
    """Elements or files that are not taken, with the reason."""

    count: Count
    what: str
    """Such as ``beyond the size`` or ``.heic (no decoder)``."""

    def __str__(self) -> str:
        return f"{self.count:,} {self.what}"


class DataTaken(Frozen):
    """Elements that a scenario takes of real data, out of all that are there.

    Everything in the data is either taken or named here.
    """

    name: str
    """The user's name for the data."""
    noun: str
    """Of its elements, such as ``photos``."""
    taken: Count
    found: Count
    is_whole: bool = True
    """Whether all elements were counted; in very large data counting stops early."""
    classes: Count | None = None
    """Different labels; None where the work has no label."""
    left_out: tuple[LeftOut, ...] = Field(default=())
    notes: tuple[str, ...] = Field(default=())
    """Anything else to know of the data, such as the split that was taken."""

    @property
    def sentence(self) -> str:
        """Say it for a reader: ``./photos: 810 of 1,000 images; left out: 190 beyond the size``."""
        found = f"{self.found:,}" if self.is_whole else f"more than {self.found:,}"
        parts = [f"{self.taken:,} of {found} {self.noun}"]
        if self.classes is not None:
            parts.append(f"{self.classes:,} class" + ("es" if self.classes != 1 else ""))
        said = [", ".join([*parts, *self.notes])]
        if self.left_out:
            said.append(f"left out: {', '.join(map(str, self.left_out))}")
        return f"{self.name}: {'; '.join(said)}"
