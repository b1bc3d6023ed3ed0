"""Callbacks of a run: progress, and uploads that pause while it measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skymark.model.record import Cell, Record


class Observer(Protocol):
    """Callbacks for the progress of a run; the CLI shows it."""

    def stage(self, text: str) -> None:
        """Something that is not a measurement begins, such as making a venv."""

    def planned(self, steps: int) -> None:
        """So many cell-rounds are to be measured."""

    def measuring(self, cell: Cell, round: int) -> None:
        """A cell's round begins."""

    def measured(self, cell: Cell, round: int) -> None:
        """A cell's round ended, well or not."""

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """A cell has its record; `rounds_left` planned rounds of it will not be run."""


class Uploads(Protocol):
    """Results on their way elsewhere, which must not disturb a round."""

    def hold(self) -> Sequence[str]:
        """Keep still for a round; returns the addresses of those that did not in time."""

    def release(self) -> None:
        """Go on: the rounds of a worker are over."""
