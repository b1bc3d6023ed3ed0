"""The specification of a cell: model, data set, task, and all settings of its figures."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, get_args

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
    "zeroshot_classification",
    "zeroshot_retrieval",
    "linear_probe",
    "image_caption_selection",
    "image_association",
    "captioning",
]
"""Multi-label classification is ``zeroshot_classification`` of a data set with several labels per
image."""

CAPTIONING: Task = "captioning"
"""A CoCa model writes a caption for each image."""

Precision = Literal["fp32", "bf16", "fp16", "amp"]

OwnFigure = Literal["worst_group_acc1", "worst_group_acc5", "f1_macro"]
OWN_FIGURES: tuple[OwnFigure, ...] = get_args(OwnFigure)
"""Figures of single data sets, which are computed for those alone."""

WORK_VERSION = 1
"""Version of preprocessing, prompts, metrics and oracle. Raise it when cells would get other
figures, so that runs reuse no earlier records."""

Positive = Annotated[int, Field(ge=1)]
Above = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]


OPEN_CLIP_DEFAULT = "default"
"""Word for open_clip's default preprocessing in place of a tag."""


class WithLaterFields(Frozen):
    """A part of a cell that leaves fields out while they have their defaults.

    So cells have the hashes that they had before there were these fields.
    """

    later: ClassVar[frozenset[str]]
    """Names of these fields."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_asked_for(
        self, plain: SerializerFunctionWrapHandler
    ) -> dict[str, JsonValue]:
        fields = type(self).model_fields
        usual = {name for name in self.later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in plain(self).items() if name not in usual}


class Weights(WithLaterFields):
    """Weights of a model: a tag of open_clip, the user's own file or folder, or a hub's repository.

    For a Python function, the file has its source.
    """

    later: ClassVar = frozenset({"folder", "hub", "preprocessing_of"})

    tag: str | None = None
    file: str | None = None
    """Absolute path."""
    folder: str | None = None
    """Absolute path of a directory with a model and its configuration."""
    hub: str | None = None
    """``OWNER/NAME`` of a model on the hub."""
    sha256: str | None = None
    """Hex digest of the content of a file or folder; None for others."""
    preprocessing_of: str | None = None
    """Tag that decides a file's preprocessing; None for open_clip's default, and for others."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if sum(one is not None for one in (self.tag, self.file, self.folder, self.hub)) != 1:
            raise ValueError("weights are one of a tag, a file, a folder or a repository")
        if ((self.file or self.folder) is None) != (self.sha256 is None):
            raise ValueError("weights on this disk have a digest, and others have none")
        if self.file is None and self.preprocessing_of is not None:
            raise ValueError("only a file needs a tag for its preprocessing")
        return self

    @property
    def name(self) -> str:
        """The tag, path or repository."""
        return str(self.tag or self.file or self.folder or self.hub)


PIXEL_OPTIONS = {
    "mean": "--image-mean",
    "std": "--image-std",
    "resize_mode": "--resize",
    "interpolation": "--interpolation",
    "size": "--image-size",
}
"""Options by the field of preprocessing that they set."""


class PixelOptions(Frozen):
    """The user's own preprocessing; None keeps the model's."""

    mean: tuple[Share, Share, Share] | None = None
    std: tuple[Above, Above, Above] | None = None
    resize_mode: Literal["shortest", "longest", "squash"] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    size: Positive | None = None
    """Pixels along both edges."""

    @property
    def given(self) -> dict[str, JsonValue]:
        """The given values, by open_clip's names."""
        return self.model_dump(exclude_none=True)


class ModelConfiguration(Frozen):
    """The user's own architecture: a JSON file in open_clip's format."""

    path: str
    """Absolute path."""
    sha256: str
    """Hex digest of the content."""


