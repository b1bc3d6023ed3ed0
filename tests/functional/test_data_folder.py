"""Runs that begin in a folder that somebody else filled: nothing of it is imported or obeyed."""

from __future__ import annotations

import pytest

from skymark.model.record import Status


@pytest.mark.libraries
@pytest.mark.parametrize("adapter", ["numpy", "ray"])
def test_modules_in_the_current_directory_are_not_run(tmp_path, skymark, adapter):
    seen = tmp_path / "seen"
    for name in ("numpy", "pydantic", "ray", "psutil", "PIL", "pyarrow", "sitecustomize"):
        source = f"open({str(seen)!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        (tmp_path / f"{name}.py").write_text(source)
    arguments = ("run", "--scenarios", "TAB-1", "--adapters", adapter, "--effort", "check")
    # The tests' own process is started with -m, which the installed command is not.
    ran = skymark(*arguments, "--timeout", "300", PYTHONSAFEPATH="1")
    assert ran.status == 0, ran.stderr
    assert not seen.exists()
    assert ran.records[f"loading.TAB-1.small.{adapter}"].status is Status.OK
