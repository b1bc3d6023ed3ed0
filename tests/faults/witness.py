"""Adapters that write down, outside the run's directory, every round that they are asked for.

The fault tests count with them what was measured, without trusting what skymark says of itself.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from skymark.suites.loading.adapters.numpy import NumpyReference
from skymark.suites.loading.options import DEFAULT_SEED


def wait_while_held() -> None:
    """Wait, before anything is timed, while the test holds the round that was just begun."""
    with suppress(KeyError, FileNotFoundError):
        hold, witness = Path(os.environ["HOLD"]), Path(os.environ["WITNESS"])
        while len(witness.read_text().splitlines()) >= int(hold.read_text()):
            time.sleep(0.05)


def is_of_the_oracle() -> bool:
    """Whether this process opens a loader for the oracle alone."""
    spec = sys.modules["__main__"].__spec__
    return spec is not None and spec.name.endswith("fresh_main")


class Witness(NumpyReference):
    slug = "witness"
    name = "Witness"

    def open(self, job):
        # To see the order, the oracle opens loaders with another seed, and in another process.
        if job.seed == DEFAULT_SEED and not is_of_the_oracle():
            line = json.dumps([job.scenario.id, job.scenario.axes, self.slug]) + "\n"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(os.environ["WITNESS"], flags, 0o644)
            os.write(descriptor, line.encode())
            os.close(descriptor)
            wait_while_held()
        return super().open(job)


class Second(Witness):
    slug = "second"
    name = "Second witness"


class Third(Witness):
    slug = "third"
    name = "Third witness"


class Fourth(Witness):
    slug = "fourth"
    name = "Fourth witness"
