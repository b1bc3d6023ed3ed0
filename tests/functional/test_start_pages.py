"""The pages in docs/start: their commands run on small data, and their outputs are skymark's."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skymark.cache.location import cache_directory
from skymark.cli.main import add_suites, app
from skymark.execute.venvs import Venvs
from skymark.model.record import Status
from skymark.suites.clip.suite import VENV
from skymark.suites.loading.registry import adapters
from tests.functional.conftest import Skymark

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start"
LOADER, CLIP, RENTED = (
    START / f"{name}.md"
    for name in ("choose-a-loader", "evaluate-clip-models", "run-on-a-rented-gpu")
)

SETS_UP = "sets up a checkout or a shell"
RUNS = "a test below runs it"
CLOUD = "needs SkyPilot, so a test of tests/cloud runs it:"
TREATMENT = {
    "make demo": SETS_UP,
    "make setup": SETS_UP,
    "make cloud": SETS_UP,
    ". .venv/bin/activate": SETS_UP,
    "skymark plan": RUNS,
    "skymark run": RUNS,
    "skymark tune": RUNS,
    "skymark clip plan": RUNS,
    "skymark clip run": RUNS,
    "skymark clip table": RUNS,
    "skymark cost": f"{CLOUD} test_prices.py",
    "sudo .venv/bin/skymark rehearse": f"{CLOUD} test_rehearse.py",
    "skymark doctor --cloud": f"{CLOUD} test_launch.py",
    "skymark launch gpu_a100 --infra lambda --dry-run": f"{CLOUD} test_lifecycle.py",
    "skymark launch gpu_a100 --infra lambda": "costs money",
}
"""By the beginning of a command: how it is tested, or why no test runs it."""

FIT = """
import sys
from pathlib import Path

import open_clip
import torch
from PIL import Image

torch.manual_seed(0)
architecture, folder = sys.argv[1:]
model = open_clip.create_model(architecture).eval()
prepare = open_clip.image_transform(model.visual.image_size, is_train=False)
torch.save(model.state_dict(), "epoch_0.pt")
names = Path(folder, "classnames.txt").read_text().split()
files = [(path, name) for name in names for path in sorted(Path(folder, "test", name).glob("*"))]
texts = open_clip.get_tokenizer(architecture)([f"a {name} picture" for name in names])
projection, model.visual.proj = model.visual.proj, None
with torch.no_grad():
    pooled = model.encode_image(torch.stack([prepare(Image.open(path)) for path, _ in files]))
    wanted = model.encode_text(texts)
    wanted = (wanted - wanted.mean(0))[[names.index(name) for _, name in files]]
    projection.copy_(torch.linalg.lstsq(pooled, wanted).solution)
model.visual.proj = projection
torch.save(model.state_dict(), "epoch_1.pt")
"""
"""Makes random weights, and the same with an image projection that fits the pictures."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def commands(page: Path) -> list[str]:
    """Return the commands of a page, without their comments."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [shlex.join(shlex.split(line, comments=True)) for line in lines]


def words_of(page: Path, beginning: str) -> list[str]:
    """Return the words of the only command that begins so, without the program's name."""
    (command,) = (one for one in commands(page) if one.startswith(f"skymark {beginning} "))
    return shlex.split(command)[1:]


def shown(page: Path, beginning: str) -> list[str]:
    """Return the lines of the output that begins so, with single spaces."""
    (block,) = (one for one in blocks(page, "text") if one.startswith(beginning))
    return plain(block.splitlines())


