"""NLP-1 to NLP-3: token blocks, texts of varying length, and documents packed on the way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.scenario import NEEDS, Scenario, scenario
from skymark.suites.loading.work import Batch, Parameters, Size, Stage, Work, on, three_sizes

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.dataset.sources.data_source import DataSource


@scenario
class TokenBlocks(Scenario):
    """Pack documents into blocks of L + 1 tokens and shift: inputs and targets int32 ``[L]``.

    Also ``segment_ids`` and ``positions`` int32 ``[L]``, and ``loss_mask`` uint8 ``[L]``: 1 if a
    target is of the same document as its input (Krell et al., 2021). An end-of-text token closes
    each document. Verdicts name missing end-of-text tokens and targets shifted by none or two.
    """

    id: ClassVar = "NLP-1"
    title: ClassVar = "token blocks for language-model pretraining: packing, shift"
    tier: ClassVar = 1
    variants: ClassVar = three_sizes(
        elements=(3_300, 20_010, 200_010),
        batch_size=(64, 32, 32),
        block=(256, 1024, 2048),
    )
    holds_lock: ClassVar = True

    columns: ClassVar = ("tokens",)

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``tokens`` uint16 and ``lengths`` int32, ragged: the documents of a block.

        Documents have log-normal lengths, and tokens by Zipf's law over GPT-2's 50,257 ids. They
        are cut and packed here, by best-fit decreasing (Ding et al., 2024).
        """
        from skymark.suites.loading.dataset.text import write_blocks

        return write_blocks(directory, self.size.elements, self.size["block"] + 1)

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return how many blocks the documents of real data fill."""
        from skymark.suites.loading.dataset.columns import column_values, with_elements
        from skymark.suites.loading.dataset.text import count_blocks

        documents = column_values(source, "tokens", sys.maxsize)
        return with_elements(size, count_blocks(documents, size.elements, size["block"] + 1))

    @classmethod
    def rows_taken(cls, source: DataSource, size: Size) -> int:
        """Return how many documents fill the blocks."""
        from skymark.suites.loading.dataset.columns import column_values
        from skymark.suites.loading.dataset.text import enough

        documents = column_values(source, "tokens", sys.maxsize)
        return sum(1 for _ in enough(documents, size.elements, size["block"] + 1))

    def import_source(self, source: DataSource, directory: Path) -> Dataset:
        """Pack the documents of real data, a token per byte."""
        from skymark.suites.loading.dataset.columns import column_values
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

        def packing(*, separate: bool) -> Work:
            def pack(element: Element, parameters: Parameters) -> Element:
                del parameters
                tokens, lengths = element["tokens"], element["lengths"]
                block = text.pack(tokens, lengths, block_length, END_OF_TEXT, separate=separate)
                return {"index": element["index"], "block": block}

            return pack

        def shifting(by: int) -> Work:
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


@scenario
class TextSequences(Scenario):
    """Truncate, delimit and batch by length: ``tokens`` int32 ``[B, longest of the batch]``.

    Also ``attention_mask`` uint8 of the same shape, and ``label`` int64 ``[B]``. A batch holds
    texts of one bucket: up to 32, 64, 128, 256 or 512 tokens with the delimiters, or longer. The
    last batch of a bucket may be short. The oracle also checks that no batch mixes buckets.
    """

    id: ClassVar = "NLP-2"
    title: ClassVar = "variable-length text: length bucketing, dynamic padding, attention mask"
    needs: ClassVar = NEEDS | {"variable-length", "bucket"}
    variants: ClassVar = three_sizes(
        elements=(4_000, 40_000, 400_000),
        batch_size=(48, 48, 96),
        longest=(256, 512, 1024),
        classes=2,
    )
    variable_length: ClassVar = frozenset({"tokens"})
    bucket_boundaries: ClassVar = (32, 64, 128, 256, 512)
    length_field: ClassVar = "tokens"

    columns: ClassVar = ("tokens", "label")

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``tokens`` uint16, ragged, some longer than allowed, and ``label`` int64.

        Texts have log-normal lengths, with a median of a fifth of ``longest``.
        """
        from skymark.suites.loading.dataset.text import write_sequences

        size = self.size
        return write_sequences(directory, size.elements, size["longest"], size["classes"])

    def stages(self) -> tuple[Stage, ...]:
        """Truncate so that the delimiters fit, then put a start and an end token round."""
        from skymark.suites.loading.dataset.text import END_OF_TEXT, START_OF_TEXT
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


