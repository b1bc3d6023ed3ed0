"""The user's function that makes a loader, read without running it; its cell, and values to try."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.record import Cell, Setting
from skymark.suite.given import combinations

FORM = re.compile(r"(?P<file>.+\.py):(?P<function>[^\W\d]\w*)")
STEP = "step_ms"
"""The setting with the time of a step."""

Parameters = ast.arguments


class Maker(Frozen):
    """A function of a Python file, whose call returns a loader."""

    file: str
    """Absolute path."""
    function: str
    sha256: str
    """Hex digest of the file."""
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    """Parameters without a default."""
    takes_any: bool
    """Whether it takes keywords of any name."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{Path(self.file).stem}.{self.function}"

    @property
    def reference(self) -> str:
        """Name for the command line."""
        return f"{self.file}:{self.function}"

    def require(self, settings: Mapping[str, Setting]) -> None:
        """Require that the function can be called with settings.

        Raises:
            UnknownNameError: it has no such parameter.
            UsageError: it needs another one.
        """
        for name in settings:
            if name not in self.parameters and not self.takes_any:
                raise UnknownNameError(f"parameter of {self.function}", name, self.parameters)
        missing = [name for name in self.required if name not in settings]
        if missing:
            raise UsageError(
                f"{self.function} in {self.file} needs {', '.join(missing)}; give each parameter a "
                f"default, or a value such as --set {missing[0]}=..."
            )


def read_maker(text: str) -> Maker:
    """Read ``FILE.py:NAME``; no code runs.

    Raises:
        UsageError: the text has another form, or the file has no such function.
    """
    found = FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} names no function of a file; write FILE.py:NAME")
    path, function = Path(found["file"]), found["function"]
    try:
        content = path.read_bytes()
        tree = ast.parse(content, str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a Python file") from error
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is no valid Python: {error}; correct it") from error
    signatures = {name: read for node in tree.body for name, read in _signatures(node)}
    if function not in signatures:
        raise UnknownNameError(f"function of {path}", function, signatures)
    arguments = signatures[function]
    if STEP in _names(arguments):
        raise UsageError(
            f"{function} has a parameter {STEP}, which is skymark's own word for the time of a "
            "training step; rename it"
        )
    return Maker(
        file=os.path.realpath(path),
        function=function,
        sha256=sha256(content).hexdigest(),
        parameters=_names(arguments),
        required=_required(arguments),
        takes_any=arguments.kwarg is not None,
    )


def _signatures(node: ast.stmt) -> list[tuple[str, Parameters]]:
    """Return the name and the parameters of a function, or of a class; nothing for others."""
    if isinstance(node, ast.FunctionDef):
        return [(node.name, node.args)]
    if isinstance(node, ast.ClassDef):
        starts = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        (init, *_) = [one.args for one in starts if one.name == "__init__"] or [_any_keywords()]
        return [(node.name, _without_self(init))]
    return []


def _any_keywords() -> Parameters:
    """Return the parameters of a class whose bases decide them."""
    return ast.arguments([], [ast.arg("self")], None, [], [], ast.arg("keywords"), [])


def _without_self(arguments: Parameters) -> Parameters:
    return ast.arguments(
        arguments.posonlyargs,
        arguments.args[1:],
        arguments.vararg,
        arguments.kwonlyargs,
        arguments.kw_defaults,
        arguments.kwarg,
        arguments.defaults[-len(arguments.args[1:]) :] if arguments.args[1:] else [],
    )


def _names(arguments: Parameters) -> tuple[str, ...]:
    """Return the parameters that can be given by name."""
    return tuple(one.arg for one in (*arguments.args, *arguments.kwonlyargs))


def _required(arguments: Parameters) -> tuple[str, ...]:
    plain = [one.arg for one in arguments.args]
    bare = plain[: len(plain) - len(arguments.defaults)]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*bare, *(one.arg for one, default in pairs if default is None))


class OwnOptions(Frozen):
    """Options of the command line that are no settings."""

    python: str = Field(
        default="python", description="The Python that has your loader's libraries."
    )


class OwnSpecification(Frozen):
    """The function, and the interpreter that runs it."""

    maker: Maker
    python: str
    """As the user named it; a name is looked up on the PATH."""

    @classmethod
    def of(cls, cell: Cell) -> OwnSpecification:
        """Return the specification of a cell."""
        return cls.model_validate(cell.specification)


def split(settings: Mapping[str, Setting]) -> tuple[float, dict[str, Setting]]:
    """Return the seconds of a step, and the parameters of the function.

    Raises:
        UsageError: the step is no time.
    """
    step = settings.get(STEP, 0.0)
    if isinstance(step, bool | str) or step < 0:
        raise UsageError(f"setting {STEP}={step!r}: give milliseconds, such as {STEP}=120")
    return step / 1000, {name: value for name, value in settings.items() if name != STEP}


# What is tried

WORKERS = ("num_workers", "workers", "n_workers", "worker_count")
"""Parameters that are the number of worker processes."""
NEED_WORKERS: Mapping[str, Sequence[Setting]] = {
    "prefetch_factor": (2, 4),
    "persistent_workers": (True, False),
    "in_order": (True, False),
    "multiprocessing_context": ("fork", "forkserver"),
}
"""Values of parameters that work with worker processes alone, by name."""
NOTHING = "None"
"""The text of a setting that stands for Python's None."""
WITHOUT_WORKERS: Mapping[str, Setting] = {
    "prefetch_factor": NOTHING,
    "persistent_workers": False,
    "in_order": True,
    "multiprocessing_context": NOTHING,
}
"""Their values without worker processes."""


def points_of(
    maker: Maker,
    fixed: Mapping[str, Setting],
    given: Mapping[str, Sequence[Setting]],
    cores: int,
) -> list[dict[str, Setting]]:
    """Return the settings to try: each known parameter's usual values, and the user's own.

    Args:
        maker: the function.
        fixed: parameters that have a value.
        given: values to try by parameter; they replace the usual ones.
        cores: largest number of workers.

    Raises:
        UsageError: there is nothing to try.
    """
    usual = {
        name: values
        for name, values in _usual(cores).items()
        if name in maker.parameters and name not in fixed
    }
    tried = {**usual, **given}
    if not tried:
        known = ", ".join(_usual(cores))
        raise UsageError(
            f"{maker.function} has no parameter with usual values ({known}); name values to try, "
            "such as --try decode=pillow,turbo"
        )
    different = (_consistent(point, fixed) for point in combinations(tried))
    return [dict(point) for point in dict.fromkeys(tuple(one.items()) for one in different)]


def _usual(cores: int) -> dict[str, Sequence[Setting]]:
    from skymark.machine.facts import has_driver

    powers = {1 << power for power in range(max(1, cores).bit_length())}
    workers = [0, *sorted(one for one in {*powers, cores} if one <= cores)]
    usual: dict[str, Sequence[Setting]] = dict.fromkeys(WORKERS, workers)
    pinned = {"pin_memory": (True, False)} if has_driver("gpu") else {}
    return {**usual, **NEED_WORKERS, **pinned}


def _consistent(point: Mapping[str, Setting], fixed: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return a point with the only values that its number of workers allows."""
    workers = [value for name, value in {**fixed, **point}.items() if name in WORKERS]
    if workers != [0]:
        return dict(point)
    return {name: WITHOUT_WORKERS.get(name, value) for name, value in point.items()}
