"""NLP-3: texts tokenised and packed while they are loaded, a window of documents at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Batch, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset, Element


@scenario
class DocumentPacking(Scenario):
    """Tokenise texts and pack each batch of them by best-fit decreasing into rows of L + 1 tokens.

    ``inputs``, ``targets``, ``segment_ids`` and ``positions`` int32 ``[R, L]`` and ``loss_mask``
    uint8 ``[R, L]``, with R rows as the documents of the batch need. ``index`` has the documents.
    """

    id: ClassVar = "NLP-3"
    title: ClassVar = "document streaming: tokenise texts, pack each batch by best fit"
    needs: ClassVar = frozenset({"map", "shuffle", "variable-length", "pack"})
    variants: ClassVar = {
        "small": Size(elements=3_310, batch_size=64, values={"block": 512, "words": 100}),
        "medium": Size(elements=30_010, batch_size=128, values={"block": 2048, "words": 400}),
        "large": Size(elements=300_010, batch_size=256, values={"block": 4096, "words": 400}),
    }
    holds_lock: ClassVar = True
    variable_length: ClassVar = frozenset({"tokens"})

    @property
    def columns(self) -> tuple[str, ...]:
        """The ``document``."""
        return ("document",)

    def generate(self, directory: Path) -> Dataset:
        """Column: ``document`` (UTF-8), ragged uint8."""
        from skymark.suites.loading.dataset.text import write_texts

        return write_texts(directory, self.size.elements, self.size["words"])

    def stages(self) -> tuple[Stage, ...]:
        """Tokenise by byte pairs."""
        from skymark.suites.loading.transforms.field import on
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
        from skymark.suites.loading.transforms.text import END

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
            block = text.pack(np.concatenate(parts), sizes, block_length, END, separate=separate)
            rows.append(text.shift(block, by))
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return {"index": np.stack([np.asarray(one["index"]) for one in elements]), **stacked}
