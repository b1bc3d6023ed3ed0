"""The options of ``skymark run`` that only loaders have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from skymark.model.base import Frozen
from skymark.model.cell import Setting
from skymark.model.errors import UsageError
from skymark.model.option import Option
from skymark.model.setting_text import read_value

DEFAULT_SEED = 7

OPTIONS = (
    Option(
        name="axis",
        group="what",
        several=True,
        help="Only these values of a scenario's axis, such as depth=1,10 of PC-1.",
    ),
    Option(
        name="data",
        group="what",
        kind="file",
        help="Real data in place of synthetic: a folder, tar shards, Parquet, CSV, JSON, text, or "
        "hf://owner/name. DATA:test takes another split than train.",
    ),
    Option(
        name="skip_damaged",
        group="what",
        kind="flag",
        help="Leave damaged elements of --data out and count them. By default the first one is "
        "an error.",
    ),
    Option(
        name="seed",
        group="what",
        kind="integer",
        default=DEFAULT_SEED,
        help="Seed of every random number.",
    ),
    Option(
        name="workers",
        kind="integer",
        setting=True,
        help="Worker processes or threads of each library; 0: none, it loads in the thread that "
        "asks for batches.",
    ),
    Option(
        name="prefetch",
        kind="integer",
        setting=True,
        help="Batches to hold ready, per worker where the library counts so.",
    ),
    Option(
        name="think_time_ms",
        kind="number",
        setting=True,
        help="Milliseconds per batch that an accelerator would compute; adds its utilisation to "
        "the figures.",
    ),
    Option(
        name="step",
        setting=True,
        help="Training step that consumes each batch, in place of a think time: resnet50, vit_b16 "
        "or mlp:MS (a network of matrices that takes MS milliseconds); adds the device's "
        "utilisation to the figures.",
    ),
    Option(
        name="deliver",
        choices=("host", "device"),
        setting=True,
        help="Where a batch is when its wait ends. host: in memory. device: on the accelerator, "
        "or in a copy on the CPU where the profile has none.",
    ),
    Option(
        name="page_cache",
        choices=("warm", "cold"),
        setting=True,
        help="warm: files are in memory when measuring begins. cold: the kernel forgets them "
        "before each round.",
    ),
)


class LoadingOptions(Frozen):
    """The options of a selection, typed."""

    model_config = ConfigDict(strict=False)

    axis: tuple[str, ...] = ()
    data: str | None = None
    skip_damaged: bool = False
    seed: int = Field(default=DEFAULT_SEED, ge=0, lt=2**64)

    @classmethod
    def of(cls, options: Mapping[str, JsonValue]) -> LoadingOptions:
        """Read the options of a selection.

        Raises:
            UsageError: there is no such option, or its value is of another kind.
        """
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            fault = error.errors()[0]
            raise UsageError(f"option {fault['loc'][0]}: {fault['msg']}") from error

    @property
    def axes(self) -> dict[str, tuple[Setting, ...]]:
        """The chosen values by axis, such as ``{"depth": (10,)}``."""
        pairs = (text.partition("=")[::2] for text in self.axis)
        return {name: _values(values.split(",")) for name, values in pairs}


def _values(texts: Iterable[str]) -> tuple[Setting, ...]:
    return tuple(read_value(text) for text in texts)
