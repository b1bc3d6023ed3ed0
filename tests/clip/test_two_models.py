"""Verdicts on two fitted models: false ones are rare, real ones as frequent as power says.

`nox -s clip_verdicts` writes the tables of the page of evidence from the same tests.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from scipy.stats import norm  # noqa: E402

from skymark.model.sizes import percent  # noqa: E402
from skymark.statistics.difference import Verdict, corrected  # noqa: E402
from skymark.statistics.outcomes import difference_in_outcomes  # noqa: E402
from skymark.suites.clip.encoding.encoder import Encoder, Settings  # noqa: E402
from skymark.suites.clip.encoding.loading import load_model  # noqa: E402
from skymark.suites.clip.metrics import DECLARATION  # noqa: E402
from skymark.suites.clip.scoring import Scorer  # noqa: E402
from skymark.suites.clip.tasks.outcomes import (  # noqa: E402
    f1_macro,
    pseudo_values_of_precision,
)
from skymark.suites.clip.tasks.zero_shot import classifier_of, logits_of  # noqa: E402
from tests.clip.conftest import Bench, make_sets  # noqa: E402
from tests.clip.drawing import CLASSES, TEMPLATES, captions, pictures  # noqa: E402
from tests.clip_parity.making import apart, turn  # noqa: E402
from tests.faults.table import renew  # noqa: E402

IMAGES, DRAWS = 600, 1000
FITTED, BATCH = 384, 64
TASKS = {
    "shapes": "zeroshot_classification",
    "colours": "zeroshot_classification",
    "captions": "zeroshot_retrieval",
}
KINDS = {
    "accuracy": ("acc1", "acc5", "mean_per_class_recall", "f1_macro"),
    "mAP": ("mean_average_precision",),
    "recall": tuple(
        f"{side}_retrieval_recall@{k}" for side in ("image", "text") for k in (1, 5, 10)
    ),
}
METRICS = {metric.name: metric for metric in DECLARATION.metrics}
FALSE_COLUMNS = ("figures", "first model", "second model", "verdicts", "better", "share")
PLANTED_IMAGES = 2000
PLANTED = ((0.01, 0.03), (0.04, 0.06), (0.09, 0.11))
"""Shares of images that a change of 2 points loses and wins."""
POWER_COLUMNS = ("images lost, won", "draws", "better", "McNemar's power")


@dataclass(frozen=True)
class Answers:
    """What a model made of each image of all sets."""

    figures: Mapping[str, float]
    parts: Mapping[str, Any]
    """Each image's part of a figure that does not depend on other images, by its name."""
    predicted: Any
    """Class of each image with one label: int64 of shape (images,)."""
    logits: Any
    """Of images with several labels: float32 of shape (images, classes)."""
    labels: Any
    multilabels: Any

    def of_images(self) -> dict[str, Any]:
        """Return each image's part of all figures."""
        return {
            **self.parts,
            "f1_macro": f1_macro(self.predicted, self.labels, len(CLASSES))[1],
            "mean_average_precision": pseudo_values_of_precision(self.logits, self.multilabels),
        }

    def mixed(self, other: Answers, takes: Any) -> Answers:
        """Return the answers with the other model's for some images."""
        return replace(
            self,
            parts={
                name: np.where(takes, other.parts[name], own) for name, own in self.parts.items()
            },
            predicted=np.where(takes, other.predicted, self.predicted),
            logits=np.where(takes[:, None], other.logits, self.logits),
        )


def fitted(seed: int) -> dict[str, Any]:
    """Return weights whose last projection is fitted to some pictures, the others random."""
    import open_clip

    torch.manual_seed(seed)
    network, _, transform = open_clip.create_model_and_transforms("tiny-ViT")
    tokenizer = open_clip.get_tokenizer("tiny-ViT")
    drawn = pictures(FITTED, seed=1000 + seed)
    images = torch.stack([transform(Image.open(io.BytesIO(one.file))) for one in drawn])
    prompts = tokenizer([TEMPLATES[0].format(c=name) for name in CLASSES])
    texts = [captions(one)[0] for one in drawn]
    known = list(dict.fromkeys(texts))
    with torch.inference_mode():
        of_classes = apart(network.eval().encode_text(prompts))[[one.label for one in drawn]]
        of_texts = apart(network.encode_text(tokenizer(known)))[list(map(known.index, texts))]
        turn(network, images.split(BATCH), of_classes + of_texts)
    return network.state_dict()


