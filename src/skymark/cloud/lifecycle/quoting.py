"""Prices of runs before and after renting: the quote, its ceiling, and the price agreed on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from skymark.cloud.cost.bill import billed_time, ending, set_up_time
from skymark.cloud.cost.quote import (
    Offer,
    Quote,
    as_given,
    at_most,
    check_ceiling,
    quote_for,
    with_slots,
    workers_of,
)
from skymark.cloud.known_machines import RentedMachines, note_rented, rented
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.rented_run import (
    KEPT_IDLE_MINUTES,
    RentedRun,
    limit_s,
    machine_file,
    secrets_of,
    sharing_of,
    split_of_machines,
)
from skymark.cloud.sky.catalogue import (
    accelerators_text,
    at_told_price,
    gpu_bytes,
    prices_for,
    with_told_prices,
)
from skymark.cloud.sky.clusters import hourly_price_usd, rented_machines
from skymark.cloud.sky.internals import OWN_CLUSTERS, withhold_provider_keys
from skymark.cloud.sky.providers import enabled_clouds
from skymark.cloud.sky.tasks import machine_task, make_task
from skymark.execute.slots import Cards, SlotJob, group_bytes, slot_jobs, working_cards
from skymark.model.duration import NOTHING
from skymark.model.errors import CloudError, GateError, UsageError
from skymark.model.plan import Plan
from skymark.model.requests import Machine
from skymark.rundir.history import PastRun, read_history
from skymark.suite.registry import suite_named

TOLERANCE = 0.1
"""Share by which a price may be above what was agreed."""


class Slots(NamedTuple):
    """Workers that share the GPUs of a machine."""

    working: int
    """GPUs that have one; 0 where the machine has none."""
    workers: int


def quote_machines(
    plan: Plan,
    profile: str,
    machine: Machine,
    deadline_s: int | None,
    split: str | None,
    history: Sequence[PastRun],
    tell: Callable[[str], None],
) -> Quote:
    """Return the cost of a plan wherever a price is known, credentials or not; asks no provider.

    Args:
        plan: the cells.
        profile: a name, or a ``.toml`` file.
        machine: the request.
        deadline_s: of set-up and run together.
        split: the way the machines share the plan.
        history: earlier runs.
        tell: told of a catalogue that is fetched.

    Raises:
        UsageError: no price is known, or the machine's YAML is wrong.
    """
    sharing = split_of_machines(split, machine.nodes)
    path = machine_file(profile, machine.file, machine.image)
    task = machine_task(path, machine, split or sharing.kind)
    return quote_for(
        prices_for(task, tell=tell),
        plan,
        machine.nodes,
        history=history,
        deadline_s=deadline_s,
        split=sharing,
    )


def cheapest_offer(
    profile: str, machine: Machine, tell: Callable[[str], None] = lambda _: None
) -> Offer:
    """Return the cheapest machine that would do for a profile, by SkyPilot's catalogue.

    Raises:
        UsageError: SkyPilot is not installed, or no price is known.
    """
    path = machine_file(profile, machine.file, machine.image)
    return prices_for(machine_task(path, machine), tell=tell).offers[0]


def quote_run(
    run: RentedRun,
    plan: Plan,
    results: Path,
    variables: Mapping[str, str],
    parts: Collection[int] | None = None,
) -> Quoted:
    """Check a run and price it; rents nothing.

    Args:
        run: the machine, the work and its limits.
        plan: the cells that run there.
        results: directory of earlier runs, which tell how long cells take.
        variables: the caller's, for secrets.
        parts: of the plan, each a job on a machine of its own; price and ceiling are of all of
            them, the limit in time is of each. None for one job.

    Raises:
        UsageError: no credentials, no such machine, a wrong YAML.
        GateError: it may cost more than the ceiling.
    """
    task, most_usd = make_task(run), run.limits.max_cost_usd
    clouds = enabled_clouds(run.machine.infra, variables)
    withhold_provider_keys(clouds)
    history = read_history(results, plan)
    quote = quote_for(
        with_told_prices(prices_for(task, clouds)),
        plan,
        run.machine.nodes,
        history=history,
        deadline_s=run.limits.deadline_s,
        idle_minutes=run.idle_minutes,
        stays=run.machine.stays,
        split=sharing_of(run.job, run.machine, run.parts),
        parts=parts,
    )
    if run.machine.idle:
        idle = ending(run.idle_minutes, stays=True, runs=False)
        duration = quote.duration.model_copy(update={"running": NOTHING, "ending": idle})
        quote = quote.model_copy(update={"duration": duration, "workers": None})
    if run.job.all_gpus:
        quote = quote.model_copy(update={"ceiling_ends_it": most_usd is not None})
        if (cards := cards_of_offer(quote.cheapest)) is not None:
            jobs = slot_jobs(group_bytes(plan), cards, run.job.gpu_fraction)
            slots = slots_of(jobs, cards)
            quote = with_slots(quote, plan, history, *slots)
    allowed = list(quote.offers) if most_usd is None else check_ceiling(quote, most_usd)
    around_s = quote.duration.provisioning.high_s + quote.duration.ending.high_s
    hourly_usd = max(offer.hourly_price_usd for offer in allowed) * quote.num_nodes
    seconds = limit_s(run.limits, hourly_usd, around_s)
    if quote.ceiling_ends_it:
        require_time_for(quote, seconds, hourly_usd, around_s)
        quote = quote.model_copy(update={"deadline_s": seconds})
    return Quoted(
        run,
        plan,
        secrets_of(run.stores, run.job, plan, variables),
        seconds,
        quote,
        None if most_usd is None else _highest_for_skypilot(allowed),
        None if run.machine.idle or run.job.all_gpus else on_all_gpus(quote, plan, history),
    )


def require_time_for(
    quote: Quote, seconds: float | None, hourly_price_usd: float, around_s: float
) -> None:
    """Refuse a ceiling that may end a run before its expected end.

    Args:
        quote: of the run.
        seconds: that set-up and run may take.
        hourly_price_usd: of all machines together.
        around_s: paid for besides, at worst.

    Raises:
        GateError: the ceiling is too low.
    """
    work_s = quote.duration.work.expected_s
    if seconds is None or seconds >= work_s:
        return
    needed_usd = (work_s + around_s) / 3600 * hourly_price_usd
    raise GateError(
        f"the ceiling or the deadline may end set-up and run after {seconds:.0f} s, and they are "
        f"expected to take {work_s:.0f} s; give --max-cost {at_most(needed_usd)} or more, and no "
        "shorter --deadline"
    )


def quote_there(
    run: RentedRun,
    plan: Plan,
    history: Sequence[PastRun],
    machine: Offer | None,
    variables: Mapping[str, str],
    slots: Slots | None = None,
) -> Quoted:
    """Price a run on a machine that is there, until that ends itself.

    The ceiling limits the time: what is not measured when it is used up is left over.

    Args:
        run: with its limits.
        plan: its cells.
        history: earlier runs.
        machine: of `machine_there`; None where its price is not known.
        variables: the caller's, for secrets.
        slots: workers that share its GPUs; None for one job.

    Raises:
        GateError: the run is expected to cost more than the ceiling.
    """
    secrets, limits = secrets_of(run.stores, run.job, plan, variables), run.limits
    if machine is None:
        return Quoted(run, plan, secrets, limits.deadline_s)
    set_up = NOTHING.model_copy(update={"high_s": set_up_time(plan).high_s})  # of new venvs
    duration = billed_time(plan, set_up, history, run.sharing, run.idle_minutes, stays=True)
    quote = Quote(
        profile=plan.profile,
        num_nodes=run.machine.nodes,
        deadline_s=None,
        offers=(machine,),
        duration=duration.model_copy(update={"provisioning": NOTHING}),
        catalogue_date=None,
        workers=workers_of(plan, machine),
        cluster=run.name,
        ceiling_ends_it=True,
    )
    if slots is not None:
        quote = with_slots(quote, plan, history, *slots)
    hourly_usd = machine.hourly_price_usd * run.machine.nodes
    seconds = limit_s(limits, hourly_usd, quote.duration.ending.high_s)
    if limits.max_cost_usd is not None:
        bounded = quote.model_copy(update={"deadline_s": limits.deadline_s})
        check_ceiling(bounded, limits.max_cost_usd)
    return Quoted(run, plan, secrets, seconds, quote.model_copy(update={"deadline_s": seconds}))


def on_all_gpus(
    quote: Quote, plan: Plan, history: Sequence[PastRun], *, bounded: bool = False
) -> Quote | None:
    """Return the quote for workers on all GPUs of a machine; None where they would be no more.

    Args:
        quote: of one process.
        plan: the cells.
        history: earlier runs.
        bounded: whether the deadline is theirs, too; a profile's is for one process.
    """
    slots = slots_on(plan, quote.cheapest) if quote.num_nodes == 1 else None
    if slots is None or slots.working == 1:
        return None
    duration = quote.duration.model_copy(update={"ending": ending(KEPT_IDLE_MINUTES, stays=True)})
    changes: dict[str, object] = {"duration": duration, "ceiling_ends_it": True}
    if not bounded:
        changes["deadline_s"] = None
    return with_slots(quote.model_copy(update=changes), plan, history, *slots)


def cards_of_offer(machine: Offer) -> Cards | None:
    """Return the GPUs of a machine that is to be had; None where it has none."""
    kind, count = machine.gpus
    if not count:
        return None
    return Cards(kind=kind, count=count, bytes_each=gpu_bytes(kind, machine.cloud))


def slots_on(plan: Plan, machine: Offer) -> Slots | None:
    """Return the workers of `submit` that use all GPUs of a machine; None where one process does.

    Raises:
        UsageError: a group fits on no GPU.
    """
    alone = machine.gpus[1] < 2 or plan.platform == "cpu" or not plan.runnable
    if alone or not suite_named(plan.suite).shares_machine:
        return None
    cards = cards_of_offer(machine)
    assert cards is not None, "it has two GPUs or more"
    return slots_of(slot_jobs(group_bytes(plan), cards), cards)


def slots_of(jobs: Sequence[SlotJob], cards: Cards | None) -> Slots:
    """Return the workers of jobs on a machine's GPUs."""
    working = 0 if cards is None else working_cards(jobs, cards)
    return Slots(working, sum(job.slots for job in jobs))


