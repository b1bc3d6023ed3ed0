"""NLP-1: packed token blocks for language-model pretraining."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.dataset.sources.data_source import DataSource

    Apply = Callable[[Element, Parameters], Element]


@scenario
class TokenBlocks(Scenario):
    """Pack documents into blocks of L + 1 tokens and shift: inputs and targets int32 ``[L]``.

    With ``segment_ids`` and ``positions`` int32 ``[L]`` and ``loss_mask`` uint8 ``[L]``.
    """

    id: ClassVar = "NLP-1"
    title: ClassVar = "token blocks for language-model pretraining: packing, shift"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=3_300, batch_size=64, values={"block": 256}),
        "medium": Size(elements=20_010, batch_size=32, values={"block": 1024}),
        "large": Size(elements=200_010, batch_size=32, values={"block": 2048}),
    }
    holds_lock: ClassVar = True

    imports: ClassVar = ("tokens",)

    @property
    def columns(self) -> tuple[str, ...]:
        """Documents' ``tokens`` and their ``lengths``."""
        return ("tokens", "lengths")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``tokens`` uint16 and ``lengths`` int32, ragged: the documents of a block."""
        from skymark.suites.loading.dataset.text import write_blocks

        return write_blocks(directory, self.size.elements, self.size["block"] + 1)

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return how many blocks the documents of real data fill."""
        from skymark.suites.loading.dataset.importing import column_values, with_elements
        from skymark.suites.loading.dataset.text import count_blocks

        documents = column_values(source, "tokens", sys.maxsize)
        return with_elements(size, count_blocks(documents, size.elements, size["block"] + 1))

    @classmethod
    def rows_taken(cls, source: DataSource, size: Size) -> int:
        """Return how many documents fill the blocks."""
        from skymark.suites.loading.dataset.importing import column_values
        from skymark.suites.loading.dataset.text import enough

        documents = column_values(source, "tokens", sys.maxsize)
        return sum(1 for _ in enough(documents, size.elements, size["block"] + 1))

    def import_source(self, source: DataSource, directory: Path) -> Dataset:
        """Pack the documents of real data, a token per byte."""
        from skymark.suites.loading.dataset.importing import column_values
        from skymark.suites.loading.dataset.text import write_documents

        documents = column_values(source, "tokens", sys.maxsize)
        return write_documents(
            directory, "imported text", documents, self.size.elements, self.size["block"] + 1
        )

    def stages(self) -> tuple[Stage, ...]:
        """Pack the planned documents of one block, then shift."""
        from skymark.suites.loading.dataset.text import END_OF_TEXT
        from skymark.suites.loading.transforms import text

        block_length = self.size["block"] + 1

        def packing(*, separate: bool) -> Apply:
            def pack(element: Element, parameters: Parameters) -> Element:
                del parameters
                tokens, lengths = element["tokens"], element["lengths"]
                block = text.pack(tokens, lengths, block_length, END_OF_TEXT, separate=separate)
                return {"index": element["index"], "block": block}

            return pack

        def shifting(by: int) -> Apply:
            def shift(element: Element, parameters: Parameters) -> Element:
                del parameters
                return {"index": element["index"], **text.shift(element["block"], by)}

            return shift

        unseparated = {"no end-of-text token between documents": packing(separate=False)}
        unshifted = {
            "the targets are the inputs, not shifted": shifting(by=0),
            "the targets are shifted by two": shifting(by=2),
        }
        return (
            Stage("pack", packing(separate=True), unseparated),
            Stage("shift", shifting(by=1), unshifted),
        )
