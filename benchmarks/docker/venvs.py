"""Make adapters' venvs for an image, in two steps, so that their layer is kept.

`list` runs where skymark is installed and prints one specification per line. `build` makes them,
and needs only the few files of skymark that a Dockerfile copies for it. A container builder keeps
the layer, of gigabytes, until the list, a pin or one of those files changes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def list_specifications(names: Sequence[str]) -> None:
    """Print the venvs of the adapters named; of all that pip can install, if none is.

    ``--accelerator gpu`` before them takes the builds for a GPU, and adds the venv that is asked
    whether it works. The variable that says which CUDA holds in the image, too.
    """
    from skymark.execute.accelerator import accelerator_venv, target_of
    from skymark.execute.venv_specs import venvs_named
    from skymark.model.machine import Target
    from skymark.suite.registry import suites

    target: Target = "cpu"
    if names[:1] == ["--accelerator"]:
        target, names = target_of("tpu" if names[1] == "tpu" else "gpu"), names[2:]
        sys.stdout.write(f"{accelerator_venv(target).model_dump_json()}\n")
    for _, spec in sorted(venvs_named(names, suites(), target).items()):
        sys.stdout.write(f"{spec.model_dump_json()}\n")


def build(lines: Iterable[str]) -> None:
    """Make the venvs of the specifications."""
    from skymark.cache.location import cache_directory
    from skymark.cache.sharing import CLAIMS
    from skymark.execute.venvs import Venvs
    from skymark.model.venv import VenvSpec

    cache = cache_directory()
    venvs = Venvs(cache, print)
    for line in lines:
        venvs.ensure(VenvSpec.model_validate_json(line))
    # Root's, it would keep the user of a container from making more.
    shutil.rmtree(cache / "venvs" / CLAIMS, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "list":
        list_specifications(sys.argv[2:])
    else:
        build(Path(sys.argv[2]).read_text().splitlines())
