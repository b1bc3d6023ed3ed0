"""The time to set a rented machine up: skymark and the venvs that a plan's adapters need.

Pure functions of the plan and the pins that come with skymark.
"""

from __future__ import annotations

from skymark.execute.accelerator import accelerator_venv
from skymark.execute.venv_sizes import MB, unpacked_bytes
from skymark.execute.venv_specs import venvs_of_plan
from skymark.model.plan import Plan
from skymark.model.platform import usual_target
from skymark.model.span import NOTHING, Span

SKYMARK_ITSELF = ("container.txt", "container-build.txt")
"""Pins that a machine's set-up installs for skymark."""

START = Span(low_s=5, expected_s=20, high_s=120)
"""uv, an interpreter and the files of skymark. Assumed."""

EACH_VENV = Span(low_s=2, expected_s=5, high_s=20)
"""To link and compile the files of one venv that are there already. Assumed."""

ASKED = Span(low_s=3, expected_s=10, high_s=60)
"""For `skymark doctor` to ask JAX and torch for the accelerator, both at once: 8 to 9 s each on a
machine with an H100, the first import from its disk included."""

RATES_MB_PER_S = (200, 50, 10)
"""Unpacked megabytes a second: at best, expected, at worst. Assumed; SkyPilot lists no machine on
Vast whose network has less than 12 MB/s, and packages travel compressed."""


def set_up_time(plan: Plan) -> Span:
    """Return the time to install skymark and the venvs that a plan's cells need, and no others."""
    target = usual_target(plan.platform)
    specs = list(venvs_of_plan(plan, target).values())
    asked = NOTHING
    if target != "cpu":
        specs.append(accelerator_venv(target))
        asked = ASKED
    megabytes = unpacked_bytes(specs, also=SKYMARK_ITSELF) / MB
    low_s, expected_s, high_s = (megabytes / rate for rate in RATES_MB_PER_S)
    transfer = Span(low_s=low_s, expected_s=expected_s, high_s=high_s)
    return START.plus(EACH_VENV.times(len(specs))).plus(transfer).plus(asked)
