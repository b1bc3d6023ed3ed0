"""Cells of all tasks by the runner, on real models and files."""

from __future__ import annotations

import io
import json
import shutil
import time
from itertools import permutations
from shutil import which

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from pyarrow import parquet  # noqa: E402

from skymark.model.errors import ChangedSincePlanError, DataError, UsageError  # noqa: E402
from skymark.rundir.row import samples_file  # noqa: E402
from skymark.suites.clip.metrics import DECLARATION  # noqa: E402
from skymark.suites.clip.specification import LinearProbe, Model, Weights  # noqa: E402
from skymark.suites.clip.suite import ClipSuite  # noqa: E402
from tests.clip.conftest import ONCE, Region  # noqa: E402
from tests.clip.drawing import CLASSES, TEMPLATES  # noqa: E402

PROBE = LinearProbe(train_split="train", val_split=None, epochs=2)


@pytest.mark.parametrize("architecture", ["tiny-ViT", "tiny-RN", "tiny-custom"])
def test_classification_agrees_with_open_clip_used_by_hand(bench, architecture):
    import open_clip

    result = bench.result(architecture=architecture)
    assert result.verification.passed, result.verification.cause
    network, _, transform = open_clip.create_model_and_transforms(
        architecture, pretrained=str(bench.root / f"{architecture}.pt")
    )
    network.eval()
    tokenizer = open_clip.get_tokenizer(architecture)
    unit = torch.nn.functional.normalize
    from skymark.suites.clip.pixels.preprocessing import decoded
    from skymark.suites.clip.reading.opening import open_split

    specification = bench.specification()
    samples = open_split(specification.source, "test", specification.task, bench.cache).samples
    with torch.inference_mode():
        weights = []
        for name in CLASSES:
            prompts = tokenizer([one.format(c=name) for one in TEMPLATES])
            weights.append(unit(unit(network.encode_text(prompts), dim=-1).mean(0), dim=0))
        images = torch.stack([transform(decoded(samples.read(n), "")) for n in range(len(samples))])
        logits = unit(network.encode_image(images), dim=-1) @ torch.stack(weights).T
    right = (logits.argmax(dim=1) == torch.tensor(samples.labels)).float().mean()
    assert result.metrics["acc1"] == pytest.approx(float(right), abs=1e-6)
    assert result.metrics["images"] == 60
    assert result.metrics["classes"] == 6
    assert result.conditions["text_tail"] == "dropped"


@pytest.mark.parametrize(
    ("set", "task", "settings", "metrics"),
    [
        ("colours", "zeroshot_classification", {}, {"mean_average_precision"}),
        (
            "captions",
            "zeroshot_retrieval",
            {"recall_k": (1, 5)},
            {"image_retrieval_recall@1", "text_retrieval_recall@5"},
        ),
        ("captions", "image_caption_selection", {}, {"image_acc", "text_acc", "acc"}),
        (
            "shapes",
            "linear_probe",
            {"linear_probe": PROBE},
            {"lp_acc1", "lp_acc5", "lp_mean_per_class_recall"},
        ),
        (
            "shapes",
            "linear_probe",
            {"linear_probe": PROBE.model_copy(update={"val_proportion": 0.3})},
            {"weight_decay"},
        ),
    ],
)
def test_every_task_has_its_metrics_and_is_verified(bench, set, task, settings, metrics):
    result = bench.result(set, task, **settings)
    assert result.verification.passed, result.verification.cause
    assert metrics <= result.metrics.keys()
    assert 0 <= result.metrics["score"] <= 1
    assert {"images_digest", "labels_digest"} <= result.conditions.keys()
    assert sum(result.samples["images"]) == result.metrics["images"]


