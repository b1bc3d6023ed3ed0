"""Options for the environment of a job: --env, --env-file and --secret, as `sky` has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from skymark.cli.cache_options import POLICY_VARIABLE, ROOT_VARIABLE, PolicyName, require_policy
from skymark.model.errors import UsageError

VARIABLES = Group.create_ordered("The job's environment")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VariableOptions:
    """Variables of a job; one of the shell here is taken where no value is given."""

    env: Annotated[
        tuple[str, ...],
        Parameter(
            group=VARIABLES,
            help="NAME=VALUE, or NAME of a variable that is set here; may be repeated.",
        ),
    ] = ()
    env_file: Annotated[
        Path | None,
        Parameter(group=VARIABLES, help="A dotenv file; --env wins over it."),
    ] = None
    secret: Annotated[
        tuple[str, ...],
        Parameter(
            group=VARIABLES,
            help="As --env, for what nobody is to read; wins over --env. May be repeated.",
        ),
    ] = ()
    secret_file: Annotated[
        Path | None,
        Parameter(group=VARIABLES, help="A dotenv file of secrets; --secret wins over it."),
    ] = None

    cache_policy: Annotated[
        PolicyName | None,
        Parameter(
            group=VARIABLES,
            help="Where libraries of the run keep what they fetch there, as `skymark run` has it.",
        ),
    ] = None
    cache_root: Annotated[
        str | None,
        Parameter(
            group=VARIABLES,
            help="With --cache-policy: a directory of the machine's, such as a mounted disk.",
        ),
    ] = None

    def variables(self) -> dict[str, str]:
        """Return the variables that are no secrets.

        Raises:
            UsageError: one has no value, the file cannot be read, or --cache-root stands alone.
        """
        require_policy(self.cache_policy, self.cache_root)
        told = {POLICY_VARIABLE: self.cache_policy, ROOT_VARIABLE: self.cache_root}
        caches = {name: value for name, value in told.items() if value is not None}
        named = _pairs("--env", self.env, os.environ)
        return {**_of_file("--env-file", self.env_file), **named, **caches}

    def secrets(self) -> dict[str, str]:
        """Return the secrets.

        Raises:
            UsageError: one has no value, or the file cannot be read.
        """
        named = _pairs("--secret", self.secret, os.environ)
        return {**_of_file("--secret-file", self.secret_file), **named}

    def beside(self, here: Mapping[str, str]) -> dict[str, str]:
        """Return the variables and secrets with those that are set here, as a run reads them."""
        return {**here, **self.variables(), **self.secrets()}


def _pairs(option: str, texts: Iterable[str], here: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not NAME.fullmatch(name):
            # Not the whole of it: behind a mistyped name may stand a key.
            raise UsageError(f"{option} {name!r}: give NAME=VALUE, or NAME of what is set here")
        if not given and name not in here:
            raise UsageError(f"{option} {name}: it is not set here; give {name}=VALUE")
        found[name] = value if given else here[name]
    return found


def _of_file(option: str, path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    if not path.is_file():
        raise UsageError(f"{option} {path} is no file")
    from dotenv import dotenv_values  # comes with SkyPilot, which reads the same files by it

    return {name: value or "" for name, value in dotenv_values(path).items()}
