"""Settings and options of loading cells: checked when the run is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError
from skymark.model.option import read_value
from skymark.model.record import Setting
from skymark.suite.given import options_of, read_given
from skymark.suites.loading.step.step import StepKind

DEFAULT_SEED = 7


class LoadingOptions(Frozen):
    """The options of a selection, typed."""

    model_config = ConfigDict(strict=False)

    axis: tuple[str, ...] = Field(
        default=(),
        description="Only these values of a scenario's axis, such as depth=1,10 of PC-1.",
    )
    data: str | None = Field(
        default=None,
        description="Your own data: a folder, tar shards, Parquet, CSV, JSON, text or "
        "hf://owner/name; DATA:test is another split than train. [default: synthetic data]",
        json_schema_extra={"kind": "file"},
    )
    skip_damaged: bool = Field(
        default=False,
        description="Leave damaged elements out and count them. [default: the first one is an "
        "error]",
    )
    seed: int = Field(
        default=DEFAULT_SEED, ge=0, lt=2**64, description="Seed of all random numbers."
    )

    @property
    def axes(self) -> dict[str, tuple[Setting, ...]]:
        """The chosen values by axis, such as ``{"depth": (10,)}``."""
        pairs = (text.partition("=")[::2] for text in self.axis)
        return {name: tuple(map(read_value, values.split(","))) for name, values in pairs}


MOST = 1_000_000
"""Of anything that can be set; what is beyond it is a slip."""


class LoadingSettings(Frozen):
    """Settings of all adapters, ``--set NAME=VALUE``; those with a description are also options."""

    model_config = ConfigDict(allow_inf_nan=False)

    workers: int = Field(
        default=2,
        ge=0,
        le=MOST,
        description="Worker processes or threads of each library. With 0, it loads in the thread "
        "that asks for batches.",
    )
    prefetch: int = Field(
        default=2,
        ge=1,
        le=MOST,
        description="Batches to hold ready; libraries that count per worker hold as many for each.",
    )
    think_time_ms: float = Field(
        default=0.0,
        ge=0,
        le=MOST,
        description="Milliseconds that a simulated accelerator computes per batch; adds its "
        "utilisation to the figures.",
    )
    step: str | None = Field(
        default=None,
        description="Training step after each batch: resnet50, vit_b16 or mlp:MS (matrices for MS "
        "milliseconds); adds the device's utilisation to the figures.",
    )
    deliver: Literal["host", "device"] = Field(
        default="host",
        description="Stop the clock when the batch is in host memory (host) or on the accelerator "
        "(device; a profile for CPUs copies it in memory).",
    )
    page_cache: Literal["warm", "cold"] = Field(
        default="warm",
        description="warm: files are in memory when measuring begins. cold: the kernel forgets "
        "them before each round.",
    )
    batch_size: int | None = Field(default=None, ge=1, le=MOST)
    """Elements per batch; None for the variant's."""
    elements: int | None = Field(default=None, ge=1)
    """Elements of the data set; None for the variant's. For real data, at most all rows."""
    format: str | None = None
    """Storage format; None for the library's recommended format."""
    copies: Literal["plain", "ahead"] | None = None
    """Copies of batches to the accelerator: ``ahead``, the next batch during the use of one, the
    default; ``plain``, each batch on request."""
    step_launch: Literal["graph", "eager"] = "graph"
    """How PyTorch launches a step of an image network on a GPU: as one CUDA graph, or kernel by
    kernel."""
    http_latency_ms: float = Field(default=1.0, ge=0, le=MOST)
    """Median time to the first byte of an object; by default that of a store nearby."""
    http_latency_tail: float = Field(default=1.0, ge=1, le=1000)
    """Its 99th percentile over its median: about 4 in object stores, 1 where all are alike."""
    http_concurrency: int | None = Field(default=None, ge=1, le=MOST)
    """Most requests that the server answers at a time, while the rest wait; None for all."""
    http_bandwidth_mb_s: float = Field(default=200.0, gt=0)
    """Rate at which an object's bytes come, in 10⁶ bytes per second."""

    @field_validator("copies")
    @classmethod
    def _is_of_a_device(cls, copies: str | None, info: ValidationInfo) -> str | None:
        if copies is not None and info.data.get("deliver") == "host":
            raise PydanticCustomError(
                "copies_to_the_host",
                "batches in host memory are not copied to a device; add --deliver device, or leave "
                "it out",
            )
        return copies

    @field_validator("step")
    @classmethod
    def _is_a_step(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is None:
            return None
        if info.data.get("think_time_ms"):
            raise PydanticCustomError(
                "step_and_think_time",
                "a batch is consumed by a step or by think_time_ms, not by both; leave one out",
            )
        try:
            StepKind.parse(text)
        except ValueError as error:
            raise PydanticCustomError("step", "{cause}", {"cause": str(error)}) from error
        return text

    @property
    def step_kind(self) -> StepKind | None:
        """The kind of the training step; None for none."""
        return None if self.step is None else StepKind.parse(self.step)


COMMON = frozenset({"data", "step", "workers"})
"""Options that ``--help`` shows; only ``--help-all`` shows the others."""
OPTIONS = (
    *options_of(LoadingOptions, COMMON, group="what"),
    *options_of(LoadingSettings, COMMON, setting=True),
)


def read_settings(settings: Mapping[str, Setting]) -> tuple[LoadingSettings, dict[str, Setting]]:
    """Split settings into the settings of every adapter and the options of some.

    Raises:
        UsageError: a value is out of range or of the wrong type.
    """
    known = {
        name: value for name, value in settings.items() if name in LoadingSettings.model_fields
    }
    options = {name: value for name, value in settings.items() if name not in known}
    return read_given(LoadingSettings, "setting", known), options


def check_settings(settings: Mapping[str, Setting], options: Iterable[str]) -> None:
    """Refuse a setting that no adapter reads, or an invalid value.

    Args:
        settings: what the user and the profile set.
        options: names that the chosen adapters read besides the general ones.

    Raises:
        UsageError: a name is unknown (the message has the nearest) or a value is wrong.
    """
    _, others = read_settings(settings)
    names = set(options)
    for name in others:
        if name not in names:
            raise UnknownNameError("setting", name, {*LoadingSettings.model_fields, *names})
