"""Load images of each mode with a library's own decoder, in its venv, and compare the pixels.

    python -m tests.image_loaders SLUG [MODE …]

prints a line of JSON per mode: its name and what came of it. `tests.image_table` runs this.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from skymark.suites.loading.adapter import Adapter, LoadingJob
from skymark.suites.loading.dataset import values
from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.images import note_kinds
from skymark.suites.loading.registry import adapter_class, scenario_class
from skymark.suites.loading.work import Size
from tests.image_modes import MODES, Mode

SAME, REFUSED = "same", "refused"
ELEMENTS = 3
EPOCH = 1
SIDE = 40


def imported(mode: Mode, directory: Path) -> Dataset:
    """Write images of a mode as their import does."""
    files = [mode.file(number) for number in range(ELEMENTS)]
    columns = {
        "jpeg": (values.jpeg(file, "a") for file in files),
        "height": np.array([values.image_height(file, "a") for file in files], np.int32),
        "width": np.array([values.image_width(file, "a") for file in files], np.int32),
        "label": np.arange(ELEMENTS),
    }
    write_dataset(directory, "images", columns, {"jpeg": "jpeg"})
    note_kinds(directory)
    return Dataset(directory)


def outcome(library: type[Adapter], mode: Mode, directory: Path, *, anyway: bool = False) -> str:
    """Return `SAME`, `REFUSED`, or how the pixels differ from the reference's.

    Args:
        library: decodes, or refuses to.
        mode: of the images.
        directory: for the data.
        anyway: decode also images that the library's adapter refuses.
    """
    dataset = imported(mode, directory / "canonical")
    refused = library.undecoded("CV-1", dataset.image_kinds) is not None
    if refused and not anyway:
        return REFUSED
    size = Size(elements=ELEMENTS, batch_size=ELEMENTS, values={"side": SIDE, "classes": ELEMENTS})
    scenario = scenario_class("CV-1")(size=size, seed=7)
    format = "memory" if "memory" in library.formats else library.format_for(type(scenario), {})
    storage, adapter = directory / format, library()
    storage.mkdir()
    if format != "memory":
        adapter.convert(dataset, storage, format)
    job = LoadingJob(scenario, dataset, storage, format, ELEMENTS, seed=7, workers=0, shuffle=False)
    loader = adapter.open(job)
    try:
        (batch,) = loader.epoch(EPOCH)
        got = {name: np.asarray(value) for name, value in batch.items()}
    finally:
        loader.close()
        adapter.close()
    apart = np.stack(
        [
            np.abs(image - scenario.transform(dataset[int(index)], EPOCH)["image"])
            for index, image in zip(got["index"], got["image"], strict=True)
        ]
    )
    largest, mean = float(apart.max()), float(apart.mean(axis=(1, 2, 3)).max())
    if largest <= scenario.native_tolerance and mean <= scenario.native_mean_tolerance:
        return SAME
    return f"differs by up to {largest:.2f}, {mean:.3f} on average"


def main() -> None:
    """Print the outcome of each mode."""
    slug, *names = sys.argv[1:]
    library = adapter_class(slug)
    anyway = os.environ.get("ANYWAY") == "1"
    os.environ.update(library.variables)
    for name in names or MODES:
        with tempfile.TemporaryDirectory() as directory:
            try:
                came = outcome(library, MODES[name], Path(directory), anyway=anyway)
            except Exception as error:
                came = f"fails: {type(error).__name__}: {' '.join(str(error).split())[-300:]}"
        print(json.dumps([name, came]), flush=True)


if __name__ == "__main__":
    main()
