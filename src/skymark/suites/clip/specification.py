"""The specification of a cell: model, data set and task, with all that decides its figures."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from skymark.model.base import Frozen
from skymark.model.record import Cell

Task = Literal[
    "zeroshot_classification", "zeroshot_retrieval", "linear_probe", "image_caption_selection"
]
"""Multi-label classification is ``zeroshot_classification`` of a data set with several labels per
image."""

Precision = Literal["fp32", "bf16", "fp16", "amp"]

WORK_VERSION = 1
"""Of preprocessing, prompts, metrics and oracle: raise it when the same cell would get other
figures, so that earlier records are not reused."""

Positive = Annotated[int, Field(ge=1)]


OPEN_CLIP_DEFAULT = "default"
"""Stands for open_clip's default preprocessing where a tag would."""


def left_out(content: dict[str, JsonValue], **defaults: JsonValue) -> dict[str, JsonValue]:
    """Return a content without the fields that have these values."""
    return {
        name: value
        for name, value in content.items()
        if name not in defaults or value != defaults[name]
    }


class Weights(Frozen):
    """Weights of a model: a tag that open_clip knows, or a file of the user's own."""

    tag: str | None = None
    file: str | None = None
    """Absolute path."""
    sha256: str | None = None
    """Hex digest of the file's content; None for a tag."""
    preprocessing_of: str | None = None
    """Tag whose preprocessing a file takes; None for open_clip's default, and for a tag."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if (self.tag is None) == (self.file is None):
            raise ValueError("weights are either a tag or a file")
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("a file of weights has a digest, and a tag has none")
        if self.tag is not None and self.preprocessing_of is not None:
            raise ValueError("a tag has its own preprocessing")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_asked_for(
        self, plain: SerializerFunctionWrapHandler
    ) -> dict[str, JsonValue]:
        """Leave the default out, so that cells have the hashes that they had before it."""
        return left_out(plain(self), preprocessing_of=None)


class Model(Frozen):
    """An architecture with its weights."""

    architecture: str
    """As open_clip calls it, such as ``ViT-B-32``."""
    weights: Weights


class Source(Frozen):
    """The place that a data set is read from, and its layout there."""

    name: str
    """As the user wrote it, such as ``wds/vtab/cifar10``."""
    kind: Literal["hub", "directory", "url"]
    address: str
    """``OWNER/NAME`` on the hub, an absolute directory, or an address below which its files lie."""
    layout: Literal["webdataset", "folder"]
    fingerprint: str | None = None
    """SHA-256 hex digest of the names and sizes of a directory's files when the run was planned;
    None for what lies elsewhere."""


class FileEntry(Frozen):
    """A file with prompts or class names for data sets, and the entry of the cell's own."""

    path: str
    """Absolute."""
    sha256: str
    """Hex digest of its content."""
    entry: str
    """Name of the data set there."""


class LinearProbe(Frozen):
    """Training of a linear classifier on image features."""

    fewshot_k: int = Field(default=-1, ge=-1)
    """Images per class to train on; -1 for all."""
    epochs: Positive = 10
    learning_rate: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    batch_size: Positive = 64
    val_proportion: float = Field(default=0.0, ge=0, lt=1)
    """Part of the training images that the weight decay is searched on; 0 for no search, unless
    there is a split for it."""
    train_split: str = "train"
    val_split: str | None = None
    normalize: bool = True
    """Whether features have unit length."""


class ClipSpecification(Frozen):
    """What a cell carries from the planning side to the worker's; all of it is hashed."""

    work_version: int = WORK_VERSION
    model: Model
    source: Source
    task: Task
    split: str = "test"
    language: str = "en"
    """Of class names and templates."""
    prompt_file: FileEntry | None = None
    """Of zero-shot classification; None for the data set's own templates."""
    name_file: FileEntry | None = None
    """Likewise; None for the data set's own class names."""
    precision: Precision = "fp32"
    batch_size: Positive | None = None
    """Images per batch; None for the most that the memory given takes."""
    compile: bool = False
    """Whether encoders go through ``torch.compile``."""
    channels_last: bool = False
    drop_text_tail: bool = True
    """Whether text positions after the last end token of a batch are left out."""
    recall_k: tuple[Positive, ...] = (5,)
    """Numbers of results that retrieval's recall is taken at."""
    linear_probe: LinearProbe | None = None
    """Of a linear probe, and of nothing else."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    skip_damaged: bool = False
    """Whether damaged elements are left out and counted, in place of a refusal."""

    @model_validator(mode="after")
    def _has_a_probe_where_it_trains_one(self) -> Self:
        if (self.task == "linear_probe") != (self.linear_probe is not None):
            raise ValueError("a linear probe, and nothing else, says how it is trained")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_asked_for(
        self, plain: SerializerFunctionWrapHandler
    ) -> dict[str, JsonValue]:
        """Leave the default out, so that cells have the hashes that they had before it."""
        return left_out(plain(self), skip_damaged=False)

    @classmethod
    def of(cls, cell: Cell) -> ClipSpecification:
        """Return the specification of a cell.

        Raises:
            ValidationError: the cell is not of this suite.
        """
        return cls.model_validate(cell.specification)

    def json_content(self) -> dict[str, JsonValue]:
        """Return it as a cell holds it."""
        content: dict[str, JsonValue] = self.model_dump(mode="json")
        return content
