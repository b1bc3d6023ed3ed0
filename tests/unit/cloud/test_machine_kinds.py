"""Each profile names its machine, and each machine is there with and without an image."""

from __future__ import annotations

import re

import pytest

from skymark.cloud.rented_run import machine_file, machine_kinds
from skymark.execute.planner import load_profile, profile_paths
from skymark.model.errors import UnknownNameError, UsageError


@pytest.mark.parametrize("profile", profile_paths())
def test_a_profile_has_a_machine_with_and_without_an_image(profile):
    machine = machine_file(profile)
    assert machine.is_file()
    assert machine_file(profile, image="skymark:cpu").is_file()


def test_a_machine_runs_by_itself_a_profile_that_names_it():
    for kind in machine_kinds():
        (by_itself,) = re.findall(r"SKYMARK_PROFILE: (\w+)", machine_text(kind))
        assert load_profile(by_itself).machine == kind


def machine_text(kind):
    return next(
        machine_file(name).read_text()
        for name in profile_paths()
        if load_profile(name).machine == kind
    )


def test_every_machine_is_some_profile_s():
    assert {load_profile(name).machine for name in profile_paths()} == set(machine_kinds())


def write(tmp_path, *lines):
    path = tmp_path / "mine.toml"
    common = (
        'description = "mine"',
        'suite = "loading"',
        'platform = "cpu"',
        'scenarios = ["all"]',
    )
    path.write_text("\n".join((*common, *lines)))
    return str(path)


def test_a_profile_of_ones_own_may_name_a_machine_that_there_is(tmp_path):
    assert machine_file(write(tmp_path, 'machine = "cpu-benchmark"')).stem == "cpu-benchmark"
    with pytest.raises(UnknownNameError, match="'cpu-benchmark'"):
        machine_file(write(tmp_path, 'machine = "cpu-benchmrk"'))
    with pytest.raises(UsageError, match="give --machine"):
        machine_file(write(tmp_path))


def test_a_yaml_may_take_the_place_of_the_profile_s(tmp_path):
    mine = tmp_path / "mine.yaml"
    with pytest.raises(UsageError, match="is no file"):
        machine_file("cpu", mine)
    mine.touch()
    assert machine_file("cpu", mine) == mine
