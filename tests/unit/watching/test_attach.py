"""Hooks are set after a module's import, once, and leave the module as it would be."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from skymark.watching import after_import, attach
from skymark.watching.stages import StageClock


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module `watchedlib`, and hooks for it alone."""
    (tmp_path / "watchedlib.py").write_text("def decode():\n    return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not attached(f)])
    yield monkeypatch
    sys.modules.pop("watchedlib", None)


def attached(finder: object) -> bool:
    return isinstance(finder, after_import._Finder)


def test_a_hook_is_set_at_the_import_and_the_module_keeps_its_loader(library):
    seen = []
    library.setattr(attach, "HOOKS", {"watchedlib": seen.append})
    attach.attach()
    import watchedlib

    assert seen == [watchedlib]
    assert type(watchedlib.__loader__).__module__.startswith("_frozen_importlib")
    assert watchedlib.__spec__.loader is watchedlib.__loader__


def test_a_module_that_is_there_gets_its_hook_at_once_and_only_once(library):
    import watchedlib

    seen = []
    library.setattr(attach, "HOOKS", {"watchedlib": seen.append})
    attach.attach()
    attach.attach()
    assert seen == [watchedlib]


def test_a_hook_that_does_not_fit_the_library_is_left_out(library):
    def hook(module: object) -> None:
        raise AttributeError(module)

    library.setattr(attach, "HOOKS", {"watchedlib": hook})
    attach.attach()
    import watchedlib

    assert watchedlib.decode() == 3


def test_a_call_that_has_nothing_left_to_decode_counts_as_no_stage(monkeypatch):
    watch = SimpleNamespace(is_over=False, clock=StageClock())
    monkeypatch.setattr(attach, "recorder", lambda: watch)

    class Image:
        tile: ClassVar = ["jpeg"]

        def load(self) -> int:
            self.tile = []
            return 7

    attach._hook_pillow(SimpleNamespace(ImageFile=Image))
    image = Image()
    assert [image.load() for _ in range(3)] == [7, 7, 7]
    assert watch.clock.stages["decode"].calls == 1
