"""SkyPilot's words: skymark accepts some for its own, and answers the rest with advice."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from skymark.cli.caller import before_dashes, without_loudness
from skymark.cli.help import asks_for_help
from skymark.model.errors import UsageError

DONE_ANYWAY = ""
"""Answer to an option whose effect skymark has anyway: it drops the option."""

IN_YAML = "put it under `resources` of a SkyPilot YAML, and name that file with --machine"
OF_MACHINE = "the machine is there already; leave it out, or ask for GPUs with --gpus"
OF_SOURCE = "check that revision out here: skymark sends the files that lie here"
OF_CONFIG = "write it into ~/.sky/config.yaml, which skymark's SkyPilot reads"
IN_BACKGROUND = "put & behind the command, or leave it out to wait for the end"
IN_JOBS = "use `skymark submit --managed --jobs N`"
PRIORITY = "jobs of a machine begin in the order of `skymark queue`; leave it out"
NO_SPOT = "leave it out: only --spot, or use_spot of a --machine YAML, asks for spot machines"
WAITING = "use --managed with --store s3://BUCKET/PREFIX, which waits for a machine"
WHERE = "name both places at once, such as --infra gcp/us-west1"
AS_JSON = "use --json; a table is shown without it"
BY_SKY = "`{sky}` has it, for skymark's machines too"

ALL = {"--config": OF_CONFIG}
HARDWARE = ("--cpus", "--memory", "--disk-tier", "--network-tier", "--local-disk",
            "--instance-type", "-t", "--ports")  # fmt: skip
RENTING = {
    **ALL,
    **dict.fromkeys(HARDWARE, IN_YAML),
    **dict.fromkeys(("--region", "--zone"), WHERE),
    **dict.fromkeys(("--git-url", "--git-ref"), OF_SOURCE),
    **dict.fromkeys(("--workspace", "-w"), OF_CONFIG),
    **dict.fromkeys(("--pool", "-p"), "use `skymark submit --cluster NAME`, a machine that is up"),
    **dict.fromkeys(("--num-jobs", "--job-group", "--no-job-group"), IN_JOBS),
    "--job-recovery": "a managed job goes on where its store ends; leave it out",
    "--cloud": "--infra",
    "--use-spot": "--spot",
    "--no-use-spot": NO_SPOT,
    "--dryrun": "--dry-run",
    "--priority": PRIORITY,
}
LAUNCH = {
    **RENTING,
    "-no-d": DONE_ANYWAY,
    "--async": "--detach-run",
    "--no-async": DONE_ANYWAY,
    "--docker": "use `docker run`, as docs/containers.md has it",
    "--image-id": "use --image for an image of skymark's; for any other image, " + IN_YAML,
    "--workdir": "a run has skymark's source; for a job of your own, `skymark exec --workdir`",
    "--wait-for": "skymark's idle timer waits for jobs alone; leave it out",
    **dict.fromkeys(("--retry-until-up", "-r"), WAITING),
    "--no-setup": "use `skymark exec` on a machine that is up, or --image",
    "--fast": "use `skymark exec` on a machine that is up",
    **dict.fromkeys(
        ("--clone-disk-from", "--clone"), "rent with --idle, then copy with `skymark rsync`"
    ),
}
EXEC = {
    **ALL,
    **dict.fromkeys(
        (*HARDWARE, "--disk-size", "--infra", "--cloud", "--region", "--zone"), OF_MACHINE
    ),
    **dict.fromkeys(("--use-spot", "--no-use-spot", "--image-id"), OF_MACHINE),
    **dict.fromkeys(("--git-url", "--git-ref"), OF_SOURCE),
    **dict.fromkeys(("--cluster", "-c"), "name the machine first: skymark exec NAME -- COMMAND"),
    "--async": "--detach-run",
    "--no-async": DONE_ANYWAY,
    "--yes": DONE_ANYWAY,
    "-y": DONE_ANYWAY,
}
STATUS = {
    **ALL,
    **dict.fromkeys(("--verbose", "-v", "--refresh", "-r"), DONE_ANYWAY),
    **dict.fromkeys(("--show-managed-jobs", "--no-show-services", "--no-show-pools"), DONE_ANYWAY),
    **dict.fromkeys(("--ip", "--endpoints", "--endpoint"), BY_SKY),
    **dict.fromkeys(("--all-users", "-u", "--show-services", "--show-pools"), BY_SKY),
    **dict.fromkeys(("--output", "-o"), AS_JSON),
    "--no-show-managed-jobs": "name the machines: skymark status NAME",
}
QUEUE = {
    **ALL,
    **dict.fromkeys(("--all-users", "-u"), DONE_ANYWAY),
    **dict.fromkeys(("--output", "-o"), AS_JSON),
}
LOGS = {
    **ALL,
    **dict.fromkeys(("--provision", "--hook", "--autostop", "--worker", "-w"), BY_SKY),
    **dict.fromkeys(("--sync-down", "-s"), "write it: skymark logs NAME --no-follow > FILE"),
    "--status": "`skymark queue` has the status of each job",
    "--follow": DONE_ANYWAY,
}
CANCEL = {
    **ALL,
    **dict.fromkeys(("--all-users", "-u"), "--all"),
    **dict.fromkeys(("--yes", "-y", "--no-async"), DONE_ANYWAY),
    "--async": IN_BACKGROUND,
}
DOWN = {
    **ALL,
    **dict.fromkeys(("--yes", "-y", "--no-async"), DONE_ANYWAY),
    **dict.fromkeys(
        ("--all-users", "-u"), "give --all, which ends all machines that skymark rented"
    ),
    **dict.fromkeys(
        ("--purge", "-p"),
        "it asks the provider until the machine is gone; leave it out",
    ),
    **dict.fromkeys(
        ("--graceful", "--graceful-timeout"),
        "use `skymark collect NAME --down`, which ends it once all results are here",
    ),
    "--async": IN_BACKGROUND,
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "launch": LAUNCH,
    "exec": EXEC,
    "status": STATUS,
    "queue": QUEUE,
    "logs": LOGS,
    "cancel": CANCEL,
    "down": DOWN,
    "cost": {**RENTING, "--dryrun": DONE_ANYWAY},
    "submit": {**RENTING, "--async": DONE_ANYWAY, "--no-async": DONE_ANYWAY},
}
"""By command of skymark's and option of SkyPilot 0.14's: our option, or an answer.

