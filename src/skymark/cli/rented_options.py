"""Options of commands for rented machines: a job's environment, files and real data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from skymark.cache.location import Policy
from skymark.cli.cache_options import POLICY_VARIABLE, ROOT_VARIABLE, PolicyName, require_policy
from skymark.cli.caller import say
from skymark.cli.cost import CostOptions
from skymark.cli.parameters import JOB, RESULTS, Several
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cloud.sent_files import Selection
    from skymark.cloud.source import Source


Sync = Annotated[
    tuple[Path, ...],
    Parameter(
        group=JOB,
        help="A file or a directory that the job needs besides skymark's source, by its path from "
        "here; of a directory in git, the tracked files. May be repeated. A file with a secret is "
        "refused.",
    ),
]

SHOWN = 5
"""Names that a line has."""


def source_for(
    plans: Iterable[Plan], sync: Sequence[Path], *, with_source: bool = True
) -> Path | None:
    """Return the directory that a job of some plans gets; None for skymark's own files alone.

    Says which files are sent besides those, how large they are, and which stay here.

    Args:
        plans: the plans of the job.
        sync: the values of --sync.
        with_source: False for a machine with a container image.

    Raises:
        UsageError: a plan names files that the machine would not get, or one that may not be sent.
    """
    from skymark.cloud.sent_files import own_files
    from skymark.cloud.source import source_with

    if sync and not with_source:
        raise UsageError(
            f"--sync {sync[0]}: a machine with --image gets no files of this one; leave one of the "
            "two out"
        )
    needed = dict.fromkeys(
        Path(file) for plan in plans for one in plan.cells for file in one.local_files
    )
    for path in needed:
        _require_sendable(path, sync, with_source=with_source)
    names = [*sync, *(path for path in needed if path.is_file())]
    if not names:
        if with_source:
            _say_what_stays(own_files())
        return None
    source = source_with(names)
    say_sent(source)
    return source.directory


def say_sent(source: Source) -> None:
    """Say which named files a directory has, and which files stay here."""
    from skymark.report.text import size

    if count := len(source.named.files):
        names = _some(list(source.named.files))
        say(f"sends {count} named file{'s' * (count > 1)}, {size(source.size_bytes)}: {names}")
    _say_what_stays(source.left)


def _require_sendable(path: Path, sync: Sequence[Path], *, with_source: bool) -> None:
    if not with_source:
        raise UsageError(
            f"{path} lies on this machine, and a container image gets nothing of it; give an "
            "address such as hf://owner/name"
        )
    if path.is_absolute():
        raise UsageError(
            f"{path} lies on this machine, and a rented machine gets only files below the current "
            "directory; give a relative path, or an address such as hf://owner/name"
        )
    named = (one.expanduser().absolute() for one in sync)
    if not path.is_file() and not any(path.absolute().is_relative_to(one) for one in named):
        raise UsageError(
            f"{path} lies on this machine; add --sync {path} to send it, or give an address such "
            "as hf://owner/name"
        )


def _say_what_stays(left: Selection) -> None:
    if left.untracked:
        say(
            f"not sent, because git does not track them: {_some(left.untracked)}; use `git add`, "
            "or --sync for files that the job needs"
        )
    if left.links:
        say(f"not sent, because they are links to other files, or no files: {_some(left.links)}")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


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


MACHINE = Group.create_ordered("The machine")
LIMITS = Group.create_ordered("What it may cost")

DEFAULT_OPTIONS = CostOptions()
DEFAULT_VARIABLES = VariableOptions()

Stores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        group=RESULTS,
        help="Where the machine puts results besides, cell by cell: s3://BUCKET/PREFIX or wandb "
        "(a directory would go with the machine). Without, they are lost where the connection is "
        "away for as long as --idle-minutes. Keys are taken from this environment, and tried "
        "before anything is hired.",
    ),
]


def data_names(plan: Plan) -> list[str]:
    """Return what `--data` named for the cells of a plan."""
    suite = suite_named(plan.suite)
    names = (suite.data_of(one.cell) for one in plan.cells)
    return list(dict.fromkeys(name for name in names if name is not None))


def require_data(policy: str | None, plan: Plan) -> None:
    """Refuse a policy that keeps the data of a run for a plan that names none.

    Raises:
        UsageError: it is so.
    """
    if policy is None or not Policy(policy).needs_data_of_run or data_names(plan):
        return
    raise UsageError(
        f"--cache-policy {policy} keeps the data that --data names, and this plan names none: what "
        "it reads is generated, or fetched by its suite, once for all runs. Choose per-job, shared "
        "or auto, or give --data"
    )
