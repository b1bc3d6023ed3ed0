"""Hand a command for rented machines over to the skymark of SkyPilot's own venv."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import takewhile

SUBMIT = "submit"
INFRA = "--infra"


def hand_over(arguments: Sequence[str], commands: Collection[str]) -> None:
    """Replace this process where a command needs SkyPilot, and only its own venv has it.

    Returns where it is to be run here: another command, its help, SkyPilot at hand, or nowhere,
    which the command says with what to do about it.

    Args:
        arguments: of the command line, the command first.
        commands: those that need SkyPilot.

    Raises:
        UsageError: the venv that a variable names has no SkyPilot.
    """
    if not needs_skypilot(arguments, commands):
        return
    from skymark.cloud.own_venv import has_skypilot, program_there

    if has_skypilot() or (program := program_there()) is None:
        return
    os.execv(program, [str(program), *arguments])  # noqa: S606 no shell reads it


def needs_skypilot(arguments: Sequence[str], commands: Collection[str]) -> bool:
    """Whether a command line asks for what SkyPilot does, and not for help."""
    own = list(takewhile(lambda word: word != "--", arguments))
    if not own or {"--help", "-h"} & set(own):
        return False
    submits = own[1:2] == [SUBMIT]  # skymark SUITE submit
    prices = own[1:2] == ["plan"] and INFRA in (word.partition("=")[0] for word in own)
    of_sky = own[:2] == ["render", "sky"] or (own[0] == "doctor" and "--cloud" in own)
    return own[0] in commands or submits or prices or of_sky
