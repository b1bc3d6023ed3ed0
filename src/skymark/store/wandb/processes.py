"""Child processes that run wandb: bounded in time, writing below a given directory.

wandb's library blocks without bound when its server is away, and its own helper process leaves the
process group. So skymark never runs it in its own process: each child is given a time, and is ended
with everything that it started.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from skymark.machine.variables import absolute_path, wandb_variables

DROPPED = {
    "WANDB_MODE", "WANDB_RUN_ID", "WANDB_RESUME", "WANDB_NAME", "WANDB_DISABLED", "WANDB_SERVICE",
    "WANDB_SWEEP_ID", "WANDB_ARTIFACT_DIR",
}  # fmt: skip
"""Variables of the caller that would make wandb do something else than what it is told."""

KEYS = {"WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"}
"""Variables with a key; a client that contacts no server does without."""

TERMINATE_PATIENCE_S = 1.0
KILL_PATIENCE_S = 5.0


def run_bounded(
    command: Sequence[str],
    home: Path,
    log: Path,
    limit_s: float,
    variables: Mapping[str, str] | None = None,
    *,
    with_key: bool = False,
) -> int | None:
    """Run a command to its end, or end it at its time limit.

    Args:
        command: what to run.
        home: what it writes stays below it; also its working directory.
        log: the file that its output is appended to.
        limit_s: seconds until it is ended with all that it started.
        variables: added to those it inherits.
        with_key: whether it inherits the user's key.

    Returns:
        Its exit code, which proves nothing; None where it was ended.
    """
    with (
        tempfile.TemporaryDirectory(prefix="skymark-", ignore_cleanup_errors=True) as temporary,
        log.open("ab") as output,
    ):
        inherited = variables_below(home, Path(temporary))
        changed = {name: value for name, value in inherited.items() if with_key or name not in KEYS}
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env=changed | dict(variables or {}),
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_tree(process)


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command of a module; nothing is imported from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def variables_below(home: Path, temporary: Path) -> dict[str, str]:
    """Return the variables of wandb's client, with its files below a directory.

    The user's settings of wandb stay where they are: they are read and hold the server's address.

    Args:
        home: where wandb keeps runs, copies and logs.
        temporary: for what a client that is killed cannot remove. Its sockets lie there too, and
            their paths must be short, so it is not below `home`.
    """
    variables = {name: value for name, value in wandb_variables().items() if name not in DROPPED}
    settings = Path(variables.get("WANDB_CONFIG_DIR", "~/.config/wandb")).expanduser()
    own = home / "wandb"
    variables |= {
        "PYTHONPATH": absolute_path(os.environ.get("PYTHONPATH", "")),  # skymark's own modules
        "TMPDIR": str(temporary),
        "WANDB_DIR": str(home),
        "WANDB_DATA_DIR": str(own / "data"),
        "WANDB_CACHE_DIR": str(own / "cache"),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        # The manifest has the commit; git's processes would have the key.
        "WANDB_DISABLE_GIT": "true",
    }
    if not (settings / "settings").is_file():
        variables["WANDB_CONFIG_DIR"] = str(own / "config")
    return variables


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a child process and its descendants; no error if they have ended.

    The root is stopped first, so that it starts nothing more while its descendants are counted.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.poll() is None:
            root = psutil.Process(process.pid)
            root.suspend()
            family = root.children(recursive=True)
            for one in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            root.terminate()
            root.resume()
            psutil.wait_procs(family, KILL_PATIENCE_S)
    try:
        process.wait(TERMINATE_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(KILL_PATIENCE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