@pytest.mark.parametrize(
    ("set", "task", "settings"),
    [
        ("shapes", "zeroshot_classification", {}),
        ("colours", "zeroshot_classification", {}),
        ("captions", "zeroshot_retrieval", {"recall_k": (1, 5)}),
        ("captions", "image_caption_selection", {}),
        ("shapes", "linear_probe", {"linear_probe": PROBE}),
    ],
)
def test_the_outcomes_of_images_average_to_the_figures(bench, set, task, settings):
    result = bench.result(set, task, **settings)
    compared = 0
    for name, value in result.metrics.items():
        outcome = DECLARATION.metric(name).outcome
        if outcome is not None:
            parts = result.samples[outcome]
            assert len(parts) == 60
            assert sum(parts) / len(parts) == pytest.approx(value, abs=1e-6), name
            compared += 1
    assert compared >= 2
    figures = ClipSuite().figures([result])
    assert figures["score"].low < figures["score"].value < figures["score"].high


def test_features_are_computed_once_for_all_tasks_on_the_same_images(bench):
    runner = bench.runner()
    first = bench.result(runner=runner)
    again = bench.result("shapes", "linear_probe", runner=runner, linear_probe=PROBE)
    assert first.metrics["encoder_s"] > 0
    assert sum(again.samples["images"]) == 40, "only the training images are new"
    third = bench.result(runner=runner)
    assert third.metrics["encoder_s"] == 0
    assert third.metrics["acc1"] == first.metrics["acc1"]


ALL_TASKS = {
    "classification": {},
    "other language": {"language": "it"},
    "probe": {"task": "linear_probe", "linear_probe": PROBE},
    "probe in the other": {"task": "linear_probe", "linear_probe": PROBE, "language": "it"},
}


@pytest.fixture
def bilingual(bench, tmp_path):
    """Return the set of shapes with class names in two languages."""
    place = tmp_path / "shapes"
    shutil.copytree(bench.root / "sets" / "shapes", place)
    names = ["cerchio", "quadrato", "croce", "barra", "punto", "cornice"]
    (place / "classnames.it.txt").write_text("\n".join(names))
    (place / "zeroshot_classification_templates.it.txt").write_text("una foto di {c}\n")
    return place


@pytest.mark.parametrize("order", list(permutations(ALL_TASKS, 2)), ids=" > ".join)
def test_cells_of_one_set_end_well_in_every_order_of_tasks_and_languages(bench, bilingual, order):
    runner = bench.runner()
    results = {
        name: bench.result(runner=runner, address=bilingual, **ALL_TASKS[name]) for name in order
    }
    for name, result in results.items():
        assert result.verification.passed, (name, result.verification.cause)
        assert result.samples.keys() == DECLARATION.sample_columns.keys()
        data = samples_file([result, result], DECLARATION.sample_columns)
        table = parquet.read_table(pa.BufferReader(data))
        assert len(table) == 2 * 60, "a row per scored image"
    encoded = sum(sum(result.samples["images"]) for result in results.values())
    assert encoded == (100 if "probe" in " ".join(order) else 60), "each image once"


def test_damaged_elements_are_refused_or_left_out_and_counted(bench, tmp_path, capsys):
    from tests.clip.drawing import pictures
    from tests.clip.shards import write_shards

    place = tmp_path / "mine"
    shutil.copytree(bench.root / "sets" / "shapes", place)
    shutil.rmtree(place / "test")
    samples = [{"jpg": one.file, "cls": one.label_text} for one in pictures(30, 8)]
    rest = [one for number, one in enumerate(samples) if number not in {7, 14, 21, 28}]
    write_shards(place / "whole", rest, shards=1)
    samples[7]["jpg"] = samples[7]["jpg"][:200]
    samples[14]["jpg"] = b""
    samples[21]["cls"] = b"a cat"
    del samples[28]["cls"]
    write_shards(place / "test", samples, shards=1)
    with pytest.raises(DataError, match="--skip-damaged"):
        bench.result(address=place)
    skipped = bench.result(address=place, skip_damaged=True)
    assert skipped.verification.passed, skipped.verification.cause
    assert (skipped.metrics["images"], skipped.metrics["damaged_elements"]) == (26, 4)
    assert capsys.readouterr().out.count("left out: ") == 4
    whole = bench.result(address=place, split="whole", skip_damaged=True)
    assert (whole.metrics["images"], whole.metrics["damaged_elements"]) == (26, 0)
    for digest in ("images_digest", "labels_digest", "texts_digest"):
        assert skipped.conditions[digest] == whole.conditions[digest]
    assert "damaged_elements" not in bench.result(address=place, split="whole").metrics


