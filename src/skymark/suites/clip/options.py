"""The options of the command line that only models have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationError, field_validator

from skymark.model.base import Frozen, remedy_of
from skymark.model.errors import UsageError
from skymark.model.machine import Platform
from skymark.model.record import Setting
from skymark.suite.given import SWITCH, options_of, read_given, refusal
from skymark.suites.clip.specification import (
    OPEN_CLIP_DEFAULT,
    PIXEL_OPTIONS,
    LinearProbe,
    PixelOptions,
    Positive,
    Precision,
)

DEFAULT_SPLIT = "test"
DEFAULT_SEED = 0
ENGLISH = "en"
PROBE = LinearProbe()
"""The usual training of a linear probe."""


class ClipOptions(Frozen):
    """Options that say what is scored, typed."""

    model_config = ConfigDict(strict=False)

    tasks: tuple[str, ...] = Field(
        default=(),
        description="Tasks to score on the data sets that have them: zeroshot_classification, "
        "zeroshot_retrieval, linear_probe, image_caption_selection, image_association or "
        "captioning. "
        "[default: each data set's own]",
    )
    dataset_root: str | None = Field(
        default=None,
        description="Directory or address of public data sets, with {dataset} or "
        "{dataset_cleaned} for the name. [default: the hub]",
    )
    languages: tuple[str, ...] = Field(
        default=(ENGLISH,),
        description=f"Languages of class names, templates and captions. [default: {ENGLISH}]",
    )
    template_file: str | None = Field(
        default=None,
        description="JSON file with prompts for each data set, in CLIP_benchmark's format: a list "
        "of templates, or an object from class name to prompts. [default: each data set's own]",
    )
    classname_file: str | None = Field(
        default=None,
        description="JSON file with class names for each data set, in CLIP_benchmark's format: a "
        "list in the order of labels. [default: each data set's own]",
    )
    preprocessing_of: tuple[str, ...] = Field(
        default=(),
        description="Tag of open_clip from which your own weights were trained: they get its "
        f"preprocessing. {OPEN_CLIP_DEFAULT}: open_clip's own. [default: the preprocessing of all "
        "tags of the architecture]",
    )
    image_mean: tuple[float, ...] = Field(
        default=(), description="Mean of the pixels: red, green, blue. [default: each model's own]"
    )
    image_std: tuple[float, ...] = Field(
        default=(),
        description="Standard deviation of the pixels: red, green, blue. [default: each model's "
        "own]",
    )
    resize: Literal["shortest", "longest", "squash"] | None = Field(
        default=None,
        description="Fit the shortest or longest edge, or squash the image. [default: each "
        "model's own]",
    )
    interpolation: Literal["bicubic", "bilinear"] | None = Field(
        default=None, description="Interpolation of resizing. [default: each model's own]"
    )
    image_size: int | None = Field(
        default=None,
        description="Pixels along an edge; positions of the encoder are interpolated. [default: "
        "each model's own]",
    )
    features: str | None = Field(
        default=None,
        description="Directory or s3://BUCKET/PREFIX that keeps image features, for later runs "
        "with other prompts, languages, tasks or probes. [default: not kept]",
    )
    skip_damaged: bool = Field(
        default=False,
        description="Leave damaged elements out and count them. [default: the first one is an "
        "error]",
    )
    limit: Positive | None = Field(
        default=None,
        description="Score only this many elements of each split, drawn at random, but the same "
        "in every run. Their results are never mixed with those of whole sets. [default: all]",
    )
    test_split: str = Field(
        default=DEFAULT_SPLIT,
        pattern=r"^[\w][\w.-]*$",
        description="Split of the data sets to score.",
    )
    recall_k: tuple[Positive, ...] = Field(
        default=(5,),
        description="Numbers of results at which to take the recall of retrieval. [default: 5]",
    )
    seed: int = Field(
        default=DEFAULT_SEED, ge=0, lt=2**63, description="Seed of all random numbers."
    )

    @property
    def features_directory(self) -> str | None:
        """The absolute directory of kept features, or a bucket's address; None to keep none.

        Raises:
            UsageError: it is no directory.
        """
        if self.features is None:
            return None
        if "://" in self.features:
            from skymark.suites.clip.features import checked_address

            return checked_address(self.features)
        place = Path(self.features).expanduser()
        if place.exists() and not place.is_dir():
            raise UsageError(f"--features {place} is a file; give a directory")
        return os.path.realpath(place)

    @property
    def pixels(self) -> PixelOptions:
        """The user's own preprocessing.

        Raises:
            UsageError: a value makes no sense.
        """
        given = {
            "mean": self.image_mean or None,
            "std": self.image_std or None,
            "resize_mode": self.resize,
            "interpolation": self.interpolation,
            "size": self.image_size,
        }
        try:
            return PixelOptions.model_validate(given, strict=False)
        except ValidationError as error:
            fault = error.errors()[0]
            field = str(fault["loc"][0])
            raise UsageError(
                f"{PIXEL_OPTIONS[field]} {given[field]}: {remedy_of([fault])}; mean and std are "
                "three numbers from 0 to 1, and the size is a number of pixels"
            ) from error


class ClipSettings(Frozen):
    """Settings that say how it is scored, typed."""

    precision: Precision = Field(
        default="fp32",
        description="Precision of the encoders; similarities are in fp32. [default: amp on a GPU, "
        "as in CLIP_benchmark, else fp32]",
    )
    batch_size: Positive | None = Field(
        default=None, description="Images per batch. [default: as many as the memory holds]"
    )
    compile: bool = Field(default=False, description="Compile the encoders with torch.compile.")
    channels_last: bool = Field(
        default=False, description="Give the encoders images whose last dimension is the channels."
    )
    drop_text_tail: bool | None = Field(
        default=None,
        description="Leave out text positions after the end token; exact in fp32 only. [default: "
        "on with fp32, else off]",
    )
    fewshot_k: int = Field(
        default=PROBE.fewshot_k,
        description="Images per class that train a linear probe; -1 for all.",
    )
    epochs: int = Field(default=PROBE.epochs, description="Epochs of a linear probe's training.")
    learning_rate: float = Field(
        default=PROBE.learning_rate, description="Learning rate of a linear probe's training."
    )
    probe_batch_size: Positive = PROBE.batch_size
    """Features per batch of a linear probe's training."""
    val_proportion: float = Field(
        default=PROBE.val_proportion,
        description="Part of the training images on which to search a linear probe's weight decay.",
    )
    train_split: str = Field(
        default=PROBE.train_split, description="Split that trains a linear probe."
    )
    val_split: str | None = Field(
        default=None, description="Split on which to search a linear probe's weight decay."
    )
    normalize: bool = PROBE.normalize
    """Whether a linear probe gets features of length 1."""

    @field_validator("compile", "channels_last", "drop_text_tail", "normalize", mode="before")
    @classmethod
    def _is_on(cls, value: Any) -> Any:
        return value == "on" if value in SWITCH else value

    @property
    def probe(self) -> LinearProbe:
        """The training of a linear probe.

        Raises:
            ValidationError: a value makes no sense.
        """
        return LinearProbe(
            fewshot_k=self.fewshot_k,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_size=self.probe_batch_size,
            val_proportion=self.val_proportion,
            train_split=self.train_split,
            val_split=self.val_split,
            normalize=self.normalize,
        )

    @property
    def drops_text_tail(self) -> bool:
        """Whether text positions after the end token are left out: exact in fp32 only."""
        return self.precision == "fp32" if self.drop_text_tail is None else self.drop_text_tail

    def differing(self, platform: Platform) -> dict[str, Setting]:
        """Return the settings that differ from their defaults: those that a cell shows."""
        found: dict[str, Setting] = self.model_dump(exclude_defaults=True, exclude={PRECISION})
        own = {} if self.precision == usual_precision(platform) else {PRECISION: self.precision}
        return {**own, **found}


