"""NLP-2: texts of varying length, in batches of similar length, padded with a mask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.scenario import Batch, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element


@scenario
class TextSequences(Scenario):
    """Truncate, delimit and batch by length: ``tokens`` int32 ``[B, longest of the batch]``.

    With ``attention_mask`` uint8 of the same shape and ``label`` int64 ``[B]``. A bucket holds
    the lengths between two boundaries, start and end token included.
    """

    id: ClassVar = "NLP-2"
    title: ClassVar = "variable-length text: length bucketing, dynamic padding, attention mask"
    needs: ClassVar = frozenset({"map", "shuffle", "variable-length", "bucket"})
    variants: ClassVar = {
        "small": Size(elements=4_000, batch_size=48, values={"longest": 256, "classes": 2}),
        "medium": Size(elements=40_000, batch_size=48, values={"longest": 512, "classes": 2}),
        "large": Size(elements=400_000, batch_size=96, values={"longest": 1024, "classes": 2}),
    }
    variable_length: ClassVar = frozenset({"tokens"})
    bucket_boundaries: ClassVar = (32, 64, 128, 256, 512)
    length_field: ClassVar = "tokens"

    @property
    def columns(self) -> tuple[str, ...]:
        """The texts' ``tokens`` and ``label``."""
        return ("tokens", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``tokens`` uint16, ragged, some longer than allowed, and ``label`` int64."""
        from skymark.suites.loading.dataset.text import write_sequences

        size = self.size
        return write_sequences(directory, size.elements, size["longest"], size["classes"])

    def stages(self) -> tuple[Stage, ...]:
        """Truncate so that the delimiters fit, then put a start and an end token round."""
        from skymark.suites.loading.dataset.text import END_OF_TEXT, START_OF_TEXT
        from skymark.suites.loading.transforms.field import on
        from skymark.suites.loading.transforms.text import delimit

        kept = self.size["longest"] - 2
        keep_the_end = on("tokens", lambda tokens: tokens[-kept:])
        alike = on("tokens", lambda tokens: delimit(tokens, END_OF_TEXT, END_OF_TEXT))
        return (
            Stage(
                "truncate",
                on("tokens", lambda tokens: tokens[:kept]),
                {
                    "the end is kept, not the beginning": keep_the_end,
                    "one token too few is kept": on("tokens", lambda tokens: tokens[: kept - 1]),
                    "one token too many is kept": on("tokens", lambda tokens: tokens[: kept + 1]),
                    "the last token is left out": on("tokens", lambda tokens: tokens[:-1]),
                    "the first token is left out": on("tokens", lambda tokens: tokens[1:kept]),
                },
            ),
            Stage(
                "delimit",
                on("tokens", lambda tokens: delimit(tokens, START_OF_TEXT, END_OF_TEXT)),
                {"the end token stands at both ends": alike},
            ),
        )

    @property
    def padding(self) -> Mapping[str, int]:
        """Pad ``tokens`` with the end token."""
        from skymark.suites.loading.dataset.text import END_OF_TEXT

        return {"tokens": END_OF_TEXT}

    def collate(self, elements: list[Element]) -> Batch:
        """Pad ``tokens`` to the longest of the batch and make the mask; stack the rest."""
        import numpy as np

        from skymark.suites.loading.transforms.text import pad

        stacked: dict[str, Any] = {
            name: np.stack([np.asarray(element[name]) for element in elements])
            for name in elements[0]
            if name != "tokens"
        }
        tokens, mask = pad([element["tokens"] for element in elements], self.padding["tokens"])
        return {**stacked, "tokens": tokens, "attention_mask": mask}
