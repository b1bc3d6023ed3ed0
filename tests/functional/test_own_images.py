"""People's own images of every mode: measured by each library as the reference decodes them."""

from __future__ import annotations

import pytest

from skymark.model.record import Status
from skymark.suites.loading.registry import adapters
from tests.functional.conftest import run_in
from tests.image_modes import MODES, REFUSED
from tests.image_table import decoding

PHOTOS = 24
"""Plain JPEG files besides the others."""
EVERYWHERE = (
    *(f"JPEG, EXIF orientation {number}" for number in (2, 3, 6, 8)),
    *("JPEG, grey", "JPEG, progressive", "JPEG, one pixel", "MPO"),
)
BY_MOST = ("JPEG, CMYK", "JPEG, YCCK", "PNG", "PNG, grey of 16 bits", "PNG, RGBA", "PNG, palette")


def folder(directory, names):
    """Write a folder of plain images and one of each mode, all called as ImageNet's are."""
    photos = directory / "photos"
    photos.mkdir()
    for number in range(PHOTOS):
        (photos / f"{number:03d}.JPEG").write_bytes(MODES["JPEG"].file(number))
    for number, name in enumerate(names):
        (photos / f"mode{number:03d}.JPEG").write_bytes(MODES[name].file(number))
    return photos


@pytest.mark.libraries
def test_every_library_gives_the_references_pixels_of_images_of_many_modes(tmp_path):
    photos = folder(tmp_path, EVERYWHERE + BY_MOST)
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "CV-1", "--data", str(photos), "--effort", "check"),
        *("--timeout", "300", "--adapters", "numpy", *decoding()),
    )
    assert ran.status == 0, ran.stderr
    ends = {record.cell.adapter: record.status for record in ran.records.values()}
    wanted = dict.fromkeys(["numpy", *decoding()], Status.OK)
    refusing = {"deeplake": "16-bit grey PNG", "spdl-io": "CMYK JPEG"}
    assert ends == wanted | dict.fromkeys(refusing, Status.UNSUPPORTED), ran.stderr
    causes = {one.cell.adapter: one.cause.message for one in ran.records.values() if one.cause}
    for slug, kind in refusing.items():
        assert kind in causes[slug]
        assert f"{adapters()[slug].name} does not decode" in causes[slug]


def test_an_image_that_nobody_decodes_ends_the_run_with_its_name_before_it_is_measured(tmp_path):
    photos = folder(tmp_path, ())
    (photos / "odd.png").write_bytes(REFUSED["PNG, a text of 2 MiB"](1))
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "CV-1", "--data", str(photos), "--effort", "check"),
        *("--adapters", "numpy"),
    )
    assert ran.status == 2
    assert f" {photos}/odd.png cannot" in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr
    assert not ran.records
