"""The accelerator that a plan asks for: refused where no library computes on it.

No accelerator is at hand here, so libraries that see one, or break, are stood in for by modules of
a few lines; the processes that ask them are real.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pynvml
import pytest

from skymark.execute import accelerator, seen_devices
from skymark.execute.accelerator import require_accelerator
from skymark.execute.session import run
from skymark.execute.sweeps import Sweeps
from skymark.machine.facts import has_driver
from skymark.model.errors import UsageError
from skymark.model.machine import SIMULATED
from skymark.model.requests import Results
from skymark.resources import requirement_text
from tests.accelerator_libraries import BLIND_JAX, BREAKING_JAX, WORKING_JAX, WORKING_TORCH
from tests.nvml.stand_in import GIB, H100
from tests.unit.rundir.past_runs import cell, plan

CPU_TORCH = "class version: cuda = None\n__version__ = '2+cpu'"


@pytest.fixture
def root_with_driver(tmp_path):
    """A place for device files that says a driver is loaded."""
    (tmp_path / "root" / "dev").mkdir(parents=True)
    (tmp_path / "root" / "dev" / "nvidiactl").touch()
    return tmp_path / "root"


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Stand-ins for libraries, first on the path of the processes that ask them."""

    def install(**sources: str) -> Path:
        folder = tmp_path / "libraries"
        folder.mkdir(exist_ok=True)
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        return Path(sys.executable)

    return install


@pytest.mark.parametrize("simulated", [True, False])
def test_only_a_simulated_machine_is_not_asked_for_its_gpu(tmp_path, monkeypatch, simulated):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    mark = tmp_path / "run" / "systemd" / "container"
    mark.parent.mkdir(parents=True)
    mark.write_text(f"{SIMULATED}\n" if simulated else "lxc\n")
    said = []
    if simulated:
        require_accelerator("gpu", said.append, own=False, root=tmp_path)
        (line,) = said
        assert "rehearsal" in line
    else:
        with pytest.raises(UsageError, match="no GPU here"):
            require_accelerator("gpu", said.append, own=False, root=tmp_path)


def test_both_libraries_that_compute_on_the_accelerator_satisfy(root_with_driver, libraries):
    libraries(jax=WORKING_JAX, torch=WORKING_TORCH)
    require_accelerator("gpu", print, own=False, root=root_with_driver)


@pytest.mark.parametrize(
    ("jax", "torch", "said"),
    [
        (BLIND_JAX, WORKING_TORCH, "^jax .* GPU: RuntimeError: "),
        (BREAKING_JAX, WORKING_TORCH, "^jax .*SIGABRT"),
        (WORKING_JAX, CPU_TORCH, r"^torch .*torch 2\+cpu"),
        ("import sys; sys.exit(3)", WORKING_TORCH, "^jax .*status 3"),
    ],
)
def test_one_library_that_sees_nothing_is_enough_to_refuse(
    root_with_driver, libraries, jax, torch, said
):
    libraries(jax=jax, torch=torch)
    with pytest.raises(UsageError, match=said):
        require_accelerator("gpu", print, own=False, root=root_with_driver)


OTHERS = {"memory-used": 61 * GIB, "processes": f"4242:{61 * GIB}"}
REFUSED = [
    (
        "gpu-full",
        {},
        OTHERS,
        {},
        "GPU 0: 65.5 GB of 85.5 GB .*pid 4242 .*choose",
    ),
    ("gpu-lost", {}, {"error": pynvml.NVML_ERROR_GPU_IS_LOST}, {}, "GPU 0: GPU is"),
    ("mig-empty", {}, {"mig": 1}, {}, "GPU 0 .*MIG mode"),
    (
        "driver-mismatch",
        {"init": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH},
        {},
        {},
        "RM has detected",
    ),
    (
        "driver-too-old",
        {"driver": "535.183.06", "cuda": 12020},
        {},
        {"torch": 13},
        "torch .*CUDA 13.* 535.183.06.*driver 580",
    ),
]


@pytest.mark.parametrize(("kind", "system", "differs", "builds", "said"), REFUSED)
def test_a_gpu_that_nothing_can_be_measured_on_is_refused_by_name_before_a_library_is_asked(
    driver, root_with_driver, libraries, monkeypatch, kind, system, differs, builds, said
):
    libraries(torch="raise SystemExit('a library was asked')")
    monkeypatch.setattr(accelerator, "cuda_builds", lambda: builds)
    driver.has(H100 | differs, **system)
    with pytest.raises(UsageError, match=said) as refused:
        require_accelerator("gpu", print, own=False, root=root_with_driver, variables={})
    assert f"({kind})" in str(refused.value)


