"""`skymark clip run` with a real model: planned, scored, resumed, shown, and exported."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.rundir.reader import open_run
from skymark.suites.clip.suite import VENV
from tests.functional.conftest import environment

pytestmark = pytest.mark.libraries

ARCHITECTURE = "ViT-S-32-alt"
"""The smallest but one of open_clip's, and quick."""
COLOURS = {"red": (220, 30, 30), "green": (30, 160, 60), "blue": (30, 60, 200)}
MAKE_WEIGHTS = f"""
import sys, torch, open_clip
for seed, file in enumerate(sys.argv[1:]):
    torch.manual_seed(seed)
    torch.save(open_clip.create_model("{ARCHITECTURE}").state_dict(), file)
"""
SCORES = {"acc1", "mean_per_class_recall", "image_retrieval_recall@5", "text_retrieval_recall@5"}


def write_set(directory: Path, kind: str) -> Path:
    """Write a data set of one shard in CLIP_benchmark's layout."""
    (directory / "test").mkdir(parents=True)
    (directory / "test" / "nshards.txt").write_text("1\n")
    (directory / "dataset_type.txt").write_text(f"{kind}\n")
    if kind == "classification":
        for language, names in (("", list(COLOURS)), (".de", ["rot", "grün", "blau"])):
            (directory / f"classnames{language}.txt").write_text("\n".join(names) + "\n")
            templates = directory / f"zeroshot_classification_templates{language}.txt"
            templates.write_text("a {c} picture\n{c}\n")
    with tarfile.open(directory / "test" / "0.tar", "w") as shard:
        for number in range(12):
            name = list(COLOURS)[number % 3]
            image = io.BytesIO()
            Image.new("RGB", (40 + number, 40), COLOURS[name]).save(image, "JPEG")
            label = ("txt", f"a {name} picture\n{name} {number}") if kind == "retrieval" else (
                "cls", str(number % 3)
            )  # fmt: skip
            for suffix, content in (("jpg", image.getvalue()), (label[0], label[1].encode())):
                entry = tarfile.TarInfo(f"s{number:04d}.{suffix}")
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))
    shutil.copytree(directory / "test", directory / "train")
    return directory


def skymark(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skymark", *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment(directory),
        timeout=600,
        check=False,
    )


def scores(directory: Path) -> dict[str, dict[str, float]]:
    """Return the accuracies of a run's cells."""
    return {
        record.cell.id: {
            name: record.metrics[name].value for name in SCORES & record.metrics.keys()
        }
        for record in open_run(directory).records
    }


def test_models_are_scored_on_their_data_sets_alone_and_beside_others(tmp_path):
    python = Venvs(cache_directory(), lambda _: None).ensure(VENV).python
    weights = [tmp_path / name for name in ("small.pt", "other.pt")]
    subprocess.run([str(python), "-c", MAKE_WEIGHTS, *map(str, weights)], check=True)
    write_set(tmp_path / "colours", "classification")
    write_set(tmp_path / "captions", "retrieval")
    models = [f"{ARCHITECTURE}:./{one.name}" for one in weights]
    sets = ("--datasets", "./colours", "./captions")
    tasks = ("--tasks", "linear_probe", "zeroshot_classification", "zeroshot_retrieval")
    cells = (*sets, *tasks, "--languages", "en", "de")
    what = ("--models", *models, *cells)

    done = skymark(tmp_path, "clip", "run", *what, "--output", "run")
    assert done.returncode == 0, done.stderr
    records = sorted((tmp_path / "run" / "records").iterdir())
    assert len(records) == 10
    before = [path.read_bytes() for path in records]
    again = skymark(tmp_path, "clip", "run", *what, "--output", "run", "--resume")
    assert again.returncode == 0, again.stderr
    assert [path.read_bytes() for path in records] == before

    where = ("--share", "--output", "alone/run")
    alone = skymark(tmp_path, "clip", "run", "--models", models[1], *cells, *where)
    assert alone.returncode == 0, alone.stderr
    of_one = scores(tmp_path / "alone" / "run")
    assert len(of_one) == 5
    assert of_one.items() <= scores(tmp_path / "run").items()

    status = skymark(tmp_path, "clip", "status", "run", "--json")
    assert [pair["state"] for pair in json.loads(status.stdout)] == ["done"] * 10
    table = skymark(tmp_path, "clip", "table", "run", "--sheet", "retrieval", "--format", "csv")
    assert table.stdout.startswith(
        "model,captions image R@5,captions image R@5 low,captions image R@5 high,captions text R@5,"
    )

    kept = ("clip", "run", "--models", models[1], "--datasets", "./colours", "--features", "kept")
    (tmp_path / "prompts.json").write_text(json.dumps({"colours": ["{c}, painted"]}))
    for name, more in (("first", ()), ("second", ("--template-file", "prompts.json"))):
        done = skymark(tmp_path, *kept, *more, "--output", name)
        assert done.returncode == 0, done.stderr
    encoded = [
        open_run(tmp_path / name).records[0].conditions["pixels"] for name in ("first", "second")
    ]
    assert encoded == ["computed", "kept features"]
    across = ("compare", "first", "second", "--across", "cells", "--gate")
    compared = skymark(tmp_path, *across)
    assert compared.returncode == 0, compared.stdout + compared.stderr

    out = skymark(tmp_path, "export", "run", "--to", "clip-benchmark", "--output", "json")
    assert out.returncode == 0, out.stderr
    found = {
        (content["dataset"], content["task"]): content
        for path in (tmp_path / "json").iterdir()
        if (content := json.loads(path.read_text()))
    }
    assert len(list((tmp_path / "json").iterdir())) == 10
    colours = found["colours", "zeroshot_classification"]["metrics"]
    assert colours["acc5"] is None
    assert 0 <= colours["acc1"] <= 1
    assert found["captions", "zeroshot_retrieval"]["metrics"]["image_retrieval_recall@5"] > 0
    probed = found["colours", "linear_probe"]["metrics"]
    assert 0 <= probed["lp_acc1"] <= 1
