"""Runs on rented machines in a terminal: progress, questions, and what each run ends with."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from skymark.cli.caller import INTERRUPTED, ask, end_when_told, is_quiet, note, print_json, say
from skymark.cli.console import plain_stream
from skymark.cli.grid import print_points
from skymark.cli.results import show, write_page
from skymark.cloud import (
    Callbacks,
    Ended,
    InterruptAnswer,
    JobEnd,
    Kept,
    Left,
    Quoted,
    Retrieved,
)
from skymark.cloud.rented_run import RentedRun, stores_that_last
from skymark.cloud.sent_files import SentFiles
from skymark.cloud.source import SentSource
from skymark.model.errors import GateError, UsageError
from skymark.model.record import is_well
from skymark.model.sizes import count_of, some_of
from skymark.report.text import size
from skymark.rundir.reader import open_run


class Terminal(Callbacks):
    """The terminal of a command; once something is begun, it may be closed."""

    def __init__(
        self,
        output: Path | None = None,
        show: Callable[[Any], None] = lambda _: None,
        *,
        json: bool = False,
        yes: bool = False,
        log: TextIO | None = None,
        command: Sequence[str] = (),
    ) -> None:
        """Show prices in a command's own way.

        Args:
            output: directory of runs, for the messages after the terminal is closed; None for a
                command that ends with its terminal.
            show: prints a run's price.
            json: print the price on standard error, because standard output is for JSON.
            yes: do not ask about it.
            log: gets the output of machines; None for standard error.
            command: words of the user's own command, whose files are looked for.
        """
        super().__init__(plain_stream(log or sys.stderr), agrees=yes)
        self._command = command
        self._output = output
        self._show = show
        self._json = json
        self._tell: Callable[[str], None] = say

    def tell(self, text: str) -> None:
        """Print a line of progress."""
        if not is_quiet():
            self._tell(text)

    def sends(self, source: SentSource) -> None:
        """Print which named files a machine gets, and which files stay here."""
        if count := len(source.named.files):
            names = some_of(list(source.named.files))
            say(f"sends {count_of(count, 'named file')}, {size(source.size_bytes)}: {names}")
        _say_what_stays(source.left)
        for word in self._command:
            path = Path(word)
            sent = source.directory is not None and (source.directory / path).exists()
            if path.is_file() and not path.is_absolute() and not sent:
                say(f"{word} is a file here that is not sent; --sync {word} sends it")

    def show(self, quoted: Quoted) -> None:
        """Print a run's price."""
        with results_alone(json=self._json):
            self._show(quoted)

    def agree(self, quoted: Quoted) -> bool:
        """Ask whether the price is right.

        Raises:
            UsageError: nobody can be asked.
            GateError: the answer is no.
        """
        if super().agree(quoted):
            return True
        if not sys.stdin.isatty():
            raise UsageError("nothing was rented: there is no terminal to ask at; add --yes")
        if ask("Rent it? [y/N] ") not in {"y", "yes"}:
            raise GateError("nothing was rented")
        return True

    def begin(self, run_id: str) -> None:
        """Outlive the terminal, and end what is begun when told to."""
        end_when_told()
        if self._output is None:
            return
        log = self._output / f"{run_id}.log"
        hangup = Hangup(log)
        hangup.outlive()
        say(f"should this terminal be closed, it goes on, with its output in {log}")
        self._tell = hangup.say

    def choose(self, run: RentedRun) -> InterruptAnswer:
        """Ask what is to become of the machine; without a terminal it is stopped."""
        if not sys.stdin.isatty():
            return InterruptAnswer.STOP
        answer = ask(f"\nStop {run.name}, or leave it running? [S/l] ")
        return InterruptAnswer.LEAVE if answer in {"l", "leave"} else InterruptAnswer.STOP


def _say_what_stays(left: SentFiles) -> None:
    if left.untracked:
        say(
            f"not sent, because git does not track them: {some_of(left.untracked)}; use `git add`, "
            "or --sync for files that the job needs"
        )
    if left.links:
        say(f"not sent, because they are links to other files, or no files: {some_of(left.links)}")


