"""The `skymark` command. Commands are loaded when they are called, so that help is quick."""

from __future__ import annotations

import gc
import os
import sys
from inspect import cleandoc

from cyclopts import App, CycloptsError, Group, Parameter

from skymark import __version__
from skymark.cli.caller import BROKEN_PIPE, INTERRUPTED, USAGE_ERROR, say
from skymark.model.errors import SkymarkError

COMMANDS = (
    (
        "run:run",
        "run",
        """Measure scenarios × adapters on this machine.

        Each library runs in a venv and a process of its own, and an oracle checks that all
        did the same work. Results are written cell by cell: Ctrl-C keeps them, and the same command
        with --output DIRECTORY --resume goes on. What is not given comes from the profile.

        Exit status: 0 all is well, 1 a cell failed, timed out or is invalid, or something could not
        be stored, 2 nothing was started, 130 interrupted.
        """,
    ),
    (
        "run:plan",
        "plan",
        """Show what `run` would measure, and about how long it would take.

        Says why an adapter cannot do a scenario. Takes the options of `run` that say what to
        measure, and how.
        """,
    ),
    ("listing:listing", "list", "List scenarios, adapters or profiles."),
    ("results:report", "report", "Show a run as a table and write its report.html anew."),
    (
        "results:compare",
        "compare",
        """Compare two runs, cell by cell.

        Faster or slower needs both a statistical and a practical difference, across rounds; too
        little data is inconclusive. Runs of other hardware, versions or cells are refused, unless
        --across allows them.

        Exit status: 0 they were compared, 2 they cannot be, 3 --gate said no.
        """,
    ),
    (
        "results:export",
        "export",
        """Write a run's figures as CSV or Parquet, or the whole run into a store.

        What the store has already is compared and not sent again, so this also finishes what a run
        could not store.

        Exit status: 0 all is written, and what went into a store was read back and compared; 1 a
        store lacks something; 2 nothing was done.
        """,
    ),
    (
        "stores:fetch",
        "fetch",
        """Bring a run from a store into a directory that `report` and `compare` read.

        Every file is compared with the digests that the run made of it. What a store holds is only
        data: nothing in it is executed, and no path leads out of the directory.

        Exit status: 0 all files are what they should be, 1 some are not, or the store
        is away, 2 there is no such run.
        """,
    ),
    (
        "cost:cost",
        "cost",
        """Estimate what a profile would cost on a rented machine, before anything is rented.

        Price per hour × time, as a low, an expected and a high figure, of every machine that would
        do. Prices come from SkyPilot's catalogue on this disk, times from earlier runs of the same
        cells, else from the plan. With --max-cost it is a gate.

        Exit status: 0 the estimate was made and is not above the ceiling, 2 it cannot be made, 3 it
        is above.
        """,
    ),
    (
        "cloud:launch",
        "launch",
        """Run a profile on a rented machine: price first, results home, machine gone.

        Shows what it may cost and asks, hires the machine, shows its progress, brings the results
        home, verifies them by digest, ends the machine at once and says what it cost. Its idle
        timer is armed from the start. Ctrl-C asks whether to stop it or to leave it running. With
        --managed, another machine goes on where one is taken away.
        Needs SkyPilot: pip install 'skymark[cloud]'.

        Exit status: 0 all is well, 1 the machine or a cell failed or the time was up, 2 bad usage,
        nothing was hired, 3 too dear, or not agreed to, 130 interrupted, and the machine is gone.
        """,
    ),
    (
        "cloud:execute",
        "exec",
        """Run other scenarios or adapters on a machine that `launch --keep` left, without set-up.

        The source as it is here is sent again; results come home as with `launch`. The machine
        stays, and its idle timer too. With --grid workers=1,4,16 there is a run for each value, all
        queued at once, with a directory each.

        Exit status: 0 all is well, 1 the machine or a cell failed or the time was up, 2 bad usage
        or no such machine, nothing was queued, 130 interrupted.
        """,
    ),
    (
        "rehearse:rehearse",
        "rehearse",
        """Do all that `launch` does on a machine simulated here, for nothing.

        Needs Linux and root. SkyPilot is the real one, with SSH, set-up, run, retrieval and
        teardown; the provider and its machines are simulated. Then it says what the run would have
        cost, and what it changed on this machine and undid. Its figures are no measurements.
        Takes the options of `launch`.

        Exit status: that of `launch`; 2 this machine cannot hold a rehearsal, 1 it did not come up.
        """,
    ),
    (
        "machines:status",
        "status",
        "List the machines that are running, and what they cost; asks their providers.",
    ),
    ("machines:queue", "queue", "List a machine's jobs, the newest first."),
    (
        "machines:logs",
        "logs",
        """Show a job's output from its beginning, until it ends.

        Ctrl-C ends the showing, not the job.
        """,
    ),
    (
        "machines:rsync",
        "rsync",
        """Copy files from a machine or to one: skymark rsync CLUSTER:PATH DIRECTORY.

        A path without a leading slash is below the machine's home; runs lie in skymark-results.
        """,
    ),
    (
        "machines:down",
        "down",
        """End machines, and return when their provider has none of them left.

        Exit status: 0 none is left, 1 one is still there; its id and price are printed.
        """,
    ),
    ("venvs:env", "env", "List, build or remove the adapters' venvs."),
    (
        "doctor:doctor",
        "doctor",
        """Tell what would disturb a measurement on this machine, and what to do about it.

        With --cloud: which providers can be used, where the others' credentials go and the least
        that they must allow, and which rented machines are left over, with their price. Exit status
        1 if one is, or if nothing can be hired.
        """,
    ),
)
"""Module and function, name, help. The help stands here, so that it needs no command's module."""

GROUPS = {
    "Measure on this machine": ("run", "plan", "list", "env", "doctor"),
    "Use results": ("report", "compare", "export", "fetch"),
    "Measure on rented machines": (
        "cost", "launch", "exec", "status", "queue", "logs", "rsync", "down", "rehearse",
    ),
}  # fmt: skip
"""What help shows together, in this order."""


def shown_default(value: object) -> str | None:
    """Return a default as help shows it; None, nothing and no go without saying."""
    if value in (None, False, ()):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


app = App(
    name="skymark",
    help="Compare data-loading libraries, with proof that they did the same work.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=shown_default),
)
commands = {name: (module, text) for module, name, text in COMMANDS}
for title, names in GROUPS.items():
    group = Group.create_ordered(title)
    for place, name in enumerate(names):
        module, text = commands[name]
        where = f"skymark.cli.{module}"
        app.command(where, name=name, help=cleandoc(text), group=group, sort_key=place)
app["--help"].help = "Show this message, or a command's: skymark run --help."
app["--version"].help = "Show skymark's version."
app["--help"].group = app["--version"].group = Group.create_ordered("Help")


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
        say(str(error))
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
    # A command makes objects and ends: to look for cycles among ten thousand records takes a good
    # part of its time and frees next to nothing.
    gc.set_threshold(200_000, 50, 50)
    sys.exit(main())
