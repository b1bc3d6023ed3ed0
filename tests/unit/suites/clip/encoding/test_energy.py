"""Energy comes from the machine's own counters, or is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.model.machine import GpuUse
from skymark.model.record import Resources
from skymark.suites.clip.encoding import timed


@pytest.fixture
def packages(tmp_path, monkeypatch):
    monkeypatch.setattr(timed, "PACKAGES", tmp_path)
    return tmp_path


def write(packages, *values):
    for number, value in enumerate(values):
        place = packages / f"intel-rapl:{number}"
        place.mkdir(exist_ok=True)
        (place / "energy_uj").write_text(f"{value}\n")


def test_the_energy_of_all_packages_is_added(packages):
    write(packages, 1_000_000, 5_000_000)
    meter = timed.EnergyMeter()
    write(packages, 3_500_000, 6_000_000)
    assert meter.taken_j() == pytest.approx(3.5)


def test_a_counter_that_began_again_gives_nothing(packages):
    write(packages, 9_000_000)
    meter = timed.EnergyMeter()
    write(packages, 10)
    assert meter.taken_j() is None


def test_a_machine_without_counters_gives_nothing(packages):
    assert timed.EnergyMeter().taken_j() is None


@pytest.mark.parametrize(
    ("device", "board_j", "expected"),
    [
        ("cuda", 40.0, {"energy_j": 40.0, "energy_j_per_1000_images": 80.0}),
        ("cuda", None, {}),
        ("cpu", 40.0, {"energy_j": 7.0, "energy_j_per_1000_images": 14.0}),
    ],
)
def test_the_energy_is_that_of_the_boards_where_the_encoder_computes_on_a_gpu(
    device, board_j, expected
):
    use = GpuUse(index=0, name="A GPU", samples=2, board_energy_j=board_j)
    place, used = SimpleNamespace(type=device), Resources(gpus=(use,))
    assert timed.energy_metrics(500, place, 7.0, used) == expected
    assert "energy_j_per_1000_images" not in timed.energy_metrics(0, place, 7.0, used)
    if device == "cuda":
        assert timed.energy_metrics(500, place, 7.0, Resources()) == {}
