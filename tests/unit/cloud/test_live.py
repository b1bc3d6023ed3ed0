"""`down` ends what skymark rented, and nothing else."""

from __future__ import annotations

import re

import pytest

from skymark.cloud.machines import down
from skymark.model.errors import UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", ["training", "sky-serve-1", "skymarket", "../skymark-cpu-1"])
def test_a_machine_that_skymark_did_not_rent_is_not_ended(name):
    with pytest.raises(UsageError, match=re.escape(f"down {name}`")):
        down(name, pytest.fail)
