"""SkyPilot tasks that start slot workers on a cluster that is there."""

from __future__ import annotations

from typing import Any

from skymark.cloud.machine_script import machine_variables, script
from skymark.cloud.order import Order
from skymark.cloud.sky.catalogue import gpu_bytes
from skymark.cloud.sky.client import sdk
from skymark.cloud.sky.tasks import arm_timer, part_of
from skymark.cloud.slots import Cards, SlotJob
from skymark.cloud.submission import within

SLOTS = """\
set -- --plan "$SKYMARK_PLAN" --share --output ~/results/"$SKYMARK_RUN_ID"
while read -r store; do set -- "$@" ${store:+--store "$store"}; done <<< "$SKYMARK_STORES"
while read -r group; do set -- "$@" ${group:+--group "$group"}; done <<< "$SKYMARK_GROUPS"
ln -sfn "$SKYMARK_RUN_ID" ~/results/latest
workers=()
trap 'kill -TERM "${workers[@]}"' TERM
for slot in $(seq "$SKYMARK_SLOTS"); do
  skymark run "$@" > >(sed --unbuffered "s/^/slot $slot: /") 2>&1 &
  workers+=("$!")
done
status=0
for worker in "${workers[@]}"; do
  while kill -0 "$worker" 2>/dev/null; do wait "$worker" || status=$?; done
done
exit "$status"
"""
"""Starts the workers and waits for all: one that ends badly stops no other."""


def make_slot_task(order: Order, job: SlotJob, name: str, launched: Any) -> Any:
    """Return the task of a job that starts slot workers of a run.

    Args:
        order: the run; the source of its submission is there already.
        job: how many workers, and what of the cards they have.
        name: the job's, which no other job of the run has.
        launched: SkyPilot's resources of the machine.

    Raises:
        UsageError: the machine has not what the job takes of it.
    """
    assert order.submission is not None, "slot workers run the source that is sent with them"
    run = within(order.submission, SLOTS)
    task = sdk().Task(name=name, run=arm_timer(order) + script(None, run), num_nodes=1)
    kind = next(iter(launched.accelerators or {}), None)
    task.set_resources(part_of(launched, None if kind is None else {kind: job.cards}))
    task.update_envs(
        {
            **order.variables,
            **machine_variables(order),
            "SKYMARK_PART": name,
            "SKYMARK_SLOTS": str(job.slots),
            "SKYMARK_GROUPS": "\n".join(job.groups),
            "SKYMARK_GPU_FRACTION": f"{job.fraction:g}",
        }
    )
    return task


def cards_of(launched: Any) -> Cards | None:
    """Return the accelerators of each machine of a cluster; None where it has none.

    Their memory is what the cloud's catalogue says; a cluster of one's own has no catalogue.
    """
    there = launched.accelerators or {}
    kind = next(iter(there), None)
    if kind is None:
        return None
    cloud = str(launched.cloud).casefold()
    return Cards(kind=kind, count=int(there[kind]), bytes_each=gpu_bytes(kind, cloud))
