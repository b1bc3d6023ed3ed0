"""Show the ends of runs on rented machines: results, cost, what went wrong, and what to do next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.cli.caller import INTERRUPTED, note, print_json, say
from skymark.model.record import is_well

if TYPE_CHECKING:
    from skymark.cloud import Ended, Kept, Left, Retrieved
    from skymark.cloud.rented_run import RentedRun


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
    from skymark.cloud import Kept, Left

    if isinstance(ended, Left):
        run = ended.run
        return {"end": "left", "run_id": run.run_id, "machine": run.name, "stores": run.stores}
    told: dict[str, object] = {**retrieved_json(ended.retrieved), "stores": ended.run.stores}
    if isinstance(ended, Kept):
        price = {"hourly_price_usd": ended.hourly_price_usd, "idle_minutes": ended.idle_minutes}
        return {"end": "kept", **told, **price}
    gone = ended.gone_after_s is not None or ended.retrieved.gone
    return {"end": "ended", **told, "machine_gone": gone, "bill": ended.bill}


@contextmanager
def results_alone(*, json: bool) -> Iterator[None]:
    """Keep standard output for JSON: tables meanwhile go to standard error."""
    with redirect_stdout(sys.stderr) if json else nullcontext():
        yield


def show_end(ended: Ended | Kept | Left, output: Path, *, json: bool = False) -> int:
    """Show the results, the cost and what went wrong; returns the exit status."""
    from skymark.cloud import Left

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
    from skymark.cli.grid import print_points
    from skymark.cli.results import show, write_page
    from skymark.cloud import Kept
    from skymark.rundir.reader import open_run

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
    from skymark.cloud.rented_run import stores_that_last

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
    from skymark.cloud import JobEnd

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
