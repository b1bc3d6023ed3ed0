"""Submissions: a directory of source of their own on the machine for jobs that are sent together.

SkyPilot sends every job's source into one directory, so that a job that waits or runs gets the
source of the next one. Here each job runs the code that was sent with it.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

SOURCES = "skymark-source"
"""Directory of submissions below the home that SSH logs in to."""

INTERPRETERS = ("$HOME/skymark-venv/bin", "/opt/skymark/bin")
"""Where a machine's set-up and a container image have skymark."""


def new_submission() -> str:
    """Return a name for a submission."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def source_place(submission: str) -> str:
    """Return the directory of a submission's source, below the home that SSH logs in to."""
    return f"{SOURCES}/{submission}"


def within(submission: str, run: str) -> str:
    """Return a script that does what another one does, with and in the source of a submission.

    On Slurm a job's home is not the one that SSH logs in to.
    """
    place = source_place(submission)
    path = ":".join(INTERPRETERS)
    return f"""\
source=$(getent passwd "$(id -u)" | cut -d: -f6)/{place}
[ -d "$source" ] || source=~/{place}
cd "$source" || exit 1
export PYTHONPATH="$source/src" PATH="{path}:$PATH"
{run}"""


def beside_others(run: str) -> str:
    """Return a script whose measurements wait for those on the same cards, and for no others.

    By itself a measurement waits for any other one on the machine. A job that was given some of the
    cards runs beside those that have the others.
    """
    return f"""\
cards=${{CUDA_VISIBLE_DEVICES:-}}
[ -z "$cards" ] || export SKYMARK_LOCK=~/.skymark-cards-${{cards//,/-}}.lock
{run}"""


def job_name(text: str) -> str:
    """Return a name that SkyPilot takes for a job."""
    return re.sub("[^A-Za-z0-9]+", "-", text).strip("-")
