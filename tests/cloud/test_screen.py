"""What SkyPilot writes where our own output is read."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.cloud, pytest.mark.usefixtures("other_home")]

WARNING = """
from skymark.cloud.sky.client import sdk
sdk()
from sky import sky_logging
sky_logging.init_logger("sky.provision").warning("Caught a fault. Retrying.")
"""


def test_what_skypilot_logs_is_never_on_standard_output() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARNING], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert "Caught a fault" in done.stderr


THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from skymark.cloud.sky.client import sdk
with ThreadPoolExecutor(8) as threads:
    list(threads.map(lambda _: sdk(), range(64)))
print("answer")
"""


def test_threads_that_ask_at_once_leave_standard_output_as_it_was() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "answer\n"
