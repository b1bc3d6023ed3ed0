"""Sessions: thin fronts to the commands that do the work. `make` calls these."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]

# The tools lie beside this interpreter, also where its venv is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

ROOT = Path(__file__).parent
REQUIREMENTS = ROOT / "requirements"
ADAPTERS = REQUIREMENTS / "adapters"
EXTRAS = {
    "dev": ("dev",),
    "container": ("bucket", "data", "report", "wandb"),
    "cloud": ("bucket", "rehearsal"),
}
"""Which of skymark's extras a requirement file pins, besides what its ``.in`` file names."""
ALONE = ("trainers",)
"""Requirement files without dependencies, which another file pins."""
BANDIT = "B613,B614,B615"
"""What ruff has not of bandit: signs that turn text round, `torch.load`, unpinned downloads."""
SIDE_BY_SIDE = ("--dist", "loadfile", "--no-loadscope-reorder")
"""How pytest deals out the tests to its processes."""
PROCESSES = ("-n", "4", *SIDE_BY_SIDE, "--benchmark-disable")
"""Processes of pytest, beside those of the simulated clouds; `-n 0` has none. On two cores four
keep both busy: with two a quarter of the time went by in waits for disks, pipes and servers, with
three a twelfth."""
CLOUD_PROCESSES = ("-n", "2", *SIDE_BY_SIDE)
"""One for the tests that share a simulated cloud, and one for all others of SkyPilot."""
IN_MINUTES = "not cloud_faults and not cloud_day and not cloud_prices"
"""Markers of tests of SkyPilot that do not take an hour."""
SLOWEST = ("--durations=20",)
EVIDENCE = "docs/reference/evidence.md"
CORE = ("tests/unit", "tests/processes", "tests/functional")
"""Folders with tests marked `core`."""
TIMED = "tests/benchmarks"
CLOUD = "tests/cloud"
CLIP = "tests/clip"
"""Tests of the clip suite's worker side, which run in its venv, with torch."""
CAPTIONS = f"{CLIP}/test_captioning.py"
"""Those of them that run in the venv in which captions are written."""
IN_VENV = ("python", "-m", "tests.in_venv")
"""Runs pytest in a venv that it makes: that of SkyPilot, or an adapter's."""
LARGE_BYTES = 5_000_000
SIZES = REQUIREMENTS / "sizes.toml"
SIZES_HEADER = """\
# Unpacked size of large packages, in megabytes, as their wheels for Linux on x86-64 list them.
# `nox -s sizes` makes it from the adapters' venvs. It estimates set-ups; nothing obeys it."""
BUILDERS = ("docker", "podman", "buildah")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the direction of imports."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("bandit", "--quiet", "--recursive", "src", "benchmarks", "--tests", BANDIT)
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need Python and git alone, in minutes, or those named."""
    if session.posargs:
        session.run("python", "-m", "pytest", *PROCESSES, *session.posargs)
    else:
        run_core_tests(session, "python")


@nox.session
def tests_all(session: nox.Session) -> None:
    """Run all tests that `tests` leaves: every library, container, store, and simulated cloud."""
    run_other_tests(session, "python")


@nox.session
def coverage(session: nox.Session) -> None:
    """Run every test and count the lines and branches that they and their workers reach."""
    session.run("coverage", "erase")
    run_core_tests(session, "coverage", "run")
    run_other_tests(session, "coverage", "run")
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


def run_core_tests(session: nox.Session, *python: str) -> None:
    """Run the tests marked `core` by a command that runs modules."""
    session.run(*python, "-m", "pytest", *PROCESSES, *SLOWEST, "-m", "core", *CORE)


def run_other_tests(session: nox.Session, *python: str) -> None:
    """Run all other tests, each folder in the venv that it needs.

    Tests that read the clock run alone. Tests in a venv of their own run beside all others, and
    their output comes at the end.
    """
    pytest = (*python, "-m", "pytest", *SLOWEST)
    session.run(*pytest, "--benchmark-disable", TIMED)
    in_venv = (*python, "-m", "tests.in_venv")
    cloud = (*in_venv, "cloud", *CLOUD_PROCESSES, *SLOWEST, CLOUD, "-m", IN_MINUTES)
    clip = (*in_venv, "clip", *SLOWEST, CLIP, f"--ignore={CAPTIONS}")
    elsewhere = (f"--ignore={place}" for place in (TIMED, CLIP, CLOUD))
    captions = (*in_venv, "clip-captions", *SLOWEST, CAPTIONS)
    with (
        beside(session, CLOUD, cloud),
        beside(session, CLIP, clip),
        beside(session, CAPTIONS, captions),
    ):
        session.run(*pytest, *PROCESSES, "-m", "not core", *elsewhere)


@nox.session
def clip_tests(session: nox.Session) -> None:
    """Run the tests of the clip suite's worker side in its venv, or those named."""
    session.run(*IN_VENV, "clip", *(session.posargs or [CLIP, f"--ignore={CAPTIONS}"]))
    if not session.posargs:
        session.run(*IN_VENV, "clip-captions", CAPTIONS)


