"""The real data that the cells of a plan read, by its user's name."""

from __future__ import annotations

from skymark.cache.location import Policy
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.suite.registry import suite_named


def data_names(plan: Plan) -> list[str]:
    """Return the names of a plan's data, from `--data`."""
    suite = suite_named(plan.suite)
    names = (suite.data_of(one.cell) for one in plan.cells)
    return list(dict.fromkeys(name for name in names if name is not None))


def require_data(policy: str | None, plan: Plan) -> None:
    """Refuse a policy that keeps the data of a run for a plan that names none.

    Raises:
        UsageError: it is so.
    """
    if policy is None or not Policy(policy).needs_data_of_run or data_names(plan):
        return
    raise UsageError(
        f"--cache-policy {policy} keeps the data that --data names, and this plan names none: what "
        "it reads is generated, or fetched by its suite, once for all runs. Choose per-job, shared "
        "or auto, or give --data"
    )
