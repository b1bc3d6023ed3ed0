"""Print the fault that keeps JAX or torch from an accelerator, as JSON; null for none.

Runs in the venv that is asked, so it imports nothing of skymark. The library computes something: a
driver that is too old is found by that, not by counting devices.
"""

from __future__ import annotations

import importlib.util
import json
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


TRIALS = {"jax": try_jax, "torch": try_torch}


def main() -> None:
    """Try the library that is named, if it is installed."""
    library, platform = sys.argv[1:]
    answer: dict[str, str | bool | None] = {"installed": False, "fault": None}
    if importlib.util.find_spec(library) is not None:
        answer["installed"] = True
        try:
            TRIALS[library](platform)
        except Exception as error:  # the process boundary: whatever it is becomes the answer
            answer["fault"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
