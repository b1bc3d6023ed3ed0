"""The result of a run: its records, its ranking, and views of it as text, Arrow or JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel

from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record, is_well
from skymark.model.requests import Work
from skymark.model.schema import KEY
from skymark.report import compare
from skymark.report.verdicts import RunReport, verdicts_of
from skymark.rundir import reader

if TYPE_CHECKING:
    from rich.console import Console

    from skymark.report.ranking_table import RankedRow
    from skymark.report.verdicts import ScenarioVerdict
    from skymark.store.storing import Stored


Result = TypeVar("Result")
WIDTH = 160
"""Columns of a table that no terminal limits."""


@dataclass(frozen=True)
class Run(reader.Run):
    """A run: what `skymark.run` measured, or `skymark.open` read."""

    measured: tuple[Record, ...] | None = None
    """The records of the cells that were to be measured here; None for a run that was opened."""
    stored: tuple[Stored, ...] = ()
    """The stores of a run that was just measured, with the files that were read back from each."""
    ended: bool = True
    """Whether the run is complete; else other processes go on with it."""
    baseline: Run | None = None
    """The run of the other revision, if two were measured in pairs."""

    @classmethod
    def of(cls, run: reader.Run, **more: Any) -> Self:
        """Return a run that was read, with more known of it."""
        return cls(**({one.name: getattr(run, one.name) for one in fields(reader.Run)} | more))

    @property
    def all_well(self) -> bool:
        """Whether all cells of this machine are well, and every store has all files."""
        records = self.records if self.measured is None else self.measured
        beside = () if self.baseline is None else self.baseline.stored
        return is_well(records) and all(one.ok for one in (*self.stored, *beside))

    def verdicts(self) -> tuple[ScenarioVerdict, ...]:
        """Return the verdict on each scenario, in sentences: ``print(run.verdicts()[0].text)``."""
        return verdicts_of(self)

    def ranking(self) -> dict[str, list[RankedRow]]:
        """Return the ranked records of each scenario, the best first.

        The primary metric ranks. `Row.leads` is true for the best record, or for all that
        are tied for first. `Row.place` gives the order that the rounds show.
        """
        from skymark.report.ranking_table import rankings_of

        return rankings_of(self)

    def table(self, width: int = WIDTH) -> str:
        """Return the tables and warnings that ``skymark report`` prints."""
        from skymark.report.terminal import print_report

        return _printed(print_report, self, width)

    def to_markdown(self) -> str:
        """Return the tables as Markdown for GitHub."""
        from skymark.report.markdown import run_markdown

        return run_markdown(self)

    def to_html(self) -> str:
        """Return the report as a page without scripts from elsewhere; needs ``skymark[report]``."""
        from skymark.report.html import render

        return render(self)

    def to_json(self) -> str:
        """Return verdicts and records as JSON, as ``skymark schema report`` describes them."""
        return RunReport.of(self).model_dump_json(indent=1)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` with a row per record and a column per metric."""
        from skymark.report.sheet import arrow_table

        return arrow_table(self)

    def to_pandas(self) -> Any:
        """Return the table of `to_arrow` as a `pandas.DataFrame`; needs pandas."""
        return self.to_arrow().to_pandas()

    def samples(self, cell: str) -> dict[str, Any] | None:
        """Return the raw samples of a cell, a float64 array per column.

        Args:
            cell: its id, such as a key of `by_id`.

        Returns:
            Samples of all rounds one after another; None where none were kept.

        Raises:
            KeyError: the run has no record of such a cell.
            ValueError: the file has another digest than the record says.
        """
        from skymark.rundir.row import read_samples

        columns = ("round", *self.declaration.sample_columns)
        return read_samples(self.directory, self.by_id[cell], columns)

    def write_figures(self, directory: Path | str) -> list[Path]:
        """Write rates, waits and prices as SVG and PNG, and return the files.

        Raises:
            SkymarkError: matplotlib is missing (``skymark[figures]``), or a file cannot be written.
        """
        from skymark.report.chart import write_figures

        return write_figures(self, Path(directory))

    def write_page(self, path: Path | None = None) -> Path:
        """Write the report as a page, and return its path: ``report.html`` of the run's directory.

        Raises:
            SkymarkError: jinja2 is missing, or the file cannot be written.
        """
        from skymark.report.html import write_html

        page = path or self.directory / "report.html"
        write_html(self, page)
        return page


class Comparison(compare.RunComparison):
    """The comparison of two runs that `skymark.compare` makes."""

    def gate(self) -> None:
        """Say no to a regression, and to cells of which nothing tells that they are no worse.

        Raises:
            GateError: a gated metric of a cell got worse, a cell of the baseline was lost or cannot
                be judged, or no cell was measured in both. The message names the cells.
        """
        compare.gate(self)

    def table(self, width: int = WIDTH) -> str:
        """Return the table that ``skymark compare`` prints."""
        from skymark.report.comparison_tables import print_comparison

        return _printed(print_comparison, self, width)

    def to_markdown(self) -> str:
        """Return the comparison as Markdown, for a comment on a pull request."""
        from skymark.report.comparison_tables import comparison_markdown

        return comparison_markdown(self)

    def to_json(self) -> str:
        """Return the comparison as JSON, as ``skymark schema comparison`` describes it."""
        return self.model_dump_json(indent=1)


def _printed(printer: Callable[[Result, Console], None], result: Result, width: int) -> str:
    """Return the text that a result is printed as, without colours."""
    from rich.console import Console

    text = io.StringIO()
    printer(result, Console(file=text, width=width))
    return text.getvalue()


MODELS: dict[str, type[BaseModel]] = {
    "request": Work,
    "plan": Plan,
    "record": Record,
    "manifest": Manifest,
    "comparison": compare.RunComparison,
    "report": RunReport,
}
SEALED = ("record", "manifest")
"""Files that begin with the digest of their content."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a model by its name in `MODELS`.

    Raises:
        KeyError: there is no such model.
    """
    model = MODELS[name]
    if name == "request":
        schema = model.model_json_schema()
    else:
        schema = model.model_json_schema(mode="serialization")
    if name in SEALED:
        digest = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
        schema["properties"] = {KEY: digest, **schema["properties"]}
    return {"$schema": DIALECT, "title": f"skymark {name}", **schema}