def test_winoground_is_scored_as_its_authors_publish_it(bench, tmp_path):
    from tests.clip.drawing import captions, pictures

    place = tmp_path / "winoground"
    (place / "images").mkdir(parents=True)
    drawn = pictures(8, seed=2)
    for one in drawn:
        (place / "images" / f"p{one.number}.png").write_bytes(one.file)
    lines = [
        {
            **{f"image_{number}": f"p{one.number}" for number, one in enumerate(pair)},
            **{f"caption_{number}": captions(one)[0] for number, one in enumerate(pair)},
        }
        for pair in zip(drawn[::2], drawn[1::2], strict=True)
    ]
    (place / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)))
    result = bench.result(task="image_caption_selection", address=place, layout="folder")
    assert result.verification.passed, result.verification.cause
    assert result.metrics["images"] == 8


def test_words_are_scored_by_the_images_that_belong_to_them(bench, tmp_path):
    from tests.clip.drawing import pictures

    place = tmp_path / "winogavil"
    (place / "images").mkdir(parents=True)
    for one in pictures(30, seed=2):
        (place / "images" / f"p{one.number}.jpg").write_bytes(one.file)
    names = [f"p{number}" for number in range(30)]
    lines = [
        {
            "cue": shape,
            "candidates": names[number : number + (12 if number % 2 else 5)],
            "associations": names[number : number + 2],
        }
        for number, shape in enumerate(CLASSES)
    ]
    (place / "associations.jsonl").write_text("\n".join(map(json.dumps, lines)))
    settings = {"task": "image_association", "address": place, "layout": "folder"}
    result = bench.result(**settings)
    assert result.verification.passed, result.verification.cause
    assert result.metrics["texts"] == len(result.samples["jaccard_part"]) == 6
    assert result.metrics["images"] == 17, "each image once"
    assert result.metrics["score"] == result.metrics["jaccard"]
    assert "jaccard_10_12" in result.metrics
    assert bench.result(**settings, limit=3).verification.passed


def test_a_limit_scores_some_elements_and_says_so(bench):
    whole = bench.result()
    result = bench.result(limit=20)
    assert result.verification.passed, result.verification.cause
    assert result.metrics["images"] == 20
    assert len(result.samples["correct"]) == 20
    labels = result.samples["label"]
    assert set(labels) == set(whole.samples["label"]), "from the whole split"
    assert result.conditions["images_digest"] != whole.conditions["images_digest"]
    texts = bench.result("captions", "zeroshot_retrieval", limit=10, recall_k=(1, 50))
    assert texts.verification.passed, texts.verification.cause
    assert texts.metrics["texts"] == 20
    assert "image_retrieval_recall@50" not in texts.metrics


@pytest.mark.parametrize("figure", ["worst_group_acc1", "worst_group_acc5", "f1_macro"])
def test_a_data_set_s_own_figure_is_its_score(bench, tmp_path, figure):
    from tests.clip.drawing import pictures
    from tests.clip.shards import write_shards

    place = tmp_path / "mine"
    shutil.copytree(bench.root / "sets" / "shapes", place)
    shutil.rmtree(place / "test")
    regions = {"red": 4, "green": 1, "blue": 2}
    drawn = pictures(40, seed=4)

    def metadata(one):
        out = io.BytesIO()
        np.save(out, np.array([2000, regions[one.colour]]))
        return out.getvalue()

    samples = [{"jpg": one.file, "cls": one.label_text, "npy": metadata(one)} for one in drawn]
    write_shards(place / "test", samples, shards=1)
    result = bench.result(address=place, figure=figure, group_column=1)
    assert result.verification.passed, result.verification.cause
    found = result.metrics[figure]
    assert result.metrics["score"] == found
    assert sum(result.samples["score_part"]) / 40 == pytest.approx(found)
    correct = result.samples["correct_5" if figure.endswith("5") else "correct"]
    by_region = {
        name: [right for right, one in zip(correct, drawn, strict=True) if one.colour == name]
        for name in regions
    }
    if figure != "f1_macro":
        assert found == pytest.approx(min(sum(one) / len(one) for one in by_region.values()))
    figures = ClipSuite().figures([result])
    assert figures["score"].value == found
    assert figures["score"].low < found


