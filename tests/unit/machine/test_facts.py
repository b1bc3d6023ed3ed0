"""The machine as captured here, and as it would be on other machines."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import psutil
import pytest

from skymark.machine.cgroup import limits_of
from skymark.machine.disk import disk_of
from skymark.machine.facts import (
    accelerators,
    capture,
    cpu_governor,
    cpu_model,
    git_state,
    run_program,
    turbo,
)
from skymark.machine.fitness import fitness_warnings
from skymark.model.machine import GitState, Hardware, Load, MachineState, ProcessLimits
from tests.nvml.stand_in import H100, DriverStandIn


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_machine_is_described_as_the_system_does(tmp_path: Path) -> None:
    found = capture(tmp_path)
    assert found.hardware.logical_cores == psutil.cpu_count()
    assert found.hardware.memory_bytes == psutil.virtual_memory().total
    assert found.limits.usable_cores == len(os.sched_getaffinity(0))
    assert found.python == f"CPython {platform.python_version()}"
    assert platform.release() in found.system
    assert MachineState.model_validate_json(found.model_dump_json()) == found


def test_a_program_that_is_absent_or_fails_has_no_output() -> None:
    assert run_program(["echo", "there"]) == "there\n"
    assert run_program(["skymark-no-such-program"]) is None
    assert run_program(["false"]) is None


def test_no_driver_means_no_accelerator_and_a_silent_one_means_unknown(
    tmp_path: Path, driver: DriverStandIn
) -> None:
    assert accelerators(tmp_path / "version") == ()
    write(tmp_path / "version", "NVRM")
    assert accelerators(tmp_path / "version") is None
    driver.has(H100 | {"memory": 81_559_000_000})
    (one,) = accelerators(tmp_path / "version") or ()
    assert one.memory_bytes == 77_780 << 20


def test_the_processor_has_a_name_here() -> None:
    name = cpu_model(run_program)
    assert name is None or name == name.strip()


@pytest.mark.parametrize(("names", "expected"), [([], None), (["powersave"] * 2, "powersave")])
def test_the_governor_is_that_of_all_cores(
    tmp_path: Path, names: list[str], expected: str | None
) -> None:
    for core, name in enumerate(names):
        write(tmp_path / f"cpu{core}/cpufreq/scaling_governor", f"{name}\n")
    assert cpu_governor(tmp_path) == expected


def test_differing_governors_are_all_named(tmp_path: Path) -> None:
    write(tmp_path / "cpu0/cpufreq/scaling_governor", "powersave\n")
    write(tmp_path / "cpu1/cpufreq/scaling_governor", "performance\n")
    assert cpu_governor(tmp_path) == "performance, powersave"


def test_turbo_is_read_for_intel_and_for_others(tmp_path: Path) -> None:
    assert turbo(tmp_path) is None
    write(tmp_path / "cpufreq/boost", "1\n")
    assert turbo(tmp_path) is True
    write(tmp_path / "intel_pstate/no_turbo", "1\n")
    assert turbo(tmp_path) is False


def test_limits_of_control_groups_version_2_are_the_strictest_on_the_way_up(tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    write(tmp_path / "proc/cgroup", "0::/outer/inner\n")
    write(groups / "outer/cpu.max", "150000 100000\n")
    write(groups / "outer/memory.max", "1073741824\n")
    write(groups / "outer/cpu.stat", "usage_usec 5\nnr_periods 200\nnr_throttled 50\n")
    write(groups / "outer/inner/cpu.max", "max 100000\n")
    write(groups / "outer/inner/memory.max", "max\n")
    found = limits_of(tmp_path / "proc", groups, tmp_path)
    assert found.cpu_quota_cores == 1.5
    assert found.memory_limit_bytes == 1 << 30
    assert found.cpu_throttled_share == 0.25


def test_limits_of_control_groups_version_1_are_found(tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    write(tmp_path / "proc/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n")
    write(groups / "memory/job/memory.limit_in_bytes", "2147483648\n")
    write(groups / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(groups / "cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
    write(groups / "cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    write(groups / "cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    found = limits_of(tmp_path / "proc", groups, tmp_path)
    assert found.cpu_quota_cores == 0.5
    assert found.memory_limit_bytes == 2 << 30


def test_no_control_groups_mean_no_limits(tmp_path: Path) -> None:
    found = limits_of(tmp_path / "proc", tmp_path / "cgroup", tmp_path)
    assert (found.cpu_quota_cores, found.memory_limit_bytes) == (None, None)


def test_containers_are_told_by_the_marks_they_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert limits_of(tmp_path, tmp_path, tmp_path).container is None
    write(tmp_path / "run/systemd/container", "lxc\n")
    assert limits_of(tmp_path, tmp_path, tmp_path).container == "lxc"
    write(tmp_path / "run/.containerenv", "")
    assert limits_of(tmp_path, tmp_path, tmp_path).container == "podman"
    write(tmp_path / ".dockerenv", "")
    assert limits_of(tmp_path, tmp_path, tmp_path).container == "docker"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert limits_of(tmp_path, tmp_path, tmp_path).container == "kubernetes"


@pytest.mark.parametrize(
    ("device", "rotational", "kind"),
    [
        ("nvme0n1", "0", "nvme"),
        ("sda", "1", "hdd"),
        ("sdb", "0", "ssd"),
        ("vda", "1", "virtual"),
        ("loop0", None, None),
    ],
)
def test_a_disk_is_told_by_its_device(
    tmp_path: Path, device: str, rotational: str | None, kind: str | None
) -> None:
    block = tmp_path / "devices" / device
    write(block / "part1/partition", "1")
    if rotational is not None:
        write(block / "queue/rotational", f"{rotational}\n")
    place = tmp_path.stat().st_dev
    links = tmp_path / "links"
    links.mkdir()
    (links / f"{os.major(place)}:{os.minor(place)}").symlink_to(block / "part1")
    found, filesystem, free_bytes = disk_of(tmp_path / "not" / "yet" / "made", links)
    if filesystem not in {"tmpfs", "ramfs"}:
        assert found == kind
    assert free_bytes is not None
    assert free_bytes > 0


def test_a_device_that_the_kernel_does_not_show_is_unknown(tmp_path: Path) -> None:
    kind, filesystem, _ = disk_of(tmp_path, tmp_path / "none")
    assert kind is None or filesystem in {"tmpfs", "ramfs"}


def test_memory_is_a_disk_of_its_own_kind() -> None:
    shared = Path("/dev/shm")
    if not shared.is_mount():
        pytest.skip("no /dev/shm on this system")
    assert disk_of(shared)[:2] == ("memory", "tmpfs")


def repository(path: Path) -> Path:
    """A repository with one committed package."""
    write(path / "package/__init__.py", "")
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"],
    ):
        subprocess.run(["git", "-C", path, *arguments], check=True)
    return path / "package"


def test_the_commit_of_a_checkout_is_known_and_whether_it_was_edited(tmp_path: Path) -> None:
    package = repository(tmp_path)
    clean = git_state(run_program, package)
    assert clean is not None
    assert len(clean.commit) == 40
    assert not clean.dirty
    write(package / "__init__.py", "edited = True\n")
    edited = git_state(run_program, package)
    assert edited is not None
    assert edited.dirty


def test_a_package_installed_below_a_strangers_checkout_has_no_commit(tmp_path: Path) -> None:
    repository(tmp_path)
    installed = tmp_path / ".venv/lib/skymark"
    write(installed / "__init__.py", "")
    assert git_state(run_program, installed) is None


def test_a_checkout_that_came_without_its_history_says_its_commit_in_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, dirty in (("abc123", False), ("abc123-dirty", True)):
        monkeypatch.setenv("SKYMARK_COMMIT", text)
        assert git_state(run_program, tmp_path) == GitState(commit="abc123", dirty=dirty)
    monkeypatch.setenv("SKYMARK_COMMIT", "")
    assert git_state(run_program, tmp_path) is None


def machine(
    hardware: dict[str, object] | None = None,
    limits: dict[str, object] | None = None,
    load: dict[str, object] | None = None,
    filesystem: str = "ext4",
) -> MachineState:
    """A calm machine of 8 cores, but for what is given."""
    calm = {
        "load_average_1m": 0.1,
        "cpu_busy_share": 0.01,
        "memory_available_bytes": 30 << 30,
        "swap_used_bytes": 0,
        "disk_free_bytes": 100 << 30,
        "cpu_governor": "performance",
        "turbo": True,
        "on_battery": None,
    }
    free = {
        "usable_cores": 8,
        "cpu_quota_cores": None,
        "cpu_throttled_share": None,
        "memory_limit_bytes": None,
        "container": None,
    }
    machine = {
        "architecture": "x86_64",
        "cpu_model": "CPU",
        "physical_cores": 4,
        "logical_cores": 8,
        "memory_bytes": 32 << 30,
        "disk_kind": "nvme",
        "accelerators": (),
    }
    return MachineState(
        captured_at="2026-01-01T00:00:00Z",
        hardware=Hardware.model_validate({**machine, **(hardware or {})}),
        limits=ProcessLimits.model_validate({**free, **(limits or {})}),
        load=Load.model_validate({**calm, **(load or {})}),
        system="Linux 6.8",
        filesystem=filesystem,
        python="CPython 3.12.1",
        skymark="0.1.0",
        git=None,
    )


def test_a_calm_machine_is_fit() -> None:
    assert fitness_warnings(machine()) == ()


@pytest.mark.parametrize(
    ("part", "change", "kind"),
    [
        ("load", {"cpu_busy_share": 0.4}, "busy-machine"),
        ("load", {"load_average_1m": 6.0}, "load-average"),
        ("load", {"cpu_governor": "powersave"}, "powersave-governor"),
        ("load", {"on_battery": True}, "on-battery"),
        ("limits", {"cpu_throttled_share": 0.3}, "cpu-throttled"),
        ("limits", {"cpu_quota_cores": 1.5}, "cpu-quota"),
        ("load", {"swap_used_bytes": 1 << 30}, "swap-in-use"),
        ("load", {"memory_available_bytes": 1 << 30}, "low-memory"),
        ("load", {"disk_free_bytes": 1 << 30}, "low-disk"),
    ],
)
def test_each_disturbance_is_warned_of(part: str, change: dict[str, object], kind: str) -> None:
    (warning,) = fitness_warnings(machine(**{part: change}))
    assert warning.kind == kind
    assert warning.action


def test_data_on_a_network_disk_is_warned_of() -> None:
    (warning,) = fitness_warnings(machine(filesystem="nfs4"))
    assert warning.kind == "network-disk"


def test_unknown_is_no_reason_to_warn() -> None:
    unknown = dict.fromkeys(Load.model_fields)
    assert fitness_warnings(machine(load=unknown)) == ()


def test_machines_of_one_type_have_one_hardware_key() -> None:
    gpu = {"name": "GPU", "memory_bytes": 1 << 30, "driver": "1"}
    one = machine({"accelerators": (gpu,), "memory_bytes": (32 << 30) - 5_000_000})
    other = machine({"accelerators": ({**gpu, "driver": "2"},)}, load={"turbo": None})
    assert one.hardware_key == other.hardware_key
    assert one.hardware_key != machine(limits={"cpu_quota_cores": 2.0}).hardware_key
    assert one.hardware_key != machine().hardware_key
