"""Captions of a CoCa model with random weights; these tests run in the venv of captions.

`nox -s clip_parity` compares the figures with CLIP_benchmark's.
"""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pycocoevalcap")

from skymark.model.errors import DataError  # noqa: E402
from skymark.suites.clip.encoding.encoder import Encoder  # noqa: E402
from skymark.suites.clip.metrics import ACCURACIES, SAMPLE_COLUMNS  # noqa: E402
from skymark.suites.clip.tasks.captioning import captioning_metrics  # noqa: E402
from tests.clip.test_construction import COCA, write_architecture  # noqa: E402

pytestmark = [
    # pycocoevalcap leaves the pipes of METEOR open.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
OWN = [["a red circle", "one circle, drawn in red"], ["the blue bar"], ["Ein Café, naïve!"]]
SCORES = {"CIDEr", "METEOR", "ROUGE_L", *(f"Bleu_{n}" for n in (1, 2, 3, 4))}


@pytest.fixture
def coca(bench, tmp_path):
    """A CoCa model of random weights."""
    import open_clip

    write_architecture(tmp_path, "tiny-coca", COCA | {"embed_dim": 64})
    torch.manual_seed(3)
    network = open_clip.create_model("tiny-coca", load_weights=False)
    torch.save(network.state_dict(), tmp_path / "coca.pt")
    return bench.model_of("tiny-coca", tmp_path / "coca.pt")


def test_figures_are_the_means_of_images_and_need_no_java_in_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    found, parts = captioning_metrics(["a red circle", "", "naïve café"], OWN)
    assert os.environ["PATH"] == "/nowhere"
    assert found.keys() == SCORES
    first, second, third = parts["rouge_part"]
    assert (first, second) == (1.0, 0.0)
    assert 0.0 < third < 1.0
    assert parts["rouge_part"].mean() == pytest.approx(found["ROUGE_L"])
    assert parts["cider_part"].mean() == pytest.approx(found["CIDEr"])
    assert 0.0 < found["METEOR"] < 1.0
    assert found["Bleu_1"] > found["Bleu_2"] > 0.0


def test_a_cell_has_the_declared_figures_and_a_caption_of_each_image_in_its_log(
    bench, coca, capsys
):
    found = bench.result("captions", "captioning", model=coca, batch_size=4, limit=10)
    assert found.verification.passed, found.verification.cause
    assert found.metrics.keys() >= SCORES
    assert {one.name for one in ACCURACIES} >= SCORES
    assert found.metrics["score"] == found.metrics["CIDEr"]
    assert found.metrics["captioned_images_per_s"] > 0
    assert not {"encoded_images_per_s", "batch_latency_ns"} & found.metrics.keys()
    assert found.samples["images"] == (4, 4, 2)
    assert len(found.samples["score_part"]) == 10
    assert found.samples.keys() == SAMPLE_COLUMNS.keys()
    assert capsys.readouterr().out.count("/captions/test/") == 10


def test_captions_of_other_images_are_found_out(bench, coca, monkeypatch):
    write = Encoder.captions
    monkeypatch.setattr(Encoder, "captions", lambda *given: [f"{one} x" for one in write(*given)])
    found = bench.result("captions", "captioning", model=coca, limit=4)
    assert found.verification.cause.kind == "wrong-captions"


def test_a_model_that_writes_none_is_named(bench):
    with pytest.raises(DataError, match=r"tiny-ViT:.*\bno captions\b"):
        bench.result("captions", "captioning")