def test_a_cell_has_the_rates_of_the_work_that_was_done_for_it(bench):
    def rates(**settings):
        metrics = bench.result(**settings).metrics
        return {name.removesuffix("_images_per_s"): metrics[name]
                for name in metrics if name.endswith("_images_per_s")}  # fmt: skip

    runner = bench.runner()
    whole = rates(runner=runner)
    assert whole.keys() == {"decoded", "encoded", "end_to_end"}
    assert 1 / whole["end_to_end"] > 1 / whole["decoded"] + 1 / whole["encoded"]
    assert rates(runner=runner).keys() == set(), "pixels and features of an earlier cell"
    probe = rates(runner=runner, task="linear_probe", linear_probe=PROBE)
    assert probe.keys() == {"decoded", "encoded"}, "only the training images are new"
    assert rates(architecture="tiny-custom").keys() == {"encoded"}, "pixels of another model"


def test_the_encoding_rate_is_over_the_time_in_which_images_are_encoded(bench, monkeypatch):
    from skymark.suites.clip.encoding.encoder import Encoder

    def slowed(name, by_s):
        plain = getattr(Encoder, name)
        monkeypatch.setattr(Encoder, name, lambda *one: time.sleep(by_s) or plain(*one))

    slowed("encoded", 0.02)
    slowed("texts", 0.3)
    result = bench.result(batch_size=4)
    encoding_s = result.metrics["images"] / result.metrics["encoded_images_per_s"]
    assert 15 * 0.02 <= encoding_s <= result.timed_ns / 1e9 - 0.3


class Clock(Region):
    """Timed region that notes its begin among other events."""

    def __init__(self, events):
        self.events = events

    def begins(self, exclude=()):
        self.events.append("clock")


@pytest.mark.parametrize(
    ("settings", "batch_sizes"),
    [
        ({"batch_size": 16}, {16, 12}),
        ({"batch_size": 64, "precision": "bf16"}, {60}),
        ({"batch_size": 16, "compile": True}, {16}),
    ],
    ids=["two-sizes", "one-size", "compiled"],
)
def test_an_encoder_has_run_batches_of_a_cell_s_shapes_before_the_clock_starts(
    bench, monkeypatch, settings, batch_sizes
):
    from skymark.suites.clip.encoding.encoder import Encoder

    encoded, text_batch, events = Encoder.encoded, Encoder._text_batch, []

    def images(self, tensor):
        events.append(("images", tensor.shape, tensor.dtype))
        return encoded(self, tensor)

    def texts(self, tokens, positions):
        events.append(("texts", tokens.shape, positions))
        return text_batch(self, tokens, positions)

    monkeypatch.setattr(torch, "compile", lambda function: function)
    monkeypatch.setattr(Encoder, "_prepares_shapes", True)  # as on a GPU
    monkeypatch.setattr(Encoder, "encoded", images)
    monkeypatch.setattr(Encoder, "_text_batch", texts)
    runner = bench.runner()
    for name in ("shapes", "colours"):
        cell = bench.cell(name, **settings)
        runner.prepare(cell)
        runner.measure(cell, 0, ONCE, Clock(events))
    one, two = (number for number, event in enumerate(events) if event == "clock")
    before, first, second = events[:one], events[one + 1 : two], events[two + 1 :]
    assert set(first) == set(before)
    assert {shape[0] for kind, shape, _ in first if kind == "images"} == batch_sizes
    assert second == [event for event in first if event[0] == "images"], "nothing is done twice"


