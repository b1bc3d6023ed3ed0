"""The `skymark` command. Commands are loaded when they are called, so that help is quick."""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

from skymark import __version__
from skymark.model.errors import SkymarkError

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

app = App(
    name="skymark",
    help="Compare input pipelines and models, with proof that the work was equal.",
    version=__version__,
)
for module, name, text in (
    ("run:run", "run", "Measure scenarios × adapters on this machine."),
    ("run:plan", "plan", "Show what would run, without running it."),
    ("listing:listing", "list", "List scenarios, adapters or profiles."),
    ("results:report", "report", "Show a run as a table and write its report.html."),
    ("results:compare", "compare", "Compare two runs, cell by cell."),
    ("results:export", "export", "Write a run's figures as CSV or Parquet."),
    ("environments:env", "env", "List, build or remove the adapters' environments."),
    ("doctor:doctor", "doctor", "Tell whether this machine is fit for measuring."),
):
    app.command(f"skymark.cli.{module}", name=name, help=text)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 every cell ok, skipped or unsupported; 1 some cell failed, timed out or is invalid; 2 bad
    usage, nothing was started; 3 a gate said no; 130 interrupted; 141 nobody reads the output.
    """
    try:
        result = app(arguments, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return USAGE_ERROR
    except SkymarkError as error:
        print(f"skymark: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who reads the output has enough; Python must not try to flush the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return result if isinstance(result, int) else 0


def entry_point() -> None:
    """Run as a program."""
    sys.exit(main())
