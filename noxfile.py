"""Sessions: thin fronts to the commands that do the work. `make` calls these."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]

# The tools lie beside this interpreter, also where its environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

ROOT = Path(__file__).parent
ADAPTERS = ROOT / "requirements" / "adapters"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the direction of imports."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test, with coverage of the package and of its worker processes, or those named."""
    if session.posargs:
        session.run("python", "-m", "pytest", *session.posargs)
        return
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "--benchmark-disable")
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the ci_cpu profile on this machine."""
    session.run("skymark", "run", "--profile", "ci_cpu", *session.posargs)


@nox.session
def microbench(session: nox.Session) -> None:
    """Measure skymark's own cost per batch and the null loader."""
    session.run("python", "-m", "pytest", "tests/benchmarks", "--benchmark-only", *session.posargs)


@nox.session
def pins(session: nox.Session) -> None:
    """Renew the compiled requirement files: newest releases, hashes, no index addresses."""
    compile_ = ("uv", "pip", "compile", "--quiet", "--upgrade", "--generate-hashes")
    options = ("--universal", "--python-version", "3.11", "--no-header", "--no-emit-index-url")
    chosen = session.posargs or [path.stem for path in sorted(ADAPTERS.glob("*.in"))]
    for name in chosen:
        source, target = ADAPTERS / f"{name}.in", ADAPTERS / f"{name}.txt"
        if name == "dev":
            source, target = ROOT / "pyproject.toml", ROOT / "requirements" / "dev.txt"
        extra = ("--extra", "dev") if name == "dev" else ()
        session.run(*compile_, *options, *extra, str(source), "-o", str(target))