@nox.session
def cloud_tests(session: nox.Session) -> None:
    """Run the tests that need SkyPilot, or those named."""
    session.run(*IN_VENV, "cloud", *(session.posargs or [CLOUD]))


@nox.session
def libraries(session: nox.Session) -> None:
    """Verify every library in every scenario (half an hour); `tests_all` does every third pair."""
    tests = ("tests/functional/test_libraries.py", "-k", "can_do", "--all-pairs")
    session.run("python", "-m", "pytest", *PROCESSES, *tests, *session.posargs)


@nox.session
def following(session: nox.Session) -> None:
    """Count the functions that an option passes on its way to SkyPilot: nox -s following."""
    python = cloud_venv(session)
    session.run(python, "-m", "tests.following", *session.posargs, external=True)


@nox.session
def cloud_day(session: nox.Session) -> None:
    """Try a SkyPilot user's commands, `sky`'s beside skymark's, on two machines (half an hour)."""
    session.run(*IN_VENV, "cloud", CLOUD, "-m", "cloud_day", *session.posargs)


@nox.session
def cloud_faults(session: nox.Session) -> None:
    """Make docs/reference/cloud-faults.md's tables: every fault of a rented machine (two hours)."""
    table = ("--fault-table", "docs/reference/cloud-faults.md")
    session.run(*IN_VENV, "cloud", CLOUD, *table, *session.posargs)


@nox.session
def cloud_prices(session: nox.Session) -> None:
    """Compare quote and bill on every way to a machine (an hour)."""
    table = ("--fault-table", EVIDENCE)
    test = f"{CLOUD}/test_price_table.py"
    session.run(*IN_VENV, "cloud", test, *table, *session.posargs)


@nox.session
def cheats(session: nox.Session) -> None:
    """Measure wrong and honest loaders of each kind, or of those named; list wrong verdicts."""
    session.run("python", "-m", "tests.oracle_cells", *session.posargs)


@nox.session
def reference(session: nox.Session) -> None:
    """Make the pages of docs/reference from the code (seconds)."""
    session.run("python", "-m", "tests.reference_pages")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site of the documentation into build/docs; a broken link ends it (seconds)."""
    venv = ROOT / ".venv-docs"
    python = str(venv / "bin" / "python")
    pins = str(REQUIREMENTS / "docs.txt")
    if not venv.exists():
        session.run("uv", "venv", "--quiet", str(venv))
    session.run("uv", "pip", "sync", "--quiet", "--python", python, "--require-hashes", pins)
    # Material tells of the end of its support in 2027 at each build.
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run(python, "-m", "mkdocs", "build", "--strict", env=quiet, external=True)


@contextmanager
def beside(session: nox.Session, tests: str, command: Sequence[str]) -> Iterator[None]:
    """Run a folder's tests beside others, and print what they said when both have ended."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        session.log(f"{tests} go on beside; what they say comes at the end")
        running = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            yield
        except KeyboardInterrupt:
            running.send_signal(signal.SIGINT)
            raise
        finally:
            status = running.wait()
            said.seek(0)
            shutil.copyfileobj(said, sys.stdout)
            sys.stdout.flush()
    if status:
        session.error(f"{tests} failed")


def in_the_cloud(session: nox.Session, command: str, *arguments: str) -> None:
    """Run a command of skymark in the venv of SkyPilot."""
    skymark = Path(cloud_venv(session)).with_name("skymark")
    session.run(str(skymark), command, *arguments, external=True)


@nox.session
def cloud(session: nox.Session) -> None:
    """Make the venv of SkyPilot, which `skymark launch` and the other cloud commands run in."""
    cloud_venv(session)


@nox.session
def cloud_cpu(session: nox.Session) -> None:
    """Run the cpu profile on a rented machine: nox -s cloud_cpu -- --infra gcp."""
    in_the_cloud(session, "launch", "cpu", *session.posargs)


