"""The table of stored features of ``docs/clip.md``: another prompt file for models scored before.

    python -m tests.clip_parity.features docs/clip.md

The encoders' time comes from the records of `skymark clip run`, the command's CPU time from the
system. The clip suite's interpreter makes the models and data sets: random weights, drawn pictures.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs
from skymark.model.sizes import percent
from skymark.model.venv import VenvSpec
from skymark.rundir.reader import open_run
from tests.clip_parity.__main__ import environment
from tests.clip_parity.speed import Spent, clip_run
from tests.faults.table import renew

ROOT = Path(__file__).parents[2]
ARCHITECTURE = Path(__file__).with_name("architectures") / "ViT-parity.json"
MODELS, SETS, IMAGES = 3, 3, 400
MOST = 0.05
"""Share of the encoders' time that another prompt file may take."""
COLUMNS = ("", "encoders, s", "share", "images encoded", "CPU s of the command")


def make(root: Path) -> None:
    """Write models of random weights, and data sets of drawn pictures."""
    import open_clip
    import torch

    from tests.clip.drawing import CLASSES, TEMPLATES, pictures
    from tests.clip.shards import write_shards

    shutil.copy(ARCHITECTURE, root / "my-ViT.json")
    open_clip.add_model_config(ARCHITECTURE.parent)
    for number in range(MODELS):
        torch.manual_seed(number)
        state = open_clip.create_model(ARCHITECTURE.stem).state_dict()
        torch.save(state, root / f"model-{number}.pt")
    for number in range(SETS):
        place = root / f"set-{number}"
        drawn = pictures(IMAGES, seed=2 * number)
        samples = [{"jpg": one.file, "cls": one.label_text} for one in drawn]
        write_shards(place / "test", samples)
        (place / "classnames.txt").write_text("\n".join(CLASSES))
        (place / "zeroshot_classification_templates.txt").write_text("\n".join(TEMPLATES))


def scored(root: Path, output: str, *more: str) -> tuple[float, float, Spent]:
    """Run the command; returns the encoders' seconds, the images encoded, and its time."""
    models = [f"{root / 'my-ViT.json'}:{root / f'model-{number}.pt'}" for number in range(MODELS)]
    sets = [root / f"set-{number}" for number in range(SETS)]
    kept = ("--output", str(root / output), "--features", str(root / "kept"))
    spent = Spent()
    with spent.counting():
        clip_run(models, sets, root / "cache", *kept, *more)
    run = open_run(root / output)
    assert len(run.records) == MODELS * SETS
    encoders_s = sum(record.metrics["encoder_s"].value for record in run.records)
    encoded = sum(
        int(record.metrics["images"].value)
        for record in run.records
        if record.conditions["pixels"] == "computed"
    )
    return encoders_s, encoded, spent


def main() -> None:
    """Score with the sets' own prompts, then with a file of prompts, and write the table."""
    page = sys.argv[1]
    own = Venvs(cache_directory(), lambda text: print(text, file=sys.stderr)).ensure(
        VenvSpec(name="clip", locked="adapters/clip.txt")
    )
    with TemporaryDirectory() as name:
        root = Path(name)
        making = [str(own.python), "-m", "tests.clip_parity.features", "--make", name]
        subprocess.run(making, env=environment(), cwd=ROOT, check=True)
        prompts = {f"set-{number}": ["a sketch of a {c}", "one {c}"] for number in range(SETS)}
        (root / "prompts.json").write_text(json.dumps(prompts))
        first_s, first, cold = scored(root, "first")
        again_s, again, warm = scored(root, "again", "--template-file", str(root / "prompts.json"))
    share = again_s / first_s
    rows = {
        "own prompts, features kept": [f"{first_s:.2f}", "", f"{first:,}", f"{cold.cpu_s:.1f}"],
        "another prompt file": [
            f"{again_s:.2f}", percent(share, 1), f"{again:,}", f"{warm.cpu_s:.1f}",
        ],
    }  # fmt: skip
    for title, cells in rows.items():
        print(title, *cells)
    renew(Path(page), "clip features", COLUMNS, tuple(rows), rows)
    if share > MOST or again:
        sys.exit(
            f"another prompt file took {percent(share, 1)} of the encoders' time, and {again} "
            "images"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(Path(sys.argv[2]))
    else:
        main()
