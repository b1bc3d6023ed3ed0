"""The runner: what it refuses, what it hands on to `skymark run`, and what it says of accelerators.

No accelerator is at hand here, so libraries that see one, or break, are stood in for by modules of
a few lines; the processes that ask them are real.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.runners import accelerator, full_runner
from skymark.machine.rehearsal import REHEARSAL, REHEARSAL_VARIABLE
from skymark.model.errors import UsageError

ROOT = Path(__file__).parents[2]
ONE_CELL = ("--scenarios", "TAB-1", "--adapters", "numpy", "--rounds", "1")
WORKING_TORCH = """
class version: cuda = "13.2"
__version__ = "2"
class _Number:
    def sum(self): return self
    def item(self): return 2.0
def ones(count, device):
    assert device == "cuda"
    return _Number()
"""
WORKING_JAX = """
class _Array:
    def __add__(self, other): return self
    def block_until_ready(self): return self
def devices(platform): return [platform]
def device_put(value, device): return _Array()
"""
BLIND_JAX = "def devices(platform): raise RuntimeError('Unknown backend ' + platform)"
BREAKING_JAX = "def devices(platform): import os; os.abort()"
CPU_TORCH = "class version: cuda = None\n__version__ = '2+cpu'"


def read(*arguments):
    return full_runner.read(["--platform", "cpu", "--output", "out", *arguments])


def runner(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SKYMARK_LOCK": str(directory / "machine.lock"), **variables}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.runners.full_runner", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=False,
    )


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
        folder.mkdir()
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        return Path(sys.executable)

    return install


@pytest.mark.parametrize("simulated", [True, False])
def test_only_a_simulated_machine_is_not_asked_for_its_gpu_in_a_rehearsal(
    tmp_path, monkeypatch, capsys, simulated
):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv(REHEARSAL_VARIABLE, "1")
    mark = tmp_path / "run" / "systemd" / "container"
    mark.parent.mkdir(parents=True)
    mark.write_text(f"{REHEARSAL}\n" if simulated else "lxc\n")
    if simulated:
        accelerator.require_accelerator("gpu", own=False, root=tmp_path)
        assert "this is a rehearsal" in capsys.readouterr().err
    else:
        with pytest.raises(UsageError, match="no GPU here"):
            accelerator.require_accelerator("gpu", own=False, root=tmp_path)


def test_options_of_run_are_handed_on_as_they_were_given():
    options = ("--scenarios", "CV-1", "NLP-1", "--store", "s3://bucket/prefix", "--set", "a=1")
    assert read(*options).passed_on == options


@pytest.mark.parametrize("arguments", [(), ("--platform", "cpu"), ("--platform", "npu")])
def test_a_command_without_platform_or_place_ends_with_status_2(arguments):
    with pytest.raises(SystemExit) as ended:
        full_runner.read(arguments)
    assert ended.value.code == 2


def test_one_plan_always_gets_the_same_directory_and_another_plan_another():
    def directory(*options):
        request = full_runner.read(["--platform", "cpu", "--results", "there", *options])
        plan, _ = full_runner.plan_of(request.passed_on)
        return full_runner.directory_of(request, plan)

    first = directory(*ONE_CELL)
    assert first.parent == Path("there")
    assert first.name.startswith("ci_cpu-")
    assert directory(*ONE_CELL, "--store", "file:///elsewhere") == first
    assert directory(*ONE_CELL, "--seed", "8") != first


def test_an_output_directory_is_taken_as_it_is():
    request = read("--results", "there")
    plan, _ = full_runner.plan_of(request.passed_on)
    assert full_runner.directory_of(request, plan) == Path("out")


def test_a_profile_for_gpus_is_refused_on_a_cpu(tmp_path):
    output = tmp_path / "out"
    done = runner(tmp_path, "--platform", "cpu", "--profile", "gpu_a100", "--output", str(output))
    assert done.returncode == 2
    assert "profile gpu_a100 is for a machine with a GPU; give --platform gpu" in done.stderr
    assert not output.exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [("--scenarioes", "Unknown option"), ("--profile", "unknown profile 'CV-1'")],
)
def test_what_run_does_not_know_ends_with_status_2(tmp_path, option, said):
    place = ("--platform", "cpu", "--output", str(tmp_path / "out"))
    done = runner(tmp_path, *place, option, "CV-1")
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_without_an_accelerator_nothing_starts(tmp_path, platform):
    if any(found for one in accelerator.DEVICE_FILES[platform] for found in Path("/").glob(one)):
        pytest.skip(f"this machine has a {platform.upper()}")
    output = tmp_path / "out"
    done = runner(tmp_path, "--platform", platform, "--output", str(output), *ONE_CELL)
    assert done.returncode == 2
    assert f"no {platform.upper()} here" in done.stderr
    assert not output.exists()


def test_both_libraries_that_compute_on_the_accelerator_satisfy(root_with_driver, libraries):
    libraries(jax=WORKING_JAX, torch=WORKING_TORCH)
    accelerator.require_accelerator("gpu", own=False, root=root_with_driver)


@pytest.mark.parametrize(
    ("jax", "torch", "said"),
    [
        (BLIND_JAX, WORKING_TORCH, "jax sees no GPU: RuntimeError: Unknown backend gpu"),
        (BREAKING_JAX, WORKING_TORCH, "jax sees no GPU: SIGABRT ended it"),
        (WORKING_JAX, CPU_TORCH, "torch sees no GPU: RuntimeError: torch 2+cpu is a build for"),
        ("import sys; sys.exit(3)", WORKING_TORCH, "jax sees no GPU: it ended with status 3"),
    ],
)
def test_one_library_that_sees_nothing_is_enough_to_refuse(
    root_with_driver, libraries, jax, torch, said
):
    libraries(jax=jax, torch=torch)
    with pytest.raises(UsageError, match=said.replace("+", r"\+")):
        accelerator.require_accelerator("gpu", own=False, root=root_with_driver)


def test_a_library_that_never_answers_is_a_fault(libraries, monkeypatch):
    monkeypatch.setattr(accelerator, "TIMEOUT_S", 0.5)
    python = libraries(jax="import time; time.sleep(60)")
    assert accelerator.see("tpu", python) == {"jax": "no answer in 0.5 s"}


def test_a_machine_with_a_driver_but_no_library_is_refused(root_with_driver):
    environment = Path(sys.prefix)
    if any(environment.glob("lib/python*/site-packages/jax")):
        pytest.skip("this interpreter has JAX")
    with pytest.raises(UsageError, match="neither JAX nor torch is installed"):
        accelerator.require_accelerator("gpu", own=False, root=root_with_driver)


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_what_is_asked_for_an_accelerator_is_pinned(platform):
    spec = accelerator.environment_spec(platform)
    text = (ROOT / "requirements" / str(spec.locked)).read_text()
    assert "jax==" in text
    assert "--hash=sha256:" in text


def test_little_shared_memory_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(full_runner, "ENOUGH_SHARED_MEMORY_BYTES", 1 << 62)
    full_runner.warn_of_little_shared_memory(tmp_path)
    assert "--shm-size=8g" in capsys.readouterr().err
    monkeypatch.setattr(full_runner, "ENOUGH_SHARED_MEMORY_BYTES", 1)
    full_runner.warn_of_little_shared_memory(tmp_path)
    assert capsys.readouterr().err == ""


def test_a_request_to_terminate_while_the_accelerator_is_asked_ends_with_130(
    tmp_path, libraries, monkeypatch, root_with_driver
):
    """Before `skymark run` begins nobody else listens."""
    libraries(jax="import time; open('started', 'w').close(); time.sleep(60)")
    source = (
        "import sys; from pathlib import Path; from benchmarks.runners import accelerator as a, "
        "full_runner as f; real = a.require_accelerator; f.require_accelerator = "
        f"lambda p, own: real(p, own=False, root=Path({str(root_with_driver)!r})); "
        f"sys.path.insert(0, {str(ROOT)!r}); "
        "sys.exit(f.entry_point(['--platform', 'gpu', '--output', 'out']))"
    )
    environment = {**os.environ}
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}{os.pathsep}{ROOT}"
    process = subprocess.Popen([sys.executable, "-c", source], cwd=tmp_path, env=environment)
    try:
        while process.poll() is None and not (tmp_path / "started").exists():
            signal.sigtimedwait([], 0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.wait()


def test_the_runners_work_below_another_package_name(tmp_path):
    """An installed skymark carries them as `skymark.runners`."""
    shutil.copytree(ROOT / "benchmarks" / "runners", tmp_path / "elsewhere" / "runners")
    done = subprocess.run(
        [sys.executable, "-m", "elsewhere.runners.full_runner", "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--platform" in done.stdout