def machine_there(cluster: str, handle: Any, max_cost_usd: float | None = None) -> Offer | None:
    """Return an existing machine at its rent price; None if that is unknown.

    Args:
        cluster: its name.
        handle: SkyPilot's of it.
        max_cost_usd: the user's ceiling, which needs a price.

    Raises:
        UsageError: the machine has no price for the ceiling.
    """
    launched, noted = handle.launched_resources, rented(cluster)
    cloud = str(launched.cloud).casefold()
    own = cloud in OWN_CLUSTERS
    usd = hourly_price_usd(handle)
    if noted is not None and noted.hourly_price_usd is not None:
        usd = noted.hourly_price_usd
    if usd is None and not own:
        if max_cost_usd is not None:
            raise UsageError(
                f"the price of {cluster} is not known, so --max-cost {as_given(max_cost_usd)} "
                "cannot be kept; give --deadline in its place"
            )
        return None
    told = noted is not None and noted.price_from == "provider"
    return Offer(
        cloud=cloud,
        region=launched.region,
        instance_type=launched.instance_type or "own machine",
        accelerators=accelerators_text(launched.accelerators),
        spot=bool(launched.use_spot),
        hourly_price_usd=0.0 if usd is None else usd / int(handle.launched_nodes),
        price_from="own" if own else "provider" if told else "catalogue",
    )


