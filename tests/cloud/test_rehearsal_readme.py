"""The example of sky_rehearsal's README runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sky_rehearsal
from tests.cloud.conftest import COMMAND_TIMEOUT_S

pytestmark = pytest.mark.cloud


def test_the_example_launches_looks_into_the_machine_and_leaves_nothing(fit: None) -> None:
    text = Path(sky_rehearsal.__file__).with_name("README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert any(re.fullmatch(r"gpu_1x_a6000 \S+ 10\.77\.\d+\.\d+", line) for line in said)
    assert any(re.fullmatch(r"\S+-head: \d+ s, \$0\.\d+", line) for line in said)
    assert sum(line.endswith(" undone") for line in said) >= 5