@nox.session
def cloud_gpu(session: nox.Session) -> None:
    """Run the gpu_a100 profile on a rented machine: nox -s cloud_gpu -- --infra vast."""
    in_the_cloud(session, "launch", "gpu_a100", *session.posargs)


@nox.session
def cloud_gpu_h100(session: nox.Session) -> None:
    """Run the gpu_h100 profile on a rented machine."""
    in_the_cloud(session, "launch", "gpu_h100", *session.posargs)


@nox.session
def cloud_tpu(session: nox.Session) -> None:
    """Run the tpu_v5e profile on a rented machine."""
    in_the_cloud(session, "launch", "tpu_v5e", *session.posargs)


@nox.session
def cloud_exec(session: nox.Session) -> None:
    """Run more on a machine that is there: nox -s cloud_exec -- NAME --scenarios CV-1."""
    in_the_cloud(session, "exec", *session.posargs)


@nox.session
def cloud_rsync(session: nox.Session) -> None:
    """Copy files from a machine or to one: nox -s cloud_rsync -- NAME:results copies."""
    in_the_cloud(session, "rsync", *session.posargs)


@nox.session
def cloud_results(session: nox.Session) -> None:
    """Bring a run home from a machine, verified: nox -s cloud_results -- NAME."""
    in_the_cloud(session, "collect", *session.posargs)


@nox.session
def cost(session: nox.Session) -> None:
    """Say what a profile costs: nox -s cost -- gpu_h100 --max-cost 3."""
    in_the_cloud(session, "cost", *(session.posargs or ["gpu_a100"]))


def cloud_venv(session: nox.Session) -> str:
    """Make the venv of SkyPilot, which wants older packages than the tools; its Python."""
    here = {"PYTHONPATH": str(ROOT / "src")}
    session.run("python", "-m", "skymark", "env", "cloud", env=here)
    return str(ROOT / ".venv-cloud" / "bin" / "python")


@nox.session
def faults(session: nox.Session) -> None:
    """Make the table of docs/reference/faults.md: every fault, at twenty moments (half an hour)."""
    table = ("--fault-moments", "20", "--fault-table", "docs/reference/faults.md")
    session.run("python", "-m", "pytest", "tests/faults", *table, *session.posargs)


@nox.session
def accuracy(session: nox.Session) -> None:
    """Simulate intervals and comparisons for docs/reference/evidence.md (two minutes)."""
    page = session.posargs or [EVIDENCE]
    session.run("python", "-m", "tests.interval_coverage", *page)
    session.run("python", "-m", "tests.duet_accuracy", *page)


@nox.session
def spread(session: nox.Session) -> None:
    """Measure the spread of rounds for docs/reference/evidence.md (a quarter of an hour)."""
    session.run("python", "-m", "tests.round_spread", EVIDENCE, *session.posargs)


@nox.session
def pairs(session: nox.Session) -> None:
    """Measure pairs in slices for the page of evidence (three hours); -- --runs DIR [--busy]."""
    session.run("python", "-m", "tests.measured_pairs", EVIDENCE, *session.posargs)


@nox.session
def busy(session: nox.Session) -> None:
    """Print intervals and named rounds beside a program that comes and goes (20 minutes)."""
    session.run("python", "-m", "tests.busy", *session.posargs)


@nox.session
def replayed(session: nox.Session) -> None:
    """Replay real rounds for docs/reference/evidence.md (an hour); -- --run DIR."""
    session.run("python", "-m", "tests.replayed_rounds", EVIDENCE, *session.posargs)


@nox.session
def rented_share(session: nox.Session) -> None:
    """Measure the share of measuring in a rented run (20 minutes)."""
    session.run("python", "-m", "tests.rented_share", EVIDENCE, *session.posargs)


@nox.session
def tune_table(session: nox.Session) -> None:
    """Measure tunes beside exhaustive sweeps, eight workloads (some hours)."""
    session.run("python", "-m", "tests.tune_table", EVIDENCE, *session.posargs)


@nox.session
def settings_table(session: nox.Session) -> None:
    """Make the table of docs/reference/settings.md: pairwise settings (ten minutes)."""
    session.run(
        "python", "-m", "tests.settings_table", "docs/reference/settings.md", *session.posargs
    )