def test_two_data_sets_of_one_name_are_not_mixed_up(bench, tmp_path):
    from tests.clip.drawing import pictures
    from tests.clip.shards import write_shards

    other = tmp_path / "elsewhere" / "shapes"
    shutil.copytree(bench.root / "sets" / "shapes", other)
    shutil.rmtree(other / "test")
    drawn = pictures(60, seed=99)
    samples = [{"jpg": one.file, "cls": b"2"} for one in drawn]
    write_shards(other / "test", samples)
    first = bench.result()
    second = bench.result(address=other)
    assert first.conditions["images_digest"] != second.conditions["images_digest"]
    assert first.conditions["labels_digest"] != second.conditions["labels_digest"]
    assert second.verification.passed


def test_a_data_set_that_changed_is_read_again(bench, tmp_path):
    from tests.clip.drawing import pictures
    from tests.clip.shards import write_shards

    place = tmp_path / "mine"
    shutil.copytree(bench.root / "sets" / "shapes", place)
    first = bench.result(address=place)
    shutil.rmtree(place / "test")
    write_shards(
        place / "test", [{"jpg": one.file, "cls": one.label_text} for one in pictures(30, 8)]
    )
    second = bench.result(address=place)
    assert (first.metrics["images"], second.metrics["images"]) == (60, 30)


@pytest.mark.parametrize("name", ["a/b", "../up", "wds/vtab/x"])
def test_a_slash_in_a_name_is_no_matter(bench, name):
    result = bench.result(name=name)
    assert result.verification.passed
    pixels = list((bench.cache / "clip" / "pixels").glob("*/pixels.json"))
    assert len(pixels) == 1


def test_weights_of_another_architecture_are_refused(bench):
    with pytest.raises(DataError, match=r"another architecture .*\btiny-ViT\b"):
        bench.result(model=bench.model("tiny-ViT", "tiny-ViT-wide"))


def test_a_checkpoint_with_code_in_it_is_refused(bench, tmp_path):
    class Harmful:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    torch.save({"state_dict": Harmful()}, bench.root / "harmful.pt")
    with pytest.raises(DataError, match="may run anything"):
        bench.result(model=bench.model("tiny-ViT", "harmful"))
    assert not (tmp_path / "owned").exists()


def test_a_checkpoint_that_changed_since_the_plan_is_refused(bench):
    model = bench.model()
    other = Weights(file=model.weights.file, sha256="0" * 64)
    with pytest.raises(ChangedSincePlanError, match=model.weights.file):
        bench.result(model=Model(architecture="tiny-ViT", weights=other))


def test_weights_with_another_activation_are_refused_before_they_are_fetched(bench):
    model = Model(architecture="ViT-B-32", weights=Weights(tag="openai"))
    with pytest.raises(UsageError, match="use ViT-B-32-quickgelu:openai"):
        bench.result(model=model)


def test_a_language_without_class_names_is_refused(bench):
    with pytest.raises(DataError, match=r"classnames\.it\.txt .*'it'"):
        bench.result(language="it")


def test_another_language_is_scored_with_its_own_names(bench, bilingual):
    runner = bench.runner()
    english = bench.result(runner=runner, address=bilingual)
    italian = bench.result(runner=runner, address=bilingual, language="it")
    assert italian.verification.passed
    assert italian.metrics["texts"] == 6
    assert english.conditions["texts_digest"] != italian.conditions["texts_digest"]
    assert english.conditions["images_digest"] == italian.conditions["images_digest"]


def test_prompts_of_each_class_are_those_that_are_scored(bench, tmp_path):
    from skymark.suites.clip.reading.user_files import Prompting

    def file_of(name, content):
        (tmp_path / name).write_text(json.dumps({"shapes": content}))
        return Prompting(tmp_path / name).entry_for("shapes")

    own = [[template.format(c=name) for template in TEMPLATES] for name in CLASSES]
    same = file_of("same.json", dict(zip(CLASSES, own, strict=True)))
    uneven = file_of("uneven.json", {name: [name] * (1 + len(name) % 3) for name in CLASSES})
    one_each = file_of("one.json", ["{c}"])
    runner = bench.runner()
    results = [
        bench.result(runner=runner, prompt_file=file) for file in (None, same, uneven, one_each)
    ]
    assert [one.verification.cause for one in results] == [None] * 4
    usual, alike, repeated, plain = (one.metrics for one in results)
    assert alike["acc1"] == usual["acc1"]
    assert repeated["texts"] == sum(1 + len(name) % 3 for name in CLASSES)
    assert repeated["acc1"] == plain["acc1"], "the mean of equal prompts is that prompt"
    missing = file_of("missing.json", {"circle": ["a circle"]})
    with pytest.raises(DataError, match=r"missing\.json .*\bsquare, cross, bar\b.*\b2\b"):
        bench.result(prompt_file=missing)


