"""A plan that several managed jobs share: each takes a part, and is left to itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from skymark.cloud.errors import CloudError, StillBillingError
from skymark.cloud.lifecycle.leaving import ended_where_not_hired
from skymark.cloud.lifecycle.managed_place import ManagedPlace
from skymark.cloud.lifecycle.screen import Screen
from skymark.cloud.lifecycle.stages import Finished, Quoted
from skymark.cloud.part_jobs import part_job_name
from skymark.model.errors import UsageError


def part_orders(whole: Quoted, key: str, attempts: Mapping[int, int]) -> list[Quoted]:
    """Return what each of several jobs is to do, and may cost, of what was quoted for all.

    All have the run, the plan and the store of the whole, as machines of one cluster have.

    Args:
        whole: quoted for as many jobs as there are attempts.
        key: of the submission.
        attempts: by part of the plan, of `skymark.cloud.part_jobs.outstanding_parts`.
    """
    order, quote = whole.order, whole.quote
    assert quote is not None
    most_usd = order.max_cost_usd
    parts = order.parts
    alone = [
        quote.duration.model_copy(update={"running": one, "each": ()})
        for one in quote.duration.each
    ]
    return [
        replace(
            whole,
            order=order.model_copy(
                update={
                    "cluster": part_job_name(order.run_id, key, part, parts, attempt),
                    "part": part,
                    "max_cost_usd": None if most_usd is None else most_usd / len(attempts),
                }
            ),
            quote=quote.model_copy(update={"num_nodes": 1, "duration": duration}),
        )
        for (part, attempt), duration in zip(attempts.items(), alone, strict=True)
    ]


def submit_parts(parts: Sequence[Quoted], screen: Screen, going: list[Quoted]) -> list[str]:
    """Begin managed jobs in order, and return when all have a machine, or could not get one.

    After the first that SkyPilot does not take no further one is asked for; those before it go on.
    A job that gets no machine in time, or a dearer one than was agreed on, is ended.

    Args:
        parts: of `part_orders`.
        screen: told how it goes.
        going: gets the jobs that are on their way; right also where this raises.

    Returns:
        Why some were not begun, or were ended; empty where all are on their way.

    Raises:
        KeyboardInterrupt: the one that was being asked for is ended; others go on.
    """
    problems: list[str] = []
    places: dict[str, ManagedPlace] = {}
    for quoted in parts:
        place = ManagedPlace()
        try:
            with ended_where_not_hired(quoted.order, place, screen):
                place.submit(quoted, screen)
        except (CloudError, UsageError) as error:
            problems.append(str(error))
            break
        places[quoted.order.cluster] = place
        going.append(quoted)
    with ExitStack() as timers:
        for quoted in going:
            timers.enter_context(places[quoted.order.cluster].early_timers(quoted.order))
        for quoted in tuple(going):
            place = places[quoted.order.cluster]
            try:
                place.await_machine(quoted, screen)
            except CloudError as error:
                problems += [str(error), *_ended(quoted, place, screen)]
                going.remove(quoted)
    return problems


def _ended(quoted: Quoted, place: ManagedPlace, screen: Screen) -> list[str]:
    """End a job; returns what is wrong where its machine is not proved gone."""
    try:
        place.end(Finished(quoted.order, begun=False), screen)
    except StillBillingError as error:
        return [str(error)]
    return []
