"""`skymark doctor`: what the machine is, and how well skymark measures on it."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from skymark.cli import doctor as module
from skymark.cli.main import main
from skymark.cloud import checkup
from skymark.cloud.checkup import Checkup, ProviderState, bounded, providers
from skymark.cloud.own_venv import how_to_make_it
from skymark.cloud.sky.clusters import LiveMachine
from skymark.cloud.sky.providers import ACCESS
from skymark.machine.fitness import Noise
from skymark.machine.gpu_fitness import CopyRates, gpu_faults
from skymark.machine.nvidia import nvidia_driver
from skymark.model.errors import CloudError
from skymark.model.record import Ceiling, MachineLimits, StabilityWarning
from tests.nvml.stand_in import GIB, H100


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))


def test_the_machine_is_told_as_json_with_what_skymark_itself_costs(capsys):
    assert main(["doctor", "--json", "--skip", "noise"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["hardware"]["logical_cores"] >= 1
    own_cost, utilisation = found["self_tests"]["loading"].values()
    assert 0 < float(own_cost.partition(" ns")[0]) < 100_000
    assert 0 < float(utilisation.partition("%")[0]) <= 100


OWN_COST = "ns (limit 250)"


@pytest.mark.parametrize("warned", [True, False])
def test_the_machine_is_told_as_a_table_with_what_to_do(monkeypatch, capsys, tmp_path, warned):
    warning = StabilityWarning(kind="load", message="it is [busy]", action="wait")
    monkeypatch.setattr(module, "fitness_warnings", lambda _: [warning] if warned else [])
    assert main(["doctor", "--skip", "noise"]) == 0
    text = capsys.readouterr().out
    assert str(tmp_path / "cache") in text
    assert OWN_COST in text
    assert ("! it is [busy]: wait" in text) == warned
    assert ("nothing was found" in text) != warned


def test_what_the_machine_itself_can_do_is_told_of_memory_and_of_the_data_that_is_there(
    monkeypatch, capsys, tmp_path
):
    limits = MachineLimits(ceilings=(Ceiling(name="decoding", rate=3934.0, basis="b"),))
    monkeypatch.setattr(module, "limits_of_data_here", lambda *_, **__: {"CV-1:small": limits})
    command = ["doctor", "--json", "--skip", "noise", "self-tests"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)["limits"]
    assert re.fullmatch(r"3,934 samples/s .*CV-1:small", told["decoding"])
    assert "B/s " in told["copying in memory"]
    assert "reading the disk" not in told
    (tmp_path / "cache/datasets").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache/datasets/file").write_bytes(bytes(1 << 20))
    assert main(command) == 0
    assert "reading the disk" in json.loads(capsys.readouterr().out)["limits"]
    assert main([*command, "limits"]) == 0
    assert json.loads(capsys.readouterr().out)["limits"] == {}


NOISY = Noise(
    rounds_s=(0.0100, 0.0101, 0.0099, 0.0130),
    repetitions=200,
    fastest_s=0.0095,
    median_s=0.01,
    slowest_s=0.05,
    steal_share=0.03,
    others_share=0.2,
    frequency_mhz=(2400.0, 3100.0),
    load_average_1m=1.5,
    pressure={"cpu": 0.02},
)


def test_the_noise_is_told_with_the_time_that_a_change_takes_to_show(monkeypatch, capsys):
    monkeypatch.setattr(module, "observe", lambda: NOISY)
    assert main(["doctor", "--skip", "self-tests", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["self_tests"] == {}
    assert found["noise"]["steal_share"] == 0.03
    assert {"cpu-steal", "noisy-processor"} <= {one["kind"] for one in found["warnings"]}
    rounds = {one["effect"]: one["rounds"] for one in found["detectable"]}
    assert rounds[0.05] > rounds[0.2] > 2
    assert main(["doctor", "--skip", "self-tests"]) == 0
    text = capsys.readouterr().out
    assert f"{rounds[0.2]} rounds each" in text
    assert re.search(r"\b2,400\D+3,100 MHz", text)
    assert re.search(r"^! .* 3\.0 %", text, re.MULTILINE)
    assert OWN_COST not in text


def test_noise_is_not_watched_where_it_is_left_out(monkeypatch, capsys):
    def observe():
        raise AssertionError

    monkeypatch.setattr(module, "observe", observe)
    assert main(["doctor", "--skip", "noise", "self-tests", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["noise"], found["detectable"]) == (None, [])


def test_a_machine_without_a_driver_is_told_so_and_no_more(driver, capsys):
    assert main(["doctor", "--skip", "noise", "self-tests"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"accelerators +none found", text)
    assert "GPU" not in text
    assert "NVIDIA" not in text


SHOWN = """
NVIDIA driver 580.65.06, CUDA 13.0
GPU 0 NVIDIA H100 80GB HBM3
memory used 65.5 GB of 85.5 GB
clock 1,980 of 1,980 MHz
memory's clock 2,619 of 2,619 MHz
power 350 of 350 W
clock is held by power limit
temperature 33 °C
ECC on, 0 uncorrected errors
MIG off
persistence mode off
PCIe generation 5, x8; at most generation 5, x16
"""


def test_each_gpu_is_told_with_its_faults_and_what_to_do(driver, capsys):
    limit = {"power": 350_000, "power-limit": 350_000, "clock-reasons": 4}
    full = {"memory-used": 61 * GIB, "processes": f"{os.getpid()}:{61 * GIB}"}
    driver.has(H100 | full | limit | {"pcie-width": 8, "persistence": 0}, H100)
    assert main(["doctor", "--skip", "noise", "self-tests"]) == 0
    text = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    begin = lines.index("NVIDIA driver 580.65.06, CUDA 13.0")
    assert lines[begin : begin + 12] == SHOWN.strip().splitlines()
    assert f" pid {os.getpid()} (" in lines[begin + 12]
    faults = list(gpu_faults(nvidia_driver().gpus))
    assert {"gpu-pcie-width", "gpu-power-limit"} < {fault.kind for fault in faults}
    warned = [line for line in text.splitlines() if line.startswith("! GPU")]
    assert warned == [f"! {fault.message}: {fault.action}" for fault in faults]
    assert len([line for line in warned if line.startswith("! GPU 0")]) == len(warned) == 5


def test_the_rates_of_copies_are_those_of_the_asked_interpreters_libraries(
    driver, capsys, monkeypatch
):
    """What copies, with a real library, is tested in `tests/functional/test_accelerators.py`."""
    asked = []

    def copy_rates(units, python):
        asked.append((len(units), python))
        return {0: [CopyRates(framework="torch", page_locked=55.2e9, pageable=23.5e9)]}

    monkeypatch.setattr(module, "copy_rates", copy_rates)
    driver.has(H100)
    command = ["doctor", "--skip", "noise", "self-tests", "--env", "current"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert re.search(r"torch: 55\.2 .*\b23\.5 GB/s", text)
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["copies"]["0"][0]["pageable"] == 23.5e9
    assert found["nvidia"]["gpus"][0]["power_limit_w"] == 700.0
    assert asked == [(1, Path(sys.executable))] * 2
    assert main([*command, "--skip", "copies"]) == 0
    driver.lose()
    assert main(command) == 0
    assert re.search("^! .*GPU 0: ", capsys.readouterr().out, re.MULTILINE)
    assert len(asked) == 2


@pytest.mark.parametrize(("options", "own"), [([], True), (["--env", "current"], False)])
def test_the_running_interpreter_is_asked_for_the_accelerator_if_it_is_to_be(
    monkeypatch, options, own
):
    asked = []
    monkeypatch.setattr(
        module, "require_accelerator", lambda platform, _, *, own: asked.append((platform, own))
    )
    assert main(["doctor", "--platform", "gpu", *options]) == 0
    assert asked == [("gpu", own)]


LEFT = LiveMachine(
    name="skymark-cpu-1a2b",
    status="UP",
    machine="1x[Lambda](gpu_1x_a6000)",
    nodes=1,
    launched_at=None,
    idle_minutes=30,
    hourly_price_usd=0.8,
    cost_usd=None,
)


def found_with(tmp_path, enabled, machines=(), problems=()):
    states = providers(enabled, {"HOME": str(tmp_path)})
    return Checkup(providers=states, machines=machines, problems=problems)


def test_a_provider_without_credentials_is_told_where_to_put_them_and_the_least_they_need(
    tmp_path, capsys
):
    found = found_with(tmp_path, frozenset({"lambda"}))
    assert found.all_well
    module.print_checkup(found)
    text = capsys.readouterr().out
    assert "credentials: ~/.config/vastai/vast_api_key" in text
    (vast,) = [access for access in ACCESS if access.provider == "vast"]
    assert vast.privilege in text
    assert "credentials: ~/.lambda_cloud/lambda_keys" not in text
    assert "skymark cost PROFILE" in text
    assert f"uv pip install --python {sys.executable} 'skypilot[vast]'" in text


def test_a_machine_that_is_left_over_is_no_good_state_and_its_price_and_end_are_told(
    tmp_path, capsys
):
    found = found_with(tmp_path, frozenset({"lambda"}), machines=(LEFT,))
    assert not found.all_well
    module.print_checkup(found)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if LEFT.name in line]
    assert re.search(r"\$0\.80/h.*\b30 .*min", line)
    assert line.endswith(f" skymark down {LEFT.name}")


def test_where_nothing_is_enabled_nothing_can_be_rented(tmp_path, capsys):
    found = found_with(tmp_path, frozenset())
    assert not found.all_well
    module.print_checkup(found)
    text = capsys.readouterr().out
    assert re.search("^! .*rented", text, re.MULTILINE)
    assert "skymark cost PROFILE" not in text


def test_credentials_that_are_there_but_refused_are_told_from_absent_ones(tmp_path):
    key = tmp_path / ".lambda_cloud" / "lambda_keys"
    key.parent.mkdir()
    key.write_text("api_key = wrong")
    home = {"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": "/key.json"}
    states = {one.name: one.state for one in providers(frozenset({"nebius"}), home)}
    assert states["lambda"] is states["gcp"] is ProviderState.NOT_WORKING
    assert states["vast"] is ProviderState.ABSENT
    assert states["nebius"] is ProviderState.ENABLED
    unasked = {one.name: one.state for one in providers(None, home)}
    assert (unasked["lambda"], unasked["vast"]) == (ProviderState.UNKNOWN, ProviderState.ABSENT)


def test_an_answer_that_does_not_come_is_a_problem_in_bounded_time():
    never = threading.Event()
    with pytest.raises(CloudError, match=r"long list .*0\.05 s"):
        bounded("a long list", never.wait, timeout_s=0.05)
    never.set()
    assert bounded("a sum", lambda: 1 + 1, timeout_s=60.0) == 2


def test_what_could_not_be_asked_is_said_and_is_no_good_state(monkeypatch, tmp_path, capsys):
    def unreachable():
        raise CloudError("no network")

    monkeypatch.setattr(checkup, "sdk", lambda: None)
    monkeypatch.setattr(checkup, "check_all_clouds", unreachable)
    monkeypatch.setattr(checkup, "live_machines", unreachable)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["doctor", "--cloud", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == ["no network", "no network"]
    assert {one["state"] for one in told["providers"]} <= {"not known", "no credentials"}
    assert main(["doctor", "--cloud"]) == 1
    assert "! no network" in capsys.readouterr().out


@pytest.mark.skipif(find_spec("sky") is not None, reason="SkyPilot is installed here")
def test_without_skypilot_the_doctor_says_how_to_get_it(capsys):
    assert main(["doctor", "--cloud"]) == 2
    assert how_to_make_it() in capsys.readouterr().err


def test_every_provider_has_a_place_for_its_credentials_and_a_least_privilege():
    assert len({one.provider for one in ACCESS}) == len(ACCESS)
    for one in ACCESS:
        assert one.credentials
        assert one.privilege
