"""The options of the command line that only models have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, JsonValue, ValidationError, field_validator

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.machine import Platform
from skymark.model.option import Option
from skymark.model.record import Setting
from skymark.suite.given import read_given, refusal
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
SWITCH = ("on", "off")

OPTIONS = (
    Option(
        name="tasks",
        group="what",
        several=True,
        help="Tasks to score on the data sets that have them: zeroshot_classification, "
        "zeroshot_retrieval, linear_probe, image_caption_selection or image_association. "
        "[default: each data set's own]",
    ),
    Option(
        name="dataset_root",
        group="what",
        help="Directory or address of public data sets, with {dataset} or {dataset_cleaned} for "
        "the name. [default: the hub]",
    ),
    Option(
        name="languages",
        group="what",
        several=True,
        help=f"Languages of class names, templates and captions. [default: {ENGLISH}]",
    ),
    Option(
        name="template_file",
        group="what",
        rare=True,
        help="JSON file with prompts for each data set, in CLIP_benchmark's format: a list of "
        "templates, or an object from class name to prompts. [default: each data set's own]",
    ),
    Option(
        name="classname_file",
        group="what",
        rare=True,
        help="JSON file with class names for each data set, in CLIP_benchmark's format: a list in "
        "the order of labels. [default: each data set's own]",
    ),
    Option(
        name="preprocessing_of",
        group="what",
        several=True,
        rare=True,
        help="Tag of open_clip from which your own weights were trained: they get its "
        f"preprocessing. {OPEN_CLIP_DEFAULT}: open_clip's own. [default: the preprocessing of all "
        "tags of the architecture]",
    ),
    Option(
        name="image_mean",
        group="what",
        kind="number",
        several=True,
        rare=True,
        help="Mean of the pixels: red, green, blue. [default: each model's own]",
    ),
    Option(
        name="image_std",
        group="what",
        kind="number",
        several=True,
        rare=True,
        help="Standard deviation of the pixels: red, green, blue. [default: each model's own]",
    ),
    Option(
        name="resize",
        group="what",
        choices=("shortest", "longest", "squash"),
        rare=True,
        help="Fit the shortest or longest edge, or squash the image. [default: each model's own]",
    ),
    Option(
        name="interpolation",
        group="what",
        choices=("bicubic", "bilinear"),
        rare=True,
        help="Interpolation of resizing. [default: each model's own]",
    ),
    Option(
        name="image_size",
        group="what",
        kind="integer",
        rare=True,
        help="Pixels along an edge; positions of the encoder are interpolated. [default: each "
        "model's own]",
    ),
    Option(
        name="features",
        group="what",
        rare=True,
        help="Directory or s3://BUCKET/PREFIX that keeps image features, for later runs with other "
        "prompts, languages, tasks or probes. [default: not kept]",
    ),
    Option(
        name="skip_damaged",
        group="what",
        kind="flag",
        rare=True,
        help="Leave damaged elements out and count them. [default: the first one is an error]",
    ),
    Option(
        name="limit",
        group="what",
        kind="integer",
        rare=True,
        help="Score only this many elements of each split, drawn at random, but the same in every "
        "run. Their results are never mixed with those of whole sets. [default: all]",
    ),
    Option(
        name="test_split",
        group="what",
        default=DEFAULT_SPLIT,
        rare=True,
        help="Split of the data sets to score.",
    ),
    Option(
        name="recall_k",
        group="what",
        kind="integer",
        several=True,
        rare=True,
        help="Numbers of results at which to take the recall of retrieval. [default: 5]",
    ),
    Option(
        name="seed",
        group="what",
        kind="integer",
        default=DEFAULT_SEED,
        rare=True,
        help="Seed of all random numbers.",
    ),
    Option(
        name="precision",
        choices=("fp32", "bf16", "fp16", "amp"),
        setting=True,
        help="Precision of the encoders; similarities are in fp32. [default: amp on a GPU, as in "
        "CLIP_benchmark, else fp32]",
    ),
    Option(
        name="batch_size",
        kind="integer",
        setting=True,
        help="Images per batch. [default: as many as the memory holds]",
    ),
    Option(
        name="compile",
        choices=SWITCH,
        setting=True,
        rare=True,
        help="Compile the encoders with torch.compile.",
    ),
    Option(
        name="channels_last",
        choices=SWITCH,
        setting=True,
        rare=True,
        help="Give the encoders images whose last dimension is the channels.",
    ),
    Option(
        name="drop_text_tail",
        choices=SWITCH,
        setting=True,
        rare=True,
        help="Leave out text positions after the end token; exact in fp32 only. "
        "[default: on with fp32, else off]",
    ),
    Option(
        name="fewshot_k",
        kind="integer",
        setting=True,
        rare=True,
        help="Images per class that train a linear probe; -1 for all.",
    ),
    Option(
        name="epochs",
        kind="integer",
        setting=True,
        rare=True,
        help="Epochs of a linear probe's training.",
    ),
    Option(
        name="learning_rate",
        kind="number",
        setting=True,
        rare=True,
        help="Learning rate of a linear probe's training.",
    ),
    Option(
        name="val_proportion",
        kind="number",
        setting=True,
        rare=True,
        help="Part of the training images on which to search a linear probe's weight decay.",
    ),
    Option(name="train_split", setting=True, rare=True, help="Split that trains a linear probe."),
    Option(
        name="val_split",
        setting=True,
        rare=True,
        help="Split on which to search a linear probe's weight decay.",
    ),
)


class ClipOptions(Frozen):
    """Options that say what is scored, typed."""

    model_config = ConfigDict(strict=False)

    tasks: tuple[str, ...] = ()
    dataset_root: str | None = None
    languages: tuple[str, ...] = (ENGLISH,)
    template_file: str | None = None
    classname_file: str | None = None
    preprocessing_of: tuple[str, ...] = ()
    image_mean: tuple[float, ...] = ()
    image_std: tuple[float, ...] = ()
    resize: str | None = None
    interpolation: str | None = None
    image_size: int | None = None
    features: str | None = None
    skip_damaged: bool = False
    limit: Positive | None = None
    test_split: str = Field(default=DEFAULT_SPLIT, pattern=r"^[\w][\w.-]*$")
    recall_k: tuple[Positive, ...] = (5,)
    seed: int = Field(default=DEFAULT_SEED, ge=0, lt=2**63)

    @property
    def features_directory(self) -> str | None:
        """The absolute directory of kept features, or a bucket's address; None to keep none.

        Raises:
            UsageError: it is no directory.
        """
        if self.features is None:
            return None
        if "://" in self.features:
            from skymark.suites.clip.features_store import checked_address

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
                f"{PIXEL_OPTIONS[field]} {given[field]}: {fault['msg']}; give three numbers for "
                "mean and std, and a number of pixels for the size"
            ) from error


class ClipSettings(Frozen):
    """Settings that say how it is scored, typed."""

    precision: Precision = "fp32"
    batch_size: Positive | None = None
    compile: bool = False
    channels_last: bool = False
    drop_text_tail: bool | None = None
    fewshot_k: int = LinearProbe().fewshot_k
    epochs: int = LinearProbe().epochs
    learning_rate: float = LinearProbe().learning_rate
    probe_batch_size: Positive = LinearProbe().batch_size
    """Features per batch of a linear probe's training."""
    val_proportion: float = LinearProbe().val_proportion
    train_split: str = LinearProbe().train_split
    val_split: str | None = None
    normalize: bool = LinearProbe().normalize
    """Whether a linear probe gets features of length 1."""

    @field_validator("compile", "channels_last", "drop_text_tail", "normalize", mode="before")
    @classmethod
    def _is_on(cls, value: Any) -> Any:
        return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value

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
