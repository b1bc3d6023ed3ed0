"""Packages with kinds of stores, as a package installer leaves them in a directory of modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skymark import resources
from skymark.store import kinds
from skymark.store.kinds import GROUP

ZIP_STORE = Path(__file__).with_name("zip_store.py")


def install(site: Path, package: str, entry: str, module: Path | None = None) -> None:
    """Write a package's metadata, and its one module, into a directory to be imported from.

    Args:
        site: made if absent.
        package: its name.
        entry: a line of ``entry_points.txt``: ``SCHEME = module:name``.
        module: the file to copy; None for a package that lacks its module.
    """
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")
    if module is not None:
        (site / module.name).write_bytes(module.read_bytes())


def install_zip_store(site: Path) -> None:
    """Install the kind of store in `zip_store.py`."""
    install(site, "zip_store", "zip = zip_store:ZIP", ZIP_STORE)


@contextmanager
def packages_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Import from a directory of installed packages; what is found there is forgotten."""
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    _forget()
    yield site
    sys.modules.pop("zip_store", None)
    _forget()


def _forget() -> None:
    resources._extensions.cache_clear()
    kinds._entry_points.cache_clear()
    kinds._kind.cache_clear()