PRECISION = "precision"
COMMON = frozenset({"tasks", "dataset_root", "languages", PRECISION, "batch_size"})
"""Options that ``--help`` shows; only ``--help-all`` shows the others."""
OPTIONS = (
    *options_of(ClipOptions, COMMON, group="what"),
    *options_of(ClipSettings, COMMON, setting=True),
)


def usual_precision(platform: Platform) -> Precision:
    """Return the default precision: CLIP_benchmark's on a GPU."""
    return "amp" if platform == "gpu" else "fp32"


def read_options(options: Mapping[str, JsonValue]) -> ClipOptions:
    """Read the options of a selection.

    Raises:
        UsageError: there is no such option, or it has no such value.
    """
    return read_given(ClipOptions, "option", options)


def read_settings(settings: Mapping[str, Setting], platform: Platform) -> ClipSettings:
    """Read the settings of a selection for a platform.

    Raises:
        UsageError: there is no such setting, or it has no such value.
    """
    usual: dict[str, Setting] = {PRECISION: usual_precision(platform)}
    found = read_given(ClipSettings, "setting", usual | dict(settings))
    try:
        probe = found.probe
    except ValidationError as error:
        raise refusal("setting", error, found.model_dump()) from error
    if probe.val_split is not None and probe.val_proportion:
        raise UsageError(
            "val_split and val_proportion both say what the weight decay is searched on; leave "
            "one of them out"
        )
    return found
