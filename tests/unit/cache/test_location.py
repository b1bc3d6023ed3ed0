"""Where the cache lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from skymark.cache.location import cache_directory, own_cache
from skymark.model.errors import CacheError


def test_the_cache_is_where_the_user_says_else_where_caches_lie(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.delenv("SKYMARK_CACHE", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "skymark"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "skymark"
    monkeypatch.setenv("SKYMARK_CACHE", "~/mine")
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKYMARK_CACHE", "relative")
    assert cache_directory() == Path(tmp_path).resolve() / "relative"


def test_code_lies_where_only_the_user_writes(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    shared = tmp_path / "shared"
    monkeypatch.setenv("SKYMARK_CACHE", str(shared))
    assert own_cache() == shared
    shared.mkdir()
    shared.chmod(0o777)
    assert cache_directory() == shared
    assert own_cache() == own_cache(shared / "below") == tmp_path / ".cache" / "skymark"
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match=r"\(mode 777\)"):
        own_cache()