@nox.session
def scaling(session: nox.Session) -> None:
    """Make the table of docs/scaling.md: libraries by number of workers (an hour on 16 cores)."""
    session.run("python", "-m", "tests.scaling", "docs/scaling.md", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Change bytes of small data sets 100,000 times: no fault but a refusal (15 minutes)."""
    session.run("python", "-W", "ignore", "-m", "tests.fuzzed_readers", *session.posargs)


@nox.session
def image_table(session: nox.Session) -> None:
    """Make the table of docs/reference/images.md: each kind × libraries' own decoders (minutes)."""
    session.run("python", "-m", "tests.image_table", "docs/reference/images.md", *session.posargs)


@nox.session
def cache_table(session: nox.Session) -> None:
    """Make the tables of docs/reference/caches.md: each policy, up to 64 processes (an hour)."""
    page = "docs/reference/caches.md"
    session.run("python", "-m", "tests.cache_table", *(session.posargs or [page]))


@nox.session
def clip_parity(session: nox.Session) -> None:
    """Make docs/reference/clip-parity.md's table of metrics of both programs (some minutes)."""
    page = "docs/reference/clip-parity.md"
    session.run("python", "-m", "tests.clip_parity", page, *session.posargs)


@nox.session
def clip_settings(session: nox.Session) -> None:
    """Make docs/reference/clip-parity.md's table of precisions and settings (minutes)."""
    page = "docs/reference/clip-parity.md"
    session.run("python", "-m", "tests.clip_parity.settings", page, *session.posargs)


@nox.session
def clip_speed(session: nox.Session) -> None:
    """Time skymark's CLIP evaluation and CLIP_benchmark's, three times (ten minutes)."""
    session.run("python", "-m", "tests.clip_parity.speed", EVIDENCE, *session.posargs)


@nox.session
def clip_verdicts(session: nox.Session) -> None:
    """Compare verdicts on two fitted CLIP models with what is known of them (a minute)."""
    test = f"{CLIP}/test_two_models.py"
    session.run(*IN_VENV, "clip", "-n", "0", test, "--fault-table", EVIDENCE, *session.posargs)


@nox.session
def clip_features(session: nox.Session) -> None:
    """Make docs/clip.md's table of another prompt file on stored features (two minutes)."""
    session.run("python", "-m", "tests.clip_parity.features", "docs/clip.md")


@nox.session
def clip_models(session: nox.Session) -> None:
    """Write the sizes and tags of open_clip's models anew, after new pins (minutes)."""
    session.run("python", "-m", "tests.open_clip_models")


@nox.session
def fuzz_clip(session: nox.Session) -> None:
    """Read mutated data sets by the clip suite (ten minutes): nox -s fuzz_clip -- COUNT [SEED]."""
    session.run("python", "-m", "tests.clip_fuzz", *(session.posargs or ["50000"]))


@nox.session
def published(session: nox.Session) -> None:
    """Make docs/reference/measured.md's tables from the runs in benchmarks/results (seconds)."""
    session.run(
        "python", "-m", "tests.published_runs", "docs/reference/measured.md", *session.posargs
    )


@nox.session
def attacks(session: nox.Session) -> None:
    """Make the table of attacks in the page of evidence: every attempt to do harm (minutes)."""
    session.run("python", "-m", "tests.attacks", EVIDENCE, *session.posargs)


@nox.session
def docker(session: nox.Session) -> None:
    """Build an image with what is installed: nox -s docker -- cpu, gpu or tpu."""
    (platform,) = session.posargs or ["cpu"]
    builder = next((name for name in BUILDERS if fault_of(name) is None), None)
    if builder is None:
        faults = (f"  {name} {fault_of(name)}" for name in BUILDERS)
        session.error("\n".join(("nothing here can build an image:", *faults)))
    commit = session.run("git", "rev-parse", "HEAD", silent=True, external=True)
    options = ("--build-arg", f"GIT_SHA={str(commit).strip()}", "--tag", f"skymark:{platform}")
    file = f"benchmarks/docker/Dockerfile.{platform}"
    session.run(builder, "build", "--file", file, *options, ".", external=True)


@nox.session
def sizes(session: nox.Session) -> None:
    """Renew requirements/sizes.toml from the venvs below the cache: nox -s sizes -- libtpu.

    Packages that none of them has, such as those for accelerators, are named, and measured alone.
    """
    cache = Path(os.environ.get("SKYMARK_CACHE", Path.home() / ".cache" / "skymark"))
    places = list(cache.glob("venvs/*/lib/python*/site-packages"))
    alone = Path(session.create_tmp())
    for name in session.posargs:
        target = alone / name
        session.run("uv", "pip", "install", "--quiet", "--no-deps", "--target", str(target), name)
        places.append(target)
    found: dict[str, int] = {}
    for record in (file for place in places for file in place.glob("*.dist-info/RECORD")):
        name = record.parent.name.partition("-")[0].replace("_", "-").replace(".", "-").lower()
        size = sum(int(size) for *_, size in csv.reader(record.open()) if size)
        found[name] = max(size, found.get(name, 0))
    large = {name: size for name, size in sorted(found.items()) if size >= LARGE_BYTES}
    small = [size for size in found.values() if size < LARGE_BYTES]
    session.log(f"{len(small)} smaller packages have {sum(small) / len(small):.0f} bytes each")
    lines = [f"{name} = {size / 1e6:.0f}" for name, size in large.items()]
    SIZES.write_text("\n".join([SIZES_HEADER, "[megabytes]", *lines, ""]))


def fault_of(builder: str) -> str | None:
    """Say why a program can build no image; a client may be there without its daemon."""
    if shutil.which(builder) is None:
        return "is not installed"
    asked = subprocess.run([builder, "info"], capture_output=True, text=True, check=False)
    return None if asked.returncode == 0 else f"does not work: {asked.stderr.strip()}"


@nox.session
def demo(session: nox.Session) -> None:
    """Compare three loaders with small environments in some minutes."""
    session.run("skymark", "run", "--profile", "demo", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the ci_cpu profile on this machine for ten minutes, or as named: -- --rounds 3."""
    session.run("skymark", "run", "--profile", "ci_cpu", *(session.posargs or ["--time", "10m"]))


@nox.session
def watch(session: nox.Session) -> None:
    """Compare the verdicts on 24 planted loops with their answers: nox -s watch -- torch-tail."""
    session.run("python", "-m", "tests.planted_loops", *session.posargs)


@nox.session
def microbench(session: nox.Session) -> None:
    """Measure skymark's own cost per batch and the null loader."""
    session.run("python", "-m", "pytest", "tests/benchmarks", "--benchmark-only", *session.posargs)


@nox.session
def pins(session: nox.Session) -> None:
    """Renew the compiled requirement files: newest releases, hashes, no index addresses."""
    from skymark.suite.registry import suites

    venvs = [venv for suite in suites() for venv in suite.venvs().values()]
    specs = [spec for venv in venvs for spec in (venv, *venv.variants.values())]
    declared = {Path(spec.locked).stem: spec.declared for spec in specs if spec.locked is not None}
    compile_ = ("uv", "pip", "compile", "--quiet", "--upgrade", "--generate-hashes")
    options = ("--universal", "--python-version", "3.11", "--no-header", "--no-emit-index-url")
    for name in session.posargs or sorted(declared):
        directory = ADAPTERS if name in declared else REQUIREMENTS
        source = REQUIREMENTS / f"{name}.in"
        if name in declared:
            source = Path(session.create_tmp()).resolve() / f"{name}.in"
            source.write_text("\n".join(declared[name]))
        sources = [source] if source.exists() else []
        if name in EXTRAS:
            sources = [ROOT / "pyproject.toml", *sources]
        extras = [word for extra in EXTRAS.get(name, ()) for word in ("--extra", extra)]
        extras += ["--no-deps"] if name in ALONE else []
        with session.chdir(source.parent if name in declared else ROOT):
            target = str(directory / f"{name}.txt")
            session.run(*compile_, *options, *extras, *map(str, sources), "-o", target)


@nox.session
def resolve(session: nox.Session) -> None:
    """Prove that adapters' pins install on Linux x86-64: nox -s resolve -- grain.gpu; or all.

    Nothing is installed, so this needs no accelerator: uv finds a file with one of the hashes for
    every pin, and none that contradict each other.
    """
    files = [REQUIREMENTS / f"container-{name}.txt" for name in ("gpu", "gpu-cuda13", "tpu")]
    files += sorted(ADAPTERS.glob("*.txt"))
    if session.posargs:
        files = [path for path in files if path.stem in session.posargs]
    if not files:
        session.error(f"no pins are called {', '.join(session.posargs)}")
    python = Path(session.create_tmp()) / "empty" / "bin" / "python"
    session.run("uv", "venv", "--quiet", "--clear", "--python", "3.11", str(python.parents[1]))
    platform = ("--python-platform", "x86_64-manylinux_2_31")
    install = ("uv", "pip", "install", "--dry-run", "--python", str(python), *platform)
    for path in files:
        session.log(f"{path.stem}:")
        session.run(*install, "--require-hashes", "-r", str(path))