class Model(WithLaterFields):
    """An architecture with its weights."""

    later: ClassVar = frozenset({"library", "configuration", "pixels"})

    library: Literal["open_clip", "transformers", "python"] = "open_clip"
    """Library that builds it; ``python`` is the user's own file."""
    architecture: str
    """Name in open_clip, such as ``ViT-B-32``; name of a folder, repository or Python function."""
    weights: Weights
    configuration: ModelConfiguration | None = None
    pixels: PixelOptions = PixelOptions()

    @property
    def reference(self) -> str:
        """Name for the command line, with the path of a file."""
        weights = self.weights
        if self.library == "python":
            return f"{weights.file}:{self.architecture}"
        if self.library == "transformers":
            return f"transformers:{weights.name}"
        if weights.folder is not None:
            return f"local-dir:{weights.folder}"
        if weights.hub is not None:
            return f"hf-hub:{weights.hub}"
        owner = self.architecture if self.configuration is None else self.configuration.path
        return f"{owner}:{weights.name}"

    @property
    def open_clip_name(self) -> str:
        """Name for open_clip's own functions."""
        own = self.weights.folder is not None or self.weights.hub is not None
        return self.reference if own else self.architecture

    @property
    def files(self) -> tuple[str, ...]:
        """Its files and folders on this machine."""
        configuration = None if self.configuration is None else self.configuration.path
        return tuple(filter(None, (self.weights.file, self.weights.folder, configuration)))


class Source(Frozen):
    """Address and layout of a data set."""

    name: str
    """Name from the command line, such as ``wds/vtab/cifar10``."""
    kind: Literal["hub", "directory", "url"]
    address: str
    """``OWNER/NAME`` on the hub, an absolute directory, or an http address."""
    layout: Literal["webdataset", "folder"]
    fingerprint: str | None = None
    """SHA-256 hex digest of the names and sizes of a directory's files at the time of the plan;
    None for the hub and addresses."""


class FileEntry(Frozen):
    """The user's own file of prompts or class names, and its entry for the cell."""

    path: str
    """Absolute path."""
    sha256: str
    """Hex digest of the content."""
    entry: str
    """Name of the data set in the file."""


class LinearProbe(Frozen):
    """Training of a linear classifier on image features."""

    fewshot_k: int = Field(default=-1, ge=-1)
    """Images per class to train on; -1 for all."""
    epochs: Positive = 10
    learning_rate: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    batch_size: Positive = 64
    val_proportion: float = Field(default=0.0, ge=0, lt=1)
    """Share of the training images for the search of the weight decay; 0 for no search, unless
    `val_split` is set."""
    train_split: str = "train"
    val_split: str | None = None
    normalize: bool = True
    """Whether features have unit length."""


class ClipSpecification(WithLaterFields):
    """Specification of a cell, from the plan to the worker; the cell's hash covers all of it."""

    later: ClassVar = frozenset({"skip_damaged", "limit", "group_column", "figure"})

    work_version: int = WORK_VERSION
    model: Model
    source: Source
    task: Task
    split: str = "test"
    language: str = "en"
    """Language of class names and templates."""
    prompt_file: FileEntry | None = None
    """Prompts of zero-shot classification; None for the data set's own templates."""
    name_file: FileEntry | None = None
    """Class names of zero-shot classification; None for the data set's own."""
    precision: Precision = "fp32"
    batch_size: Positive | None = None
    """Images per batch; None for the largest batch that fits into memory."""
    compile: bool = False
    """Whether ``torch.compile`` compiles the encoders."""
    channels_last: bool = False
    drop_text_tail: bool = True
    """Whether encoders skip text positions after the last end token of a batch."""
    recall_k: tuple[Positive, ...] = (5,)
    """Numbers of results that retrieval's recall is taken at."""
    linear_probe: LinearProbe | None = None
    """Training of a linear probe; None for other tasks."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    skip_damaged: bool = False
    """Whether scoring skips and counts damaged elements, or refuses them."""
    group_column: int | None = Field(default=None, ge=0)
    """Column of each image's metadata that has its group; None without groups."""
    figure: OwnFigure | None = None
    """The data set's own figure; None for the task's."""
    limit: Positive | None = None
    """Elements of each split to score, drawn at random; None for all."""

    @model_validator(mode="after")
    def _has_a_probe_where_it_trains_one(self) -> Self:
        if (self.task == "linear_probe") != (self.linear_probe is not None):
            raise ValueError("a linear probe, and nothing else, says how it is trained")
        return self

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
