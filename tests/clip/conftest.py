"""Small models of random weights, and data sets drawn with Pillow."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from skymark.model.effort import Effort
from skymark.model.record import Cell, Resources
from tests.clip.drawing import CLASSES, TEMPLATES, captions, pictures
from tests.clip.shards import write_shards

collect_ignore_glob: list[str] = []
try:
    import torch
except ModuleNotFoundError:  # another venv: these tests are not for it
    collect_ignore_glob.append("test_*.py")
else:
    torch.set_num_threads(1)

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2}
VISION = {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8}
ARCHITECTURES = {
    "tiny-ViT": {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": TEXT},
    "tiny-ViT-wide": {"embed_dim": 48, "vision_cfg": VISION, "text_cfg": TEXT},
    "tiny-RN": {
        "embed_dim": 32,
        "vision_cfg": {
            "image_size": 64,
            "layers": [1, 1, 1, 1],
            "width": 8,
            "patch_size": None,
        },
        "text_cfg": TEXT,
    },
    "tiny-custom": {
        "embed_dim": 32,
        "custom_text": True,
        "quick_gelu": True,
        "vision_cfg": VISION,
        "text_cfg": TEXT,
    },
}
ONCE = Effort(
    name="once", min_rounds=1, max_rounds=1, target_relative_interval=0.1, cell_timeout_s=60
)


class Region:
    """Timed region of a process that nobody samples; counts how often it was entered."""

    entered = 0

    def begins(self, exclude=()):
        self.entered += 1

    def ends(self):
        return Resources(peak_pss_bytes=1 << 20)


@dataclass(frozen=True)
class Bench:
    """Checkpoints, data sets and a cache below one directory."""

    root: Path
    cache: Path

    def model(self, architecture="tiny-ViT", checkpoint=None):
        return self.model_of(architecture, self.root / f"{checkpoint or architecture}.pt")

    def model_of(self, architecture, file):
        from skymark.suites.clip.specification import Model, Weights

        with file.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        return Model(architecture=architecture, weights=Weights(file=str(file), sha256=sha256))

    def specification(self, set="shapes", task="zeroshot_classification", **settings):
        from skymark.suites.clip.specification import ClipSpecification, Source

        model = settings.pop("model", None) or self.model(settings.pop("architecture", "tiny-ViT"))
        address = settings.pop("address", self.root / "sets" / set)
        source = Source(
            name=settings.pop("name", set),
            kind="directory",
            address=str(address),
            layout=settings.pop("layout", "webdataset"),
        )
        return ClipSpecification(model=model, source=source, task=task, **settings)

    def cell(self, *arguments, **settings):
        specification = self.specification(*arguments, **settings)
        return Cell(
            suite="clip",
            scenario=specification.source.name,
            variant=specification.task,
            adapter=f"{specification.model.architecture}:ckpt",
            specification=specification.json_content(),
        )

    def runner(self, features=None):
        from skymark.suites.clip.runner import ClipRunner

        cell = self.cell().model_copy(update={"reuse": features and str(features)})
        return ClipRunner(cell, self.cache, "cpu")

    def result(self, *arguments, runner=None, **settings):
        runner = runner or self.runner()
        cell = self.cell(*arguments, **settings)
        runner.prepare(cell)
        return runner.measure(cell, 0, ONCE, Region())


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Make everything once."""
    import open_clip

    root = tmp_path_factory.mktemp("clip")
    (root / "architectures").mkdir()
    for name, configuration in ARCHITECTURES.items():
        (root / "architectures" / f"{name}.json").write_text(json.dumps(configuration))
    open_clip.add_model_config(root / "architectures")
    for name in ARCHITECTURES:
        torch.manual_seed(3)
        network = open_clip.create_model(name)
        state = {
            key: value * 2 if value.is_floating_point() and value.ndim > 1 else value
            for key, value in network.state_dict().items()
        }
        torch.save(state, root / f"{name}.pt")
    make_sets(root / "sets")
    return root


def make_sets(root, counts=MappingProxyType({"train": 40, "test": 60})):
    """Write data sets of all kinds, with pictures by split."""
    for split, count in counts.items():
        drawn = pictures(count, seed=len(split))
        write_shards(
            root / "shapes" / split, [{"jpg": one.file, "cls": one.label_text} for one in drawn]
        )
        write_shards(
            root / "colours" / split, [{"png": one.file, "npy": one.multilabel} for one in drawn]
        )
        write_shards(
            root / "captions" / split,
            [{"jpg": one.file, "txt": "\n".join(captions(one)).encode()} for one in drawn],
        )
    for name in ("shapes", "colours"):
        (root / name / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
        templates = "\n".join(TEMPLATES) + "\n"
        (root / name / "zeroshot_classification_templates.txt").write_text(templates)
    (root / "colours" / "dataset_type.txt").write_text("multilabel\n")
    (root / "captions" / "dataset_type.txt").write_text("retrieval\n")


@pytest.fixture
def bench(made, tmp_path) -> Bench:
    """Return everything with a cache of its own."""
    return Bench(made, tmp_path / "cache")
