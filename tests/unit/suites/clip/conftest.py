"""Plans of the clip suite, without the command line."""

from __future__ import annotations

import pytest

from skymark.model.plan import Selection
from skymark.suites.clip.suite import ClipSuite

LAION = "ViT-B-32:laion2b_s34b_b79k"


@pytest.fixture
def planned():
    """A function that plans a selection of one model unless others are named."""
    suite = ClipSuite()

    def plan(*datasets, models=(LAION,), settings=None, platform="cpu", **options):
        selection = Selection(
            platform=platform,
            scenarios=datasets or ("wds/vtab/cifar10",),
            adapters=models,
            settings=settings or {},
            options={
                name: list(value) if isinstance(value, tuple) else value
                for name, value in options.items()
            },
        )
        return suite.plan(selection, suite.efforts["quick"])

    return plan


@pytest.fixture
def web_set(tmp_path):
    """A function that makes a directory in CLIP_benchmark's layout; its shards are no tars."""

    def make(name="mine", kind=None, split="test", shards=2, **files):
        directory = tmp_path / name
        (directory / split).mkdir(parents=True)
        (directory / split / "nshards.txt").write_text(f"{shards}\n")
        for number in range(shards):
            (directory / split / f"{number}.tar").write_bytes(b"x" * 90_000)
        (directory / "classnames.txt").write_text("cat\ndog\nowl\n")
        (directory / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\n")
        if kind:
            (directory / "dataset_type.txt").write_text(f"{kind}\n")
        for file, text in files.items():
            (directory / file).write_text(text)
        return directory

    return make