@scenario
class DocumentPacking(Scenario):
    """Tokenise texts and pack each batch of them by best-fit decreasing into rows of L + 1 tokens.

    ``inputs``, ``targets``, ``segment_ids`` and ``positions`` int32 ``[R, L]`` and ``loss_mask``
    uint8 ``[R, L]``, with as many rows R as the batch needs. ``index`` has the documents.
    Fine-tuning packs in this way (TRL's ``packing_strategy="bfd"``), where nothing is packed
    beforehand. The oracle packs each delivered batch again. Verdicts name documents in the order in
    which they came, long ones cut off, missing end tokens, and targets shifted by none or two.
    """

    id: ClassVar = "NLP-3"
    title: ClassVar = "document streaming: tokenise texts, pack each batch by best fit"
    needs: ClassVar = NEEDS | {"variable-length", "pack"}
    variants: ClassVar = three_sizes(
        elements=(3_310, 30_010, 300_010),
        batch_size=(64, 128, 256),
        block=(512, 2048, 4096),
        words=(100, 400, 400),
    )
    holds_lock: ClassVar = True
    variable_length: ClassVar = frozenset({"tokens"})

    columns: ClassVar = ("document",)

    def generate(self, directory: Path) -> Dataset:
        """Column: ``document`` (UTF-8), ragged uint8.

        Texts have log-normal lengths with a median of ``words``. Words follow Zipf's law; one in 25
        is a made-up name.
        """
        from skymark.suites.loading.dataset.text import write_texts

        return write_texts(directory, self.size.elements, self.size["words"])

    def stages(self) -> tuple[Stage, ...]:
        """Tokenise by byte pairs."""
        from skymark.suites.loading.transforms.text import document_tokens

        tokenise = partial(on, "document", into="tokens")
        mistakes = {
            "the case of letters is kept": tokenise(partial(document_tokens, lower=False)),
            "the last token is left out": tokenise(lambda text: document_tokens(text)[:-1]),
            "the first token is left out": tokenise(lambda text: document_tokens(text)[1:]),
        }
        return (Stage("tokenise", tokenise(document_tokens), mistakes),)

    def collate(self, elements: list[Element]) -> Batch:
        """Cut the documents to rows' length and pack them by best-fit decreasing; shift."""
        return self._packed(elements)

    @property
    def collate_mistakes(self) -> Mapping[str, Callable[[list[Element]], Batch]]:
        """Known mistakes in packing."""
        return {
            "the documents lie in the order in which they came": partial(
                self._packed, best_fit=False
            ),
            "documents longer than a row are cut off": partial(self._packed, cuts_off=True),
            "no end-of-text token stands between documents": partial(self._packed, separate=False),
            "the targets are the inputs, not shifted": partial(self._packed, by=0),
            "the targets are shifted by two": partial(self._packed, by=2),
        }

    def _packed(
        self,
        elements: list[Element],
        *,
        best_fit: bool = True,
        cuts_off: bool = False,
        separate: bool = True,
        by: int = 1,
    ) -> Batch:
        import numpy as np

        from skymark.suites.loading.dataset.text import in_order, plan_blocks
        from skymark.suites.loading.transforms import text

        block_length = self.size["block"] + 1
        documents = [element["tokens"] for element in elements]
        if cuts_off:
            documents = [tokens[: block_length - 1] for tokens in documents]
        lengths = np.array([len(tokens) for tokens in documents], np.int64)
        plan = (plan_blocks if best_fit else in_order)(lengths, block_length)
        rows = []
        for pieces in plan:
            parts = [documents[piece.document][piece.start : piece.stop] for piece in pieces]
            sizes = np.array([len(part) for part in parts], np.int64)
            block = text.pack(
                np.concatenate(parts), sizes, block_length, text.END, separate=separate
            )
            rows.append(text.shift(block, by))
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return {"index": np.stack([np.asarray(one["index"]) for one in elements]), **stacked}