def plain(lines: Iterable[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line.strip(" …")]


def replaced(command: list[str], **values: str) -> list[str]:
    """Return a command's words with another value of some options."""
    options = re.split(r" (?=--)", shlex.join(command))
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        (place,) = (at for at, one in enumerate(options) if one.split()[0] == option)
        options[place] = f"{option} {value}"
    return shlex.split(" ".join(options))


def draw(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> None:
    """A folder of a thousand small photographs in ten classes."""
    chance = np.random.default_rng(0)
    for number in range(1000):
        path = tmp_path / "photos" / f"class-{number % 10}" / f"{number:04d}.jpg"
        draw(path, chance.integers(0, 255, (20, 24, 3)))


@pytest.mark.core
@pytest.mark.parametrize("page", [LOADER, CLIP, RENTED], ids=lambda page: page.stem)
def test_each_command_of_a_page_is_understood_and_is_run_or_excused(page: Path) -> None:
    for command in commands(page):
        assert any(command.startswith(beginning) for beginning in TREATMENT), command
        if command.startswith("make "):
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert {*command.split()[1:]} <= {*targets}
        if "skymark" in command:
            words = shlex.split(command.partition("skymark ")[2])
            add_suites(words)
            app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.core
@pytest.mark.usefixtures("photos")
def test_a_plan_of_one_s_own_photographs_says_what_the_page_shows(skymark: Skymark) -> None:
    done = skymark(*words_of(LOADER, "plan"))
    assert done.status == 0, done.stderr
    expected = shown(LOADER, "scenario ")
    assert plain(done.stdout.splitlines())[: len(expected)] == expected


@pytest.mark.core
@pytest.mark.usefixtures("photos")
def test_the_run_of_the_page_answers_in_a_sentence(skymark: Skymark) -> None:
    words = replaced(words_of(LOADER, "run"), time="1s")
    done = skymark(*words, "--adapters", "numpy", "--effort", "check")
    assert done.status == 0, done.stderr
    assert {one.status for one in done.records.values()} == {Status.OK}
    assert "samples/s" in done.stdout


@pytest.mark.core
def test_the_answer_on_the_page_is_that_of_the_published_run(
    tmp_path: Path, skymark: Skymark
) -> None:
    shutil.copytree(ROOT / "benchmarks" / "results" / "ci_cpu", tmp_path / "ci_cpu")
    done = skymark("report", "ci_cpu", COLUMNS="400")
    assert done.status == 0, done.stderr
    lines = plain(done.stdout.splitlines())
    for line in shown(LOADER, "CV-1:small: NVIDIA DALI"):
        assert any(one.startswith(line) for one in lines), line


@pytest.mark.core
@pytest.mark.usefixtures("photos")
def test_the_tune_of_the_page_names_settings_in_the_same_table(skymark: Skymark) -> None:
    # As on the page, epochs are too short for a steady stream.
    small = {"step_ms": "2", "batch": "200", "adapters": "numpy", "grid": "workers=0,1 prefetch=2"}
    words = replaced(words_of(LOADER, "tune"), **small, effort="check")
    done = skymark(*words, "--target", "0.01")
    assert done.status == 0, done.stderr
    answer, header, *_ = shown(LOADER, "grain workers=1")
    assert answer.partition(" prefetch=2 ")[2].partition("99.3 %")[0] in done.stdout
    assert header in plain(done.stdout.splitlines())
    assert "again: skymark run" in done.stdout


@pytest.mark.core
def test_the_settings_on_the_page_are_those_that_grain_is_given() -> None:
    *_, code = shown(LOADER, "grain workers=1")
    assert code == adapters()["grain"].code(1, 2, in_threads=False)


@pytest.fixture
def checkpoints(tmp_path: Path) -> None:
    """The folder of colours that the page describes, with two checkpoints beside it."""
    chance = np.random.default_rng(0)
    colours = {"blue": (30, 60, 200), "green": (30, 160, 60), "red": (220, 30, 30)}
    folder = tmp_path / "colours"
    for number in range(24):
        name = list(colours)[number % 3]
        noisy = np.array(colours[name]) + chance.normal(0, 40, (48, 64, 3))
        draw(folder / "test" / name / f"{number}.jpg", noisy.clip(0, 255))
    (folder / "classnames.txt").write_text("\n".join(colours) + "\n")
    (folder / "zeroshot_classification_templates.txt").write_text("a {c} picture\n")
    (folder / "dataset_type.txt").write_text("classification\n")
    python = Venvs(cache_directory(), lambda _: None).ensure(VENV).python
    subprocess.run(
        [str(python), "-c", FIT, "ViT-S-32-alt", "colours"],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )


def without_digests(lines: Iterable[str]) -> list[str]:
    """Return lines without the digits of a file's digest, and without what a machine changes."""
    return [re.sub(r"@[0-9a-f]{8}", "@", line) for line in lines]


@pytest.mark.libraries
@pytest.mark.usefixtures("checkpoints")
def test_the_better_of_two_checkpoints_is_named_as_on_the_page(skymark: Skymark) -> None:
    planned = skymark(*words_of(CLIP, "clip plan --models ViT-S-32-alt:./epoch_0.pt"))
    assert planned.status == 0, planned.stderr
    (size, *_) = shown(CLIP, "colours:zeroshot_classification on")
    assert size.rpartition("/test: ")[2] in planned.stderr
    done = skymark(*words_of(CLIP, "clip run"), "--output", "run", COLUMNS="400")
    assert done.status == 0, done.stderr
    (answer,) = without_digests(shown(CLIP, "colours:zeroshot_classification: "))
    assert answer in without_digests(plain(done.stdout.splitlines()))
    table = skymark("clip", "table", "run")
    assert (
        without_digests(shown(CLIP, "| model"))
        == without_digests(plain(table.stdout.splitlines()))[1:]
    )


@pytest.mark.core
def test_the_plan_of_public_models_is_the_page_s(skymark: Skymark) -> None:
    done = skymark(*words_of(CLIP, "clip plan --models 'ViT-B-*:laion2b*'"))
    assert done.status == 0, done.stderr
    assert shown(CLIP, "144 pairs") == plain(done.stderr.splitlines())
