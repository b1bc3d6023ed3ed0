"""How long a user waits for help and for a plan."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [("--help",), ("plan",)], ids=lambda words: words[0])
def test_start_up(benchmark, arguments):
    benchmark.pedantic(
        lambda: subprocess.run(
            [sys.executable, "-m", "skymark", *arguments], check=True, stdout=subprocess.DEVNULL
        ),
        rounds=10,
        warmup_rounds=1,
    )
