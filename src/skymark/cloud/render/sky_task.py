"""The SkyPilot YAML of an order: the task that `skymark launch` would hand to SkyPilot."""

from __future__ import annotations

from pathlib import Path

from skymark.cloud.machine_script import plan_file
from skymark.cloud.order import Order
from skymark.cloud.render.manifest import yaml_text
from skymark.cloud.sky.tasks import make_task, send_files, set_limits
from skymark.model.plan import Plan


def sky_text(order: Order, plan: Plan, plan_path: Path) -> str:
    """Return the YAML of an order, without secrets.

    Args:
        order: the machine and the run.
        plan: what is run.
        plan_path: its file, which SkyPilot sends along.

    Raises:
        UsageError: the machine's YAML is wrong, or its machine is not to be had as ordered.
    """
    task = make_task(order)
    set_limits(task, order.deadline_s, None)
    send_files(task, {plan_file(order.run_id): plan_path.absolute()})
    fields = {name: value for name, value in task.to_yaml_config().items() if value}
    fields.pop("_user_specified_yaml", None)  # SkyPilot's note of the file that it was made from
    return yaml_text(
        fields,
        [
            f"The job that `skymark launch {order.profile}` starts: {len(plan.runnable)} cells",
            f"Results: ~/results/{order.run_id} on the machine; `skymark launch` brings them home",
            "and ends the machine, `sky launch FILE.yaml --down` does the latter alone.",
            "Secrets are not in here: add --secret NAME for each to `sky launch`.",
        ],
    )