def answers_of(bench: Bench, checkpoint: str) -> Answers:
    """Score a model on all sets."""
    model = bench.model("tiny-ViT", checkpoint)
    settings = Settings("fp32", BATCH, compile=False, channels_last=False, drop_text_tail=True)
    encoder = Encoder(load_model(model, torch.device("cpu"), 0), settings)
    scorer = Scorer(bench.cache)
    opened, cells = {}, {}
    for name, task in TASKS.items():
        figure = "f1_macro" if name == "shapes" else None
        cell = bench.specification(name, task, model=model, figure=figure, recall_k=(1, 5, 10))
        opened[name] = scorer.with_pixels(cell, scorer.opened(cell), encoder)
        cells[name] = scorer.score(cell, opened[name], encoder)
    figures = {key: value for cell in cells.values() for key, value in cell.scores.metrics.items()}
    parts = {key: value for cell in cells.values() for key, value in cell.scores.parts.items()}
    direct = [name for name in figures if name in METRICS and METRICS[name].outcome in parts]
    colours = cells["colours"].scored
    classifier = classifier_of(colours.text_features, opened["colours"].prompts.counts)
    return Answers(
        figures=figures,
        parts={name: np.asarray(parts[METRICS[name].outcome], float) for name in direct},
        predicted=parts["predicted"],
        logits=logits_of(colours.splits[0].features, classifier).numpy(),
        labels=parts["label"],
        multilabels=np.asarray(opened["colours"].splits[0].samples.multilabels),
    )


@pytest.fixture(scope="module")
def models(made, tmp_path_factory) -> tuple[Answers, Answers]:
    """Fit two models, and score both on the same images."""
    assert made.exists()  # and its architectures are known
    bench = Bench(tmp_path_factory.mktemp("two"), tmp_path_factory.mktemp("cache"))
    make_sets(bench.root / "sets", {"test": IMAGES})
    for seed in (1, 2):
        torch.save(fitted(seed), bench.root / f"{seed}.pt")
    return answers_of(bench, "1"), answers_of(bench, "2")


def test_models_that_answer_alike_by_chance_are_seldom_called_better(models, pytestconfig):
    """Answers to each image are swapped at random, so that neither model is the better one."""
    one, other = models
    names = [name for kind in KINDS.values() for name in kind]
    chances = {"acc1": 1 / len(CLASSES), "text_retrieval_recall@10": 10 / IMAGES}
    for name, chance in chances.items():
        assert all(2 * chance < model.figures[name] < 1 for model in models)
    assert (one.logits != other.logits).all()
    random = np.random.default_rng(11)
    better = Counter()
    for _ in range(DRAWS):
        takes = random.random(IMAGES) < 0.5
        sides = [pair.of_images() for pair in (one.mixed(other, takes), other.mixed(one, takes))]
        judged = corrected(
            [
                difference_in_outcomes(*(side[name] for side in sides), METRICS[name], practical=0)
                for name in names
            ]
        )
        pairs = zip(names, judged, strict=True)
        better.update(name for name, found in pairs if found.verdict is Verdict.BETTER)
    rows = {}
    for kind, figures in KINDS.items():
        total, wrong = DRAWS * len(figures), sum(better[name] for name in figures)
        of_models = [" ".join(f"{model.figures[name]:.3f}" for name in figures) for model in models]
        rows[kind] = [*of_models, f"{total:,}", str(wrong), percent(wrong / total, 2)]
        assert wrong / total <= 0.01, kind
    write(pytestconfig, "clip false verdicts", FALSE_COLUMNS, rows)


def test_planted_points_are_found_as_often_as_mcnemar_s_power_says(models, pytestconfig):
    """Images are drawn from a model's own, and their answers changed at random."""
    random = np.random.default_rng(13)
    rows = {}
    for lost, won in PLANTED:
        hits = sum(
            is_called_better(*planted(random, models[0].parts["acc1"], lost, won))
            for _ in range(DRAWS)
        )
        power = power_of_mcnemar(lost, won)
        planted_share = f"{percent(lost)}, {percent(won)}"
        rows[planted_share] = [f"{DRAWS:,}", percent(hits / DRAWS, 1), percent(power, 1)]
        assert hits / DRAWS == pytest.approx(power, abs=0.03)
    write(pytestconfig, "clip power", POWER_COLUMNS, rows)


def planted(random, right: Any, lost: float, won: float) -> tuple[Any, Any]:
    """Return outcomes of drawn images before and after a change that loses and wins some."""
    before = right[random.integers(len(right), size=PLANTED_IMAGES)] == 1
    share = right.mean()
    flips = random.random(PLANTED_IMAGES) < np.where(before, lost / share, won / (1 - share))
    return before.astype(float), (before ^ flips).astype(float)


def is_called_better(before: Any, after: Any) -> bool:
    found = difference_in_outcomes(after, before, METRICS["acc1"], practical=0)
    return found.verdict is Verdict.BETTER


def power_of_mcnemar(lost: float, won: float) -> float:
    """Return the chance to find a change at 5 %, two-sided.

    Source: Connor, "Sample size for testing differences in proportions for the paired-sample
    design", Biometrics 43, 1987.
    """
    points, discordant = won - lost, won + lost
    reach = points * np.sqrt(PLANTED_IMAGES) - norm.ppf(0.975) * np.sqrt(discordant)
    return float(norm.cdf(reach / np.sqrt(discordant - points**2)))


def write(pytestconfig, name: str, columns: tuple[str, ...], rows: Mapping[str, Any]) -> None:
    """Renew a table if a page is named."""
    if page := pytestconfig.getoption("--fault-table"):
        renew(page, name, columns, tuple(rows), rows)
