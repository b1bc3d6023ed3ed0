"""`skymark cost`: the quote for a run on a rented machine, as a table, JSON or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from skymark import cloud
from skymark.cli.caller import print_json, print_plain, say
from skymark.cli.help import RARE
from skymark.cli.parameters import DIRECTORY, WHERE, ProfileName
from skymark.cli.rented_options import (
    DEFAULT_CLUSTER,
    DEFAULT_LIMITS,
    DEFAULT_OPTIONS,
    ClusterOptions,
    CostOptions,
    LimitOptions,
)
from skymark.cli.tables import Json, print_rows
from skymark.execute.project_file import results_directory
from skymark.model.errors import GateError
from skymark.model.requests import Job, Results
from skymark.model.sizes import count_of
from skymark.report.text import duration
from skymark.suite.registry import suites_with_commands

if TYPE_CHECKING:
    from skymark.cloud.cost.quote import Offer, Quote
    from skymark.model.plan import Plan

SHOWN = 10
"""Machines in a table, the cheapest ones."""


def cost(
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    where: ClusterOptions = DEFAULT_CLUSTER,
    limits: LimitOptions = DEFAULT_LIMITS,
    *,
    history: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=(WHERE, RARE),
            help="Earlier runs, whose times the estimate takes. [default: results]",
        ),
    ] = None,
    json: Annotated[Json, Parameter(group=WHERE)] = False,
    format: Annotated[
        Literal["table", "md", "github"],
        Parameter(group=WHERE, help="md or github: Markdown for a comment on a pull request."),
    ] = "table",
) -> int:
    """Estimate the price of a run on a rented machine.

    Shows a low, an expected and a high price for each machine that would do. Prices come from
    SkyPilot's catalogue on this disk, times from earlier runs of the same cells, else from the
    plan. With --max-cost the command fails if the price is higher.

    Examples:
      skymark cost cpu
      skymark cost clip_8xh100 --gpus H100:8 --max-cost 100

    Exit status: 0 the price is not above the ceiling; 2 no estimate; 3 the price is above it.
    """
    from skymark.cli.terminal import Terminal
    from skymark.cloud.cost.quote import check_ceiling
    from skymark.cloud.rented_run import idle_machines, split_of_machines

    estimate = cloud.quote(
        replace(options, profile=profile).work(),
        where.request(),
        limits.limits(),
        Results(directory=history or results_directory()),
        Job(split=where.split),
        Terminal(),
    )
    plan, quote, notes = estimate.plan, estimate.best, []
    if estimate.shared is not None:
        alone = estimate.quote.model_copy(update={"deadline_s": None})
        notes.append(
            f"These figures are of {how_to_share(plan, profile)}. `skymark launch {profile}` alone "
            f"runs one process: {alone.workers_in_words}, and all cells would cost "
            f"{alone.cost.expected_usd:.2f} USD."
        )
    elif idle := idle_machines(split_of_machines(where.split, where.num_nodes), plan):
        notes.append(idle)
    if json:
        print_json(as_json(quote))
    elif format in {"md", "github"}:
        print_plain(as_markdown(quote, limits.max_cost, notes))
    else:
        print_quote(quote, notes)
    if estimate.limits.max_cost_usd is not None:
        try:
            check_ceiling(quote, estimate.limits.max_cost_usd)
        except GateError as refusal:
            if limits.max_cost is not None:
                raise
            command = "launch" if estimate.shared is None else "submit"
            say(f"`skymark {command}` keeps to the ceiling of {profile}: {refusal}")
    return 0


def how_to_share(plan: Plan, profile: str) -> str:
    """Return the commands whose workers use all GPUs of a machine."""
    own_words = {one.name for one in suites_with_commands()}
    suite = f"{plan.suite} " if plan.suite in own_words else ""
    return (
        f"`skymark launch {profile} --idle -c NAME` and `skymark {suite}submit --cluster NAME`, "
        "whose workers use all GPUs"
    )


def as_json(quote: Quote | None) -> dict[str, object] | None:
    """Return a quote with its derived figures; None where there is none."""
    return (
        None
        if quote is None
        else {
            **quote.model_dump(mode="json", exclude={"offers"}),
            "billed": quote.billed,
            "cost": quote.cost,
            "offers": [
                {**one.model_dump(mode="json"), "cost": quote.cost_of(one)} for one in quote.offers
            ],
        }
    )


def print_quote(quote: Quote, notes: Sequence[str] = ()) -> None:
    """Print what it costs at most, the machines, and what time and prices are made of."""
    print_plain(f"{_headline(quote)}\n")
    print_rows(HEADERS, _rows(quote))
    print_plain("\n".join(("", *_parts(quote), *notes, *_notes(quote))))


def as_markdown(quote: Quote, max_cost_usd: float | None = None, notes: Sequence[str] = ()) -> str:
    """Return a quote as a comment for a pull request."""
    from skymark.report.markdown import code_span, markdown, markdown_table

    lines = [f"### What the benchmark would cost: {code_span(quote.profile)}", ""]
    if max_cost_usd is not None:
        from skymark.cloud.cost.quote import as_given, check_ceiling

        try:
            check_ceiling(quote, max_cost_usd)
            lines += [f"✅ At most {as_given(max_cost_usd)} USD, the ceiling.", ""]
        except GateError as refusal:
            lines += [f"❌ Not started: {markdown(str(refusal))}.", ""]
    lines += [markdown(_headline(quote)), ""]
    lines += markdown_table(
        [markdown(heading) for heading in HEADERS],
        [[markdown(cell) for cell in row] for row in _rows(quote)],
        len(HEADERS),
    )
    for line in (*_parts(quote), *notes, *_notes(quote)):
        lines += ["", markdown(line)]
    return "\n".join(lines)


def _headline(quote: Quote) -> str:
    """Return the time that the run is limited to, and its cost on the cheapest machine."""
    from skymark.cloud.cost.quote import at_most

    limit = "No deadline"
    if quote.deadline_s is not None:
        limit = f"Deadline of set-up and run {duration(quote.deadline_s)}"
    cost = quote.cost
    where = "on the cheapest machine"
    if quote.cluster is not None:
        where = f"on {quote.cluster}, until it ends itself"
    unless = (
        " unless --max-cost ends it before,"
        if quote.ceiling_ends_it and quote.deadline_s is None
        else ""
    )
    return (
        f"{limit}: expected {cost.expected_usd:.2f} USD, at most {at_most(cost.high_usd)} USD,"
        f"{unless} {where}."
    )


HEADERS = ("machine", "where", "", "USD/h", "low", "expected", "high USD")


def _rows(quote: Quote) -> list[tuple[str, ...]]:
    """Return one row for each machine at one price, the cheapest first."""
    return [_row(quote, same) for same in _machines(quote)[:SHOWN]]


def _machines(quote: Quote) -> list[list[Offer]]:
    """Return the offers, those together that differ in their region only."""
    places: dict[tuple[str, str, bool, float], list[Offer]] = {}
    for one in quote.offers:
        key = (one.cloud, one.instance_type, one.spot, one.hourly_price_usd)
        places.setdefault(key, []).append(one)
    return list(places.values())


def _row(quote: Quote, same: list[Offer]) -> tuple[str, ...]:
    from skymark.cloud.cost.quote import at_most

    one, cost = same[0], quote.cost_of(same[0])
    kind = (
        one.instance_type
        if one.accelerators is None
        else f"{one.instance_type} ({one.accelerators})"
    )
    where = one.cloud if one.region is None else f"{one.cloud} {one.region}"
    more = f" and {len(same) - 1} more" if len(same) > 1 else ""
    hourly = f"{one.hourly_price_usd * quote.num_nodes:.2f}"
    return (
        kind if quote.num_nodes == 1 else f"{quote.num_nodes} × {kind}",
        f"{where}{more}",
        "spot" if one.spot else "",
        hourly if one.price_from == "catalogue" else f"{hourly} ({one.price_from})",
        f"{cost.low_usd:.2f}",
        f"{cost.expected_usd:.2f}",
        at_most(cost.high_usd),
    )


def _parts(quote: Quote) -> list[str]:
    """Say what the time is made of."""
    time, billed = quote.duration, quote.billed
    parts = ", ".join(
        f"{name} {duration(span.expected_s)}"
        for name, span in (
            ("machine", time.provisioning),
            ("set-up", time.set_up),
            ("run", time.running),
            ("end", time.ending),
        )
    )
    paid = (
        f"Paid for {duration(billed.low_s)} to {duration(billed.high_s)}, expected "
        f"{duration(billed.expected_s)}: {parts}."
    )
    known = f"{time.known_cells} of {count_of(time.cells, 'cell')}"
    said = [f"{paid} Times of {known} come from earlier runs."]
    if quote.workers is not None:
        said.append(f"{quote.workers_in_words}.")
    return said


def _notes(quote: Quote) -> list[str]:
    """Say what bounds the figures, and what is uncertain about them."""
    notes = []
    if (dearer := len(_machines(quote)) - SHOWN) > 0:
        notes.append(f"{count_of(dearer, 'dearer machine')} would do too; --json lists all.")
    if quote.deadline_s is None:
        if quote.duration.known_cells < quote.duration.cells:
            notes.append(
                "Without a deadline, only the time limit of each round bounds the high figure of "
                "cells that were never run; --deadline 90m bounds all."
            )
    elif not quote.duration.fits(quote.deadline_s):
        notes.append(
            f"Set-up and run are expected to take {duration(quote.duration.work.expected_s)}, "
            f"longer than the deadline of {duration(quote.deadline_s)}: cells will be left over. "
            "Give a longer --deadline with a higher --max-cost, or fewer cells."
        )
    kind, gpus = quote.cheapest.gpus
    if gpus > 1 and quote.workers is None and quote.duration.running.expected_s:
        notes.append(
            f"Cells run one after another. Each uses at most one of the {gpus} {kind}, unless its "
            "scenario is for several GPUs."
        )
    if quote.catalogue_date is not None:
        notes.append(
            f"Prices are of SkyPilot's catalogue of {quote.catalogue_date.isoformat()}, without "
            "disk and network traffic."
        )
    if any(one.price_from == "on demand" for one in quote.offers):
        notes.append("“on demand”: the catalogue has no spot price; counted as if on demand.")
    if any(one.price_from == "own" for one in quote.offers):
        notes.append("“own”: a cluster of your own, whose price SkyPilot does not know.")
    return [*notes, *(f"No prices from {problem}" for problem in quote.problems)]
