"""`skymark --install-completion`: the completion of commands and options in a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cli.caller import print_plain
from skymark.model.errors import UsageError


def install(
    *,
    shell: Annotated[
        # In the order of cyclopts: Python keeps one union of literals, whatever their order.
        Literal["zsh", "bash", "fish", "powershell"] | None,
        Parameter(help="Your shell. [default: the running shell]"),
    ] = None,
    output: Annotated[
        Path | None, Parameter(help="Write the script into this file, and change no start-up file.")
    ] = None,
) -> int:
    """Complete commands and options in your shell.

    Writes the shell's script, and adds a line to the start-up file of bash and zsh.

    Examples:
      skymark --install-completion
      skymark --install-completion --shell zsh --output ~/.zfunc/_skymark
    """
    from cyclopts.completion.detect import ShellDetectionError

    from skymark.cli.main import add_suites, app

    add_suites(())
    try:
        written = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
    except ShellDetectionError as error:
        raise UsageError("the shell is not known here; name it, such as --shell bash") from error
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error
    print_plain(f"{written}; start a new shell to use it")
    return 0
