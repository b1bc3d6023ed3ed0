"""Machines that are not proved gone, named on the way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skymark.cloud.errors import NameTakenError, StillBillingError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.known_machines import hired
from skymark.cloud.lifecycle.screen import Say


def not_proved_gone(machines: HiredMachines, problem: str, *, runs: bool = False) -> str:
    """Return the sentence that names machines which cost money, and how to end them.

    Args:
        machines: their facts.
        problem: why they are not proved gone.
        runs: whether their provider lists them as running.
    """
    name, address = machines.name, machines.address
    state = "IS STILL THERE AND COSTS MONEY" if runs else "IS NOT PROVED GONE AND MAY COST MONEY"
    page = "the provider's own page" if address is None else f"{address.provider}'s own page"
    return (
        f"{name} {state}: {machines.in_words}. {problem}. End it: `skymark down {name}`; where "
        f"that fails, on {page}"
    )


@contextmanager
def named_where_left(cluster: str, say: Say) -> Iterator[None]:
    """Name a machine that was hired and is not proved gone, whatever ends a command early."""
    try:
        yield
    except (StillBillingError, NameTakenError):
        raise  # it names them itself; they are another command's
    except BaseException:
        if (machines := hired(cluster)) is not None:
            say(not_proved_gone(machines, "this command ended before it was ended"))
        raise
