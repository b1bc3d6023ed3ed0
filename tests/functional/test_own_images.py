"""People's own images of every mode: measured by each library as the reference decodes them."""

from __future__ import annotations

import pytest

from tests.functional.conftest import run_in
from tests.image_modes import MODES
from tests.image_table import decoding

PHOTOS = 24
"""Plain JPEG files besides the others."""
SHARED = (
    *(name for name in MODES if name.startswith("JPEG") and "unmarked" not in name),
    "PNG",
    "PNG, grey of 16 bits",
    "PNG, RGBA",
    "PNG, palette with transparency",
)


def folder(directory, names):
    """Write a folder of plain images and one of each mode, all called .JPEG as ImageNet's are."""
    photos = directory / "photos"
    photos.mkdir()
    for number in range(PHOTOS):
        (photos / f"{number:03d}.JPEG").write_bytes(MODES["JPEG"].file(number))
    for number, name in enumerate(names):
        (photos / f"mode{number:03d}.JPEG").write_bytes(MODES[name].file(number))
    return photos


@pytest.mark.libraries
def test_every_library_gives_the_references_pixels_of_images_of_many_modes(tmp_path):
    photos = folder(tmp_path, SHARED)
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "CV-1", "--data", str(photos), "--effort", "check"),
        *("--timeout", "300", "--adapters", "numpy", *decoding()),
    )
    assert ran.status == 0, ran.stderr
    ends = {record.cell.adapter: (record.status, record.cause) for record in ran.records.values()}
    assert ends
