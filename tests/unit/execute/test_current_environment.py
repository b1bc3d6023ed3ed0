"""The libraries that the running interpreter has and lacks, by their metadata."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest
from packaging.requirements import Requirement

from skymark.cli.main import main
from skymark.execute.venvs import (
    AdapterHere,
    adapters_here,
    install_line,
    is_met,
    requirements_of,
)
from skymark.model.venv import WORKER, VenvSpec
from skymark.suites.loading.suite import LoadingSuite


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("numpy", True),
        ("numpy>=2", True),
        ("numpy<1", False),
        ("no-such-package", False),
        ("coverage[toml]", True),
        ("moto[server]", True),
        ("rich[jupyter]", False),
    ],
)
def test_a_requirement_is_met_by_what_is_installed_with_its_extras(requirement, met):
    assert is_met(Requirement(requirement)) is met


def test_an_adapters_requirements_are_those_before_pinning_for_the_machine():
    spec = LoadingSuite().venvs(["grain"])["grain"]
    plain = {str(one) for one in requirements_of(spec)}
    assert {"numpy", "grain", "jax"} <= plain
    assert {str(one) for one in requirements_of(spec.built_for("cuda12"))} == plain | {
        "jax[cuda12]"
    }


def test_an_adapter_whose_library_is_here_has_its_version_and_nothing_missing():
    (found,) = adapters_here(LoadingSuite().venvs(["numpy"]))
    assert (found.library, found.version, found.missing) == ("numpy", np.__version__, ())


def test_a_version_that_is_asked_for_and_another_that_is_there_is_missing():
    spec = VenvSpec(name="own", declared=WORKER, packages=("numpy<2",), imports="numpy")
    (found,) = adapters_here({"own": spec})
    assert found.version == metadata.version("numpy")
    assert [str(one) for one in found.missing] == ["numpy<2"]


def test_one_command_installs_all_that_is_missing_with_what_all_of_them_ask():
    def lacks(*texts):
        return AdapterHere("one", "library", None, tuple(map(Requirement, texts)))

    line = install_line([lacks("torch", "jax"), lacks("torch<2.11", "jax[cuda12]"), lacks()])
    assert line == f"uv pip install --python {sys.executable} 'jax[cuda12]' 'torch<2.11'"
    assert install_line([lacks()]) is None


def test_the_list_says_what_is_here_and_ends_with_the_command(capsys):
    assert main(["env", "list", "numpy", "ffcv", "--env", "current"]) == 0
    text = capsys.readouterr().out
    assert np.__version__ in text
    assert ": uv pip install " in text.rstrip().splitlines()[-1]
    assert main(["env", "list", "numpy", "--env", "current", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["install"] is None
    assert found["adapters"][0]["version"] == np.__version__


def test_no_library_is_imported_for_the_list():
    program = (
        "import sys; from skymark.cli.main import main; main(['env', 'list', '--env', 'current']);"
        "print(sorted({'numpy', 'torch', 'jax', 'pyarrow', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
