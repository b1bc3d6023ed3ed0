"""A second suite, so that what commands say of several can be seen."""

from __future__ import annotations

from typing import ClassVar

import pytest

from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError
from skymark.model.metric import Declaration, Metric
from skymark.model.option import Option
from skymark.model.venv import VenvSpec
from skymark.suite.contract import Suite


class SortingSuite(Suite):
    """Sorts, which need no venv but one of them. Plans nothing."""

    name: ClassVar = "sorting"
    title: ClassVar = "sorting algorithms"
    runner: ClassVar = "nowhere:Runner"
    declaration: ClassVar = Declaration(
        suite="sorting",
        metrics=(
            Metric(name="elements_per_s", heading="elements/s", better="higher", compared=True),
        ),
        primary="elements_per_s",
    )
    efforts: ClassVar[dict[str, Effort]] = {}
    options: ClassVar[tuple[Option, ...]] = (
        Option(name="length", kind="integer", group="what", help="Elements.", default=8),
        Option(name="order", choices=("random", "sorted"), several=True, help="How they lie."),
        Option(name="seed", kind="integer", help="Seed of the elements.", default=7),
        Option(name="workers", kind="integer", setting=True, help="Threads."),
    )

    def scenarios(self):
        return [{"id": "ints", "work": "sort integers"}]

    def adapters(self):
        return [{"slug": "quick", "install": None}, {"slug": "heap", "install": None}]

    def plan(self, selection, effort):
        return []

    def venv(self, cell):
        return None

    def venvs(self, adapters=()):
        for name in adapters:
            if name not in {"quick", "heap"}:
                raise UnknownNameError("adapter", name, ["quick", "heap"])
        chosen = adapters or ("heap",)
        return {name: VenvSpec(name=name) for name in chosen if name == "heap"}


@pytest.fixture
def sorting() -> SortingSuite:
    return SortingSuite()
