"""Energy comes from the machine's own counters, or is missing."""

from __future__ import annotations

import pytest

from skymark.suites.clip.encoding import energy


@pytest.fixture
def packages(tmp_path, monkeypatch):
    monkeypatch.setattr(energy, "PACKAGES", tmp_path)
    return tmp_path


def write(packages, *values):
    for number, value in enumerate(values):
        place = packages / f"intel-rapl:{number}"
        place.mkdir(exist_ok=True)
        (place / "energy_uj").write_text(f"{value}\n")


def test_the_energy_of_all_packages_is_added(packages):
    write(packages, 1_000_000, 5_000_000)
    meter = energy.EnergyMeter()
    write(packages, 3_500_000, 6_000_000)
    assert meter.taken_j() == pytest.approx(3.5)


def test_a_counter_that_began_again_gives_nothing(packages):
    write(packages, 9_000_000)
    meter = energy.EnergyMeter()
    write(packages, 10)
    assert meter.taken_j() is None


def test_a_machine_without_counters_gives_nothing(packages):
    assert energy.EnergyMeter().taken_j() is None
