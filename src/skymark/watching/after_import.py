"""Change a library's modules after their import, now or later.

Without a watch and with one a program runs alike, so a change that fails at a library's version is
dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, ModuleType
from typing import Any, Callable

Hook = Callable[[Any], None]
"""Changes a module after its import."""


class _AfterImport(Loader):
    """A module's loader that sets a hook after it."""

    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the module's own loader makes."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, give it its own loader again, and set the hook."""
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        _try(self._hook, module)


class _Finder(MetaPathFinder):
    """Finds the modules that have a hook, by the finders after this one."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._hooks = dict(hooks)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module's spec with the hook, once."""
        hook = self._hooks.pop(name, None)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _AfterImport(spec.loader, hook)
                return spec
        return None


def _try(hook: Hook, module: ModuleType) -> None:
    with suppress(Exception):  # an unknown version of the library is not watched
        hook(module)


def after_import(hooks: dict[str, Hook]) -> None:
    """Set hooks on modules, now or at their import. A second call does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    later = {}
    for name, hook in hooks.items():
        if name in sys.modules:
            _try(hook, sys.modules[name])
        else:
            later[name] = hook
    sys.meta_path.insert(0, _Finder(later))


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Wrap a function of a class or module, if there is such a function."""
    original = owner.__dict__.get(name)
    if original is None:
        return
    if isinstance(original, (staticmethod, classmethod)):
        setattr(owner, name, type(original)(make(original.__func__)))
    elif isinstance(original, BuiltinFunctionType):  # which no instance is passed to
        setattr(owner, name, staticmethod(make(original)))
    else:
        setattr(owner, name, make(original))