def test_a_gpu_is_not_refused_for_what_only_slows_it_down_or_for_another_that_is_not_seen(
    driver, root_with_driver, libraries
):
    libraries(torch=WORKING_TORCH)
    driver.has(H100 | {"pcie-width": 8, "clock-reasons": 8, "memory-used": 30 * GIB}, H100 | OTHERS)
    variables = {"CUDA_VISIBLE_DEVICES": "0"}
    require_accelerator("gpu", print, own=False, root=root_with_driver, variables=variables)


def test_who_may_use_a_quarter_of_a_gpu_needs_less_of_it_free(driver, root_with_driver, libraries):
    libraries(torch=WORKING_TORCH)
    driver.has(H100 | OTHERS)
    quarter = {"SKYMARK_GPU_FRACTION": "0.25"}
    require_accelerator("gpu", print, own=False, root=root_with_driver, variables=quarter)


def test_the_pinned_builds_are_held_against_the_driver_before_their_venv_is_made(
    driver, root_with_driver, monkeypatch
):
    driver.has(H100, driver="470.82.01", cuda=11040)
    with pytest.raises(UsageError, match=r"CUDA 12\b.*470\.82\.01.*driver 525\b"):
        require_accelerator("gpu", pytest.fail, own=True, root=root_with_driver, variables={})


def test_a_library_that_never_answers_is_a_fault(libraries, monkeypatch):
    monkeypatch.setattr(seen_devices, "TIMEOUT_S", 0.5)
    python = libraries(jax="import time; time.sleep(60)")
    assert accelerator.faults_by_library("tpu", python) == {"jax": "no answer in 0.5 s"}


def test_a_machine_with_a_driver_but_no_library_is_refused(root_with_driver):
    environment = Path(sys.prefix)
    if any(environment.glob("lib/python*/site-packages/jax")):
        pytest.skip("this interpreter has JAX")
    with pytest.raises(UsageError, match=r"JAX .*torch .*--env current"):
        require_accelerator("gpu", print, own=False, root=root_with_driver)


def test_a_library_names_the_accelerators_that_it_computes_on(libraries):
    python = libraries(jax=WORKING_JAX, torch=WORKING_TORCH)
    seen = seen_devices.seen_devices(["torch"], "gpu", python)["torch"]
    assert (seen.fault, seen.names, seen.text) == (None, ("A Torch GPU",) * 2, "2 × A Torch GPU")
    assert seen_devices.seen_devices(["jax"], "gpu", python)["jax"].text == "A JAX GPU"


def test_nothing_is_asked_where_the_library_is_absent():
    if any(Path(sys.prefix).glob("lib/python*/site-packages/jax")):
        pytest.skip("this interpreter has JAX")
    absent = seen_devices.seen_devices(["jax"], "gpu", Path(sys.executable))["jax"]
    assert (absent.absent, absent.fault, absent.names) == (("jax",), None, ())


def test_a_run_looks_for_the_driver_and_leaves_the_rest_to_its_workers(root_with_driver, libraries):
    libraries(jax=BREAKING_JAX, torch=CPU_TORCH)
    require_accelerator("gpu", pytest.fail, own=False, asks=False, root=root_with_driver)


@pytest.mark.parametrize("target", ["cuda12", "cuda13", "tpu"])
def test_what_is_asked_for_an_accelerator_is_pinned(target):
    spec = accelerator.accelerator_venv(target)
    text = requirement_text(str(spec.locked))
    assert "jax==" in text
    assert "--hash=sha256:" in text
    assert ("jax-cuda12-plugin" in text) == (target == "cuda12")
    assert ("jax-cuda13-plugin" in text) == (target == "cuda13")


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_a_run_of_a_profile_for_an_accelerator_measures_nothing_without_it(tmp_path, platform):
    if has_driver(platform):
        pytest.skip(f"this machine has a {platform.upper()}")
    wants = plan([cell()]).model_copy(update={"platform": platform})

    class Silent:
        def stage(self, text):
            pytest.fail(text)

    with pytest.raises(UsageError, match=f"no {platform.upper()} here"):
        run(wants, Results(output=tmp_path / "out"), Silent(), Sweeps())
    assert not (tmp_path / "out").exists()


def test_every_machine_has_what_a_plan_for_a_cpu_asks_for(tmp_path):
    require_accelerator("cpu", pytest.fail, own=False, root=tmp_path)