def test_class_names_of_a_file_are_those_that_are_scored(bench, tmp_path):
    from skymark.suites.clip.reading.user_files import Naming, Prompting

    def file_of(kind, name, content):
        (tmp_path / name).write_text(json.dumps({"shapes": content}))
        return kind(tmp_path / name).entry_for("shapes")

    mine = ["cerchio", "quadrato", "croce", "barra", "punto", "cornice"]
    same, others = file_of(Naming, "same.json", CLASSES), file_of(Naming, "others.json", mine)
    own = file_of(Prompting, "own.json", {name: [f"una {name}"] for name in mine})
    runner = bench.runner()
    usual, alike, renamed, prompted = (
        bench.result(runner=runner, **files)
        for files in (
            {},
            {"name_file": same},
            {"name_file": others},
            {"name_file": others, "prompt_file": own},
        )
    )
    assert all(one.verification.passed for one in (usual, alike, renamed, prompted))
    assert alike.metrics["acc1"] == usual.metrics["acc1"]
    digests = [one.conditions["texts_digest"] for one in (usual, alike, renamed, prompted)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    few = file_of(Naming, "few.json", mine[:5])
    with pytest.raises(DataError, match=r"few\.json .*\b5\b.*\bshapes\b.*\b6\b"):
        bench.result(name_file=few)


def test_captions_in_another_language_are_not_scored_as_that_asked_for(bench):
    with pytest.raises(DataError, match=r"'en'.*'de'"):
        bench.result("captions", "zeroshot_retrieval", language="de")


def test_too_little_memory_makes_the_batch_smaller_and_the_record_says_so(bench, monkeypatch):
    from skymark.suites.clip.encoding.encoder import Encoder

    encoded = Encoder.encoded

    def scarce(self, tensor):
        if len(tensor) > 8:
            raise torch.OutOfMemoryError("Tried to allocate 20.00 MiB")
        return encoded(self, tensor)

    whole = bench.result(batch_size=64)
    monkeypatch.setattr(Encoder, "encoded", scarce)
    result = bench.result(batch_size=64)
    assert result.conditions["batch_size"] == 8
    assert result.conditions["batch_size_before_out_of_memory"] == 64
    assert result.metrics["acc1"] == whole.metrics["acc1"]
    assert sum(result.samples["images"]) == 60


def test_a_model_that_does_not_fit_at_all_is_an_error(bench, monkeypatch):
    from skymark.suites.clip.encoding.encoder import Encoder, OutOfMemoryError

    def none(self, tensor):
        raise torch.OutOfMemoryError("Tried to allocate 20.00 MiB")

    monkeypatch.setattr(Encoder, "encoded", none)
    with pytest.raises(OutOfMemoryError, match="tiny-ViT"):
        bench.result()


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bf16"},
        {"precision": "amp"},
        {"channels_last": True, "architecture": "tiny-RN"},
        {"drop_text_tail": False},
        pytest.param(
            {"compile": True},
            marks=pytest.mark.skipif(which("g++") is None, reason="torch.compile needs g++"),
        ),
    ],
)
def test_settings_change_the_features_little(bench, settings):
    whole = bench.result(architecture=settings.get("architecture", "tiny-ViT"))
    result = bench.result(**settings)
    assert result.verification.passed, result.verification.cause
    assert result.metrics["acc1"] == pytest.approx(whole.metrics["acc1"], abs=0.1)
    assert result.conditions["precision"] == settings.get("precision", "fp32")