An answer that begins with a dash is our option, and takes as many values as SkyPilot's.
"""

BESIDE = "use `{sky} {word}`, which works on skymark's machines too"
COMMANDS: Mapping[str, str] = {
    "jobs launch": "use `skymark launch PROFILE --managed --store s3://BUCKET/PREFIX`",
    "jobs queue": "use `skymark status`",
    "jobs logs": "use `skymark logs NAME`",
    "jobs cancel": "use `skymark down NAME`",
    "jobs": "use `skymark launch PROFILE --managed`",
    "stop": "a stopped machine's disk is still paid for: use `skymark down NAME`",
    "start": "use `skymark launch PROFILE`: nothing is left of a machine that ended",
    "autostop": "use `skymark launch … -i MINUTES`, or `{sky} autostop NAME -i MINUTES --down`",
    "check": "use `skymark doctor --cloud`",
    **dict.fromkeys(
        ("gpus", "show-gpus"), "use `skymark cost PROFILE --gpus H100:8`, or `{sky} gpus list`"
    ),
    "cost-report": "use `skymark status`",
    **dict.fromkeys(("storage", "volumes", "volume", "serve", "api", "dashboard"), BESIDE),
    **dict.fromkeys(("workspace", "debug-dump"), BESIDE),
}
"""Advice on SkyPilot's commands that skymark does not have."""


def in_own_words(words: Sequence[str], is_ours: Callable[[str], bool]) -> list[str]:
    """Return a command line with SkyPilot's options in skymark's words.

    Args:
        words: of the command line, the command first.
        is_ours: whether skymark has a command of a name.

    Raises:
        UsageError: skymark has no such word; the message says what to do.
    """
    own = list(before_dashes(words))
    if not own:
        return list(words)
    if not is_ours(own[0]):
        for command in (" ".join(own[:2]), own[0]):
            if command in COMMANDS:
                raise UsageError(_said(f"skymark has no `{command}`", COMMANDS[command], command))
    place = 1 if own[1:2] == ["submit"] else 0  # skymark SUITE submit
    known = OPTIONS.get(own[place], {})
    found: list[str] = []
    for word in own:
        option, given, value = word.partition("=")
        answer = known.get(option)
        if answer is None:
            found.append(word)
        elif answer.startswith("-"):
            found.append(f"{answer}{given}{value}")
        elif answer != DONE_ANYWAY:
            refused = f"`skymark {' '.join(own[: place + 1])}` has no {option}"
            raise UsageError(_said(refused, answer, option))
    return [*found, *words[len(own) :]]


def taken_words(command: Sequence[str]) -> list[str]:
    """Return SkyPilot's options that a command of skymark accepts."""
    known = OPTIONS.get(command[-1], {}) if command else {}
    return [option for option, answer in known.items() if answer.startswith("-")]


def _said(refused: str, answer: str, word: str) -> str:
    from skymark.cloud import program_there

    program = program_there()
    sky = "sky" if program is None else str(program.with_name("sky"))
    return f"{refused}; {answer.format(sky=sky, word=word)}"


SUBMIT = "submit"
INFRA = "--infra"
ON = "--on"


def hand_over(arguments: Sequence[str], commands: Collection[str]) -> None:
    """Replace this process where a command needs SkyPilot, and only its own venv has it.

    Returns if the command runs here: it needs no SkyPilot, it asks for help, SkyPilot is in this
    venv, or no venv has it, and the command itself says so.

    Args:
        arguments: words of the command line, the command first.
        commands: the commands that need SkyPilot.

    Raises:
        UsageError: the venv that a variable names has no SkyPilot.
    """
    if not needs_skypilot(arguments, commands):
        return
    from skymark.cloud import has_skypilot, program_there

    if has_skypilot() or (program := program_there()) is None:
        return
    os.execv(program, [str(program), *arguments])  # noqa: S606 no shell reads it


def needs_skypilot(arguments: Sequence[str], commands: Collection[str]) -> bool:
    """Whether a command line needs SkyPilot: not for help."""
    own = before_dashes(without_loudness(arguments))
    if not own or asks_for_help(own):
        return False
    rents = "run" in own[:2] and ON in (word.partition("=")[0] for word in own)
    submits = own[1:2] == [SUBMIT]  # skymark SUITE submit
    prices = own[1:2] == ["plan"] and INFRA in (word.partition("=")[0] for word in own)
    of_sky = own[:2] == ["render", "sky"] or (own[0] == "doctor" and "--cloud" in own)
    return own[0] in commands or rents or submits or prices or of_sky