def ordered_machines(quoted: Quoted) -> RentedMachines:
    """Return what is known of machines before they are rented: the price of the cheapest offer."""
    name, nodes, quote = quoted.name, quoted.run.machine.nodes, quoted.quote
    if quote is None:
        return RentedMachines(name=name, cluster=name, nodes=nodes)
    cheapest = quote.cheapest
    return RentedMachines(
        name=name,
        cluster=name,
        kind=f"{nodes} × {cheapest.instance_type} of {cheapest.cloud} or the like",
        nodes=nodes,
        hourly_price_usd=cheapest.hourly_price_usd * nodes or None,
    )


def note_machines(quoted: Quoted, cluster: str) -> RentedMachines:
    """Note machines that were rented, at the price that their provider tells; return their facts.

    Args:
        quoted: what was agreed on.
        cluster: their name with SkyPilot.
    """
    machines = ordered_machines(quoted)
    with suppress(CloudError):  # else they are asked for again when they are ended
        known = rented_machines(cluster, machines.name)
        machines = machines if known is None else known.with_what_was_told(machines)
        note_rented(machines)
        machines = at_told_price(machines)
        note_rented(machines)
    return machines


def check_price(quoted: Quoted, machines: RentedMachines) -> None:
    """Refuse machines that cost more than agreed, or that the quote did not include.

    SkyPilot takes a catalogue's price of 0 as the cheapest; the quote takes it as missing.

    Raises:
        CloudError: they are dearer, or not in the quote.
    """
    quote, kind = quoted.quote, machines.instance_type
    if quote is None or kind is None or quote.cheapest.price_from == "own":
        return
    ceiling_usd = quoted.run.limits.max_cost_usd
    each_usd = quote.agreed_price_usd(kind, ceiling_usd)
    if each_usd is None:
        raise CloudError(
            f"{machines.name} is {machines.kind}, at a price that was not agreed on; it is ended"
        )
    asked_usd, agreed_usd = machines.hourly_price_usd, each_usd * machines.nodes
    if asked_usd is None or asked_usd <= agreed_usd:
        return
    held = ceiling_usd is None or quote.allows(asked_usd / machines.nodes, ceiling_usd)
    if not held or asked_usd > agreed_usd * (1 + TOLERANCE):
        raise CloudError(
            f"{machines.name} costs ${asked_usd:.2f}/h, says its provider, and at most "
            f"${agreed_usd:.2f}/h was agreed on; it is ended"
        )


def _highest_for_skypilot(offers: Sequence[Offer]) -> float | None:
    """Return the price per hour of the dearest offer as SkyPilot has it; None for no limit."""
    most_usd = max(
        offer.hourly_price_usd if offer.catalogue_price_usd is None else offer.catalogue_price_usd
        for offer in offers
    )
    return most_usd or None  # your own cluster costs nothing; SkyPilot takes no 0
