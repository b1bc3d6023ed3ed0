"""Help and plans are quick because they load nothing heavy."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "altair",
    "datasets",
    "grain",
    "huggingface_hub",
    "jax",
    "numpy",
    "pandas",
    "PIL",
    "psutil",
    "pyarrow",
    "ray",
    "scipy",
    "sky",
    "tensorflow",
    "torch",
    "vl_convert",
    "wandb",
}
PROGRAM = """
import json, sys
from skymark.cli.main import main
status = main({arguments!r})
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})), file=sys.stderr)
sys.exit(status)
"""


def modules_after(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("run", "--help"),
        ("plan",),
        ("clip", "plan", "--models", "all", "--datasets", "all"),
        ("plan", "--profile", "cpu", "--json"),
        ("list", "adapters"),
        ("list", "scenarios"),
    ],
)
def test_a_command_that_measures_nothing_loads_no_heavy_library(arguments):
    assert modules_after(*arguments) & HEAVY == set()


def test_help_does_not_even_load_the_models():
    assert "pydantic" not in modules_after("--help")
