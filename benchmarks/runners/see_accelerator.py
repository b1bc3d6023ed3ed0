"""Print what keeps JAX and torch from an accelerator, as JSON; null where nothing does.

Runs in the environment that is asked, so it imports nothing of skymark. Each library computes
something: a driver that is too old is found by that, not by counting devices.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys


def try_jax(platform: str) -> None:
    """Add two numbers with JAX on the accelerator."""
    import jax

    device = jax.devices(platform)[0]
    jax.device_put(1, device).__add__(1).block_until_ready()


def try_torch(platform: str) -> None:
    """Add two numbers with torch on the accelerator."""
    import torch

    del platform
    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} is a build for the CPU")
    torch.ones(2, device="cuda").sum().item()


TRIALS = {
    "gpu": {"jax": try_jax, "torch": try_torch},
    "tpu": {"jax": try_jax},
}


def main() -> None:
    """Try each library that is installed."""
    # JAX would take three quarters of the memory, which torch then does not have.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    platform = sys.argv[1]
    faults: dict[str, str | None] = {}
    for library, attempt in TRIALS[platform].items():
        if importlib.util.find_spec(library) is None:
            continue
        try:
            attempt(platform)
            faults[library] = None
        except Exception as error:  # the process boundary: whatever it is becomes the answer
            faults[library] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    print(json.dumps(faults))


if __name__ == "__main__":
    main()