class Hangup:
    """The end of this process's terminal, which it outlives."""

    def __init__(self, log: Path) -> None:
        """Name the file that gets the output then; it is not made before."""
        self._log = log

    def outlive(self) -> None:
        """Go on when told that the terminal is gone; under nohup that is so already."""
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._go_on)

    def say(self, text: str) -> None:
        """Print a message; where nobody can be told any more, write it into the file."""
        try:
            say(text)
        except OSError:
            self._write_into_log()
            say(text)

    def _go_on(self, signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._write_into_log()
        os.write(2, b"skymark: the terminal was closed; going on\n")  # print may be at work

    def _write_into_log(self) -> None:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError:
            log = os.open(os.devnull, os.O_WRONLY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for stream, file in ((0, nothing), (1, log), (2, log)):
            os.dup2(file, stream)
        os.close(log)
        os.close(nothing)


def retrieved_json(retrieved: Retrieved) -> dict[str, object]:
    """Return the results that came home, and what went wrong, for JSON."""
    finished, results = retrieved.finished, retrieved.results
    return {
        "run_id": finished.run.run_id,
        "machine": finished.run.name,
        "interrupted": finished.interrupted,
        "results": results,
        "whole": results is not None and results.whole,
        "problems": [*finished.problems, *retrieved.problems],
    }


def end_json(ended: Ended | Kept | Left) -> dict[str, object]:
    """Return the end of a run on rented machines for JSON: ``ended``, ``kept`` or ``left``."""
    if isinstance(ended, Left):
        run = ended.run
        return {"end": "left", "run_id": run.run_id, "machine": run.name, "stores": run.stores}
    told: dict[str, object] = {**retrieved_json(ended.retrieved), "stores": ended.run.stores}
    if isinstance(ended, Kept):
        price = {"hourly_price_usd": ended.hourly_price_usd, "idle_minutes": ended.idle_minutes}
        return {"end": "kept", **told, **price}
    gone = ended.gone_after_s is not None or ended.retrieved.gone
    return {"end": "ended", **told, "machine_gone": gone, "bill": ended.bill}


def results_alone(*, json: bool) -> AbstractContextManager[object]:
    """Keep standard output for JSON: tables meanwhile go to standard error."""
    return redirect_stdout(sys.stderr) if json else nullcontext()


def show_end(ended: Ended | Kept | Left, output: Path, *, json: bool = False) -> int:
    """Show the results, the cost and what went wrong; returns the exit status."""
    with results_alone(json=json):
        if isinstance(ended, Left):
            _say_how_to_come_back(ended.run, output)
            status = 0
        else:
            status = _show({"": ended}, output, in_points=False)
    if json:
        print_json(end_json(ended))
    return status


def show_grid(ended: Mapping[str, Ended | Kept], output: Path, *, json: bool = False) -> int:
    """Show the runs of a grid by point, and what went wrong; returns the exit status."""
    with results_alone(json=json):
        status = _show(ended, output, in_points=True)
    if json:
        print_json({point: end_json(over) for point, over in ended.items()})
    return status


def _show(ended: Mapping[str, Ended | Kept], output: Path, *, in_points: bool) -> int:
    """Show runs by point, or a single one by itself; returns the exit status."""
    runs = {
        point: open_run(over.results.directory)
        for point, over in ended.items()
        if over.results is not None and over.results.records
    }
    if in_points:
        print_points(runs)
    for run in runs.values():
        if not in_points:
            show(run, json=False)
        note(f"results in {run.directory}; {write_page(run)}")
    for point, over in ended.items():
        if point not in runs and over.results is not None and over.results.directory.exists():
            note(f"the finished cells are in {over.results.directory}")
        for problem in over.problems:
            say(f"{over.run.run_id}: {problem}" if in_points else problem)
    if len(runs) > 1:
        before, after, *_ = (run.directory for run in runs.values())
        say(f"compare two: skymark compare {before} {after} --across cells")
    for over in ended.values():
        _say_how_to_store(over)
        if isinstance(over, Kept):
            _say_what_is_kept(over, output)
    *_, last = ended.values()
    if not isinstance(last, Kept):
        _say_what_became_of(last, output)
    if any(over.interrupted for over in ended.values()):
        return INTERRUPTED
    good = all(is_well(run.records) for run in runs.values())
    return 0 if good and all(over.all_well for over in ended.values()) else 1


def _say_what_became_of(ended: Ended, output: Path) -> None:
    """Print the cost of a machine that is gone, or how to come back to one that stays."""
    if ended.gone_after_s is None and not ended.retrieved.gone:
        _say_how_to_come_back(ended.run, output)
    elif ended.bill is not None:
        say(f"{ended.run.name} cost {ended.bill.in_words}")


def _say_what_is_kept(kept: Kept, output: Path) -> None:
    """Name a machine that has what is verified nowhere else, with all that is to be known."""
    name, price_usd = kept.run.name, kept.hourly_price_usd
    price = "AT AN UNKNOWN PRICE" if price_usd is None else f"AT ${price_usd:.2f}/h"
    more = ""
    if price_usd is not None:
        usd = price_usd * (kept.idle_minutes + 1) / 60
        more = f" That costs {usd:.2f} USD more."
    say(
        f"{name} IS KEPT {price}, because its results are verified nowhere else. It ends itself "
        f"after {kept.idle_minutes} idle min, and they go with it.{more}\n"
        f"  fetch:   {how_to_collect(kept.run, output)}\n"
        f"  end:     skymark down {name}"
    )


def _say_how_to_come_back(run: RentedRun, output: Path) -> None:
    name = run.name
    if run.lasting_store is not None:
        say(
            f"{name} goes on, and ends its machine itself\n"
            f"  watch:   skymark logs {name}\n"
            f"  fetch:   skymark fetch {run.lasting_store}/{run.run_id} DIRECTORY\n"
            f"  end:     skymark down {name}"
        )
        return
    for store in stores_that_last(run.stores):
        note(f"stored in {shlex.quote(f'{store}/{run.run_id}')}, cell by cell")
    say(
        f"{name} is up, and ends itself after {run.idle_minutes} idle min\n"
        f"  watch:   skymark logs {name}\n"
        f"  fetch:   {how_to_collect(run, output)}\n"
        f"  more:    skymark exec {name} --scenarios …\n"
        f"  end:     skymark down {name}"
    )


def _say_how_to_store(over: Ended | Kept) -> None:
    """Print the commands that put into its stores what came home without them."""
    if over.retrieved.finished.end is not JobEnd.UNSTORED or over.results is None:
        return
    directory = shlex.quote(str(over.results.directory))
    for store in over.run.stores:
        say(f"NOT STORED in {store}; finish with: skymark export {directory} --to {store}")


def how_to_collect(run: RentedRun, output: Path) -> str:
    """Return the command that brings the results of a run home."""
    if run.lasting_store is not None:
        directory = shlex.quote(str(output / run.run_id))
        return f"skymark fetch {run.lasting_store}/{run.run_id} {directory}"
    return f"skymark collect {run.name} {run.run_id} --output {shlex.quote(str(output))}"
