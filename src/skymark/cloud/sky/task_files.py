"""SkyPilot's YAMLs of tasks, read with the variables that an order or a user gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skymark.cloud.sky.client import sdk, short
from skymark.cloud.sky.internals import yaml_of
from skymark.model.errors import UsageError

NOTHING: Mapping[str, str] = MappingProxyType({})


def read_task(
    path: Path, variables: Mapping[str, str] = NOTHING, secrets: Mapping[str, str] = NOTHING
) -> Any:
    """Return the task that a YAML describes.

    A variable that the YAML declares among its secrets is given as a secret: SkyPilot lets those
    win, one that is declared empty too, and the variable would not arrive.

    Args:
        path: the YAML.
        variables: in place of the values that it has for them.
        secrets: the same, for what nobody is to read.

    Raises:
        UsageError: it is wrong.
    """
    sky = sdk()  # where there is none, that is what is said
    with refused(f"{path}"):
        text = path.read_text("utf-8")
        config = yaml_of(text) or {}
        if not isinstance(config, dict):
            raise TypeError(f"it is {type(config).__name__}, and no mapping")
        declared = config.get("secrets")
        names = set(declared) if isinstance(declared, dict) else set()
        hidden = {name: value for name, value in variables.items() if name in names}
        shown = {name: value for name, value in variables.items() if name not in names}
        return sky.Task.from_yaml_config(
            {**config, "_user_specified_yaml": text},
            list(shown.items()),
            list({**hidden, **secrets}.items()),
        )


@contextmanager
def refused(subject: str) -> Iterator[None]:
    """Turn an error of SkyPilot's about a YAML or a place into bad usage: nothing was started.

    It reads them with several libraries, and their errors have no kind in common.
    """
    try:
        yield
    except Exception as error:
        raise UsageError(f"{subject}: {short(error)}") from error
