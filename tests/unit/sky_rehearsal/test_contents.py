"""Contents of simulated machines and of the price catalogue."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from sky_rehearsal.image import Image, find_python
from sky_rehearsal.lambda_cloud import read_instance_types
from sky_rehearsal.world import CATALOGS


def test_the_prices_come_with_the_package():
    types = read_instance_types(CATALOGS)
    assert any(one.cpus >= 8 and one.memory_gib >= 32 for one in types.values())  # cpu-benchmark
    assert {one.gpu_name for one in types.values()} >= {"A100", "H100"}
    assert "autumn 2026" in (CATALOGS / "README.md").read_text()


@pytest.mark.parametrize(("cpus", "believed"), [(None, set()), (8, {"RAY_OVERRIDE_RESOURCES"})])
def test_ray_believes_in_the_cores_of_a_machine_with_more_gpus_than_there_are_cores(
    tmp_path, cpus, believed
):
    spec = Image(tmp_path, {}, None, None, None).spec("m", "10.77.1.2", "ubuntu", [], cpus)
    (line,) = re.findall("^SetEnv (.*)$", spec["files"]["/etc/ssh/sshd_config"], re.MULTILINE)
    variables = dict(word.split("=", 1) for word in shlex.split(line))
    assert believed == variables.keys() & {"RAY_OVERRIDE_RESOURCES"}
    assert json.loads(variables.get("RAY_OVERRIDE_RESOURCES", "{}")).get("CPU") == cpus


@pytest.mark.parametrize("root", [".pyenv", "elsewhere"])
def test_the_python_of_skypilots_runtime_is_found_where_pyenv_keeps_it(monkeypatch, tmp_path, root):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    if root != ".pyenv":
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path / root))
    assert find_python() is None
    python = tmp_path / root / "versions" / "3.10.13" / "bin" / "python3.10"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho /opt/python 10\n")
    python.chmod(0o755)
    assert find_python() == Path("/opt/python")
