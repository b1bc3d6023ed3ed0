"""Plans of the clip suite: cells, groups, specifications, times and memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.record import RoundResult, Verification
from skymark.suites.clip.metrics import DECLARATION, score_of
from skymark.suites.clip.specification import ClipSpecification
from skymark.suites.clip.suite import ClipSuite

ROOT = Path(__file__).parents[4]
SUITE = ClipSuite()
LAION = "ViT-B-32:laion2b_s34b_b79k"
OPENAI = "RN50-quickgelu:openai"
COCA = "coca_ViT-B-32:laion2b_s13b_b90k"


def result(number=0, **metrics):
    return RoundResult(
        round=number,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        setup_s=1.0,
        timed_ns=10**9,
        metrics=metrics,
        verification=Verification(passed=True),
    )


def test_a_cell_says_all_that_decides_its_figures(planned):
    (one,) = planned()
    cell, specification = one.cell, ClipSpecification.of(one.cell)
    assert cell.id == f"clip.wds_vtab_cifar10.zeroshot_classification.{LAION.replace(':', '_')}"
    assert (cell.scenario, cell.variant, cell.adapter) == (
        "wds/vtab/cifar10", "zeroshot_classification", LAION,
    )  # fmt: skip
    assert specification.source.address == "clip-benchmark/wds_vtab-cifar10"
    assert specification.model.weights.tag == "laion2b_s34b_b79k"
    assert cell.axes == cell.settings == {}
    assert ClipSpecification.model_validate(specification.json_content()) == specification


def test_a_model_s_data_sets_and_tasks_share_a_process_and_a_machine(planned):
    found = planned("retrieval", "wds/mnist", models=(LAION, OPENAI))
    groups = {one.group: {planned.cell.adapter for planned in found if planned.group == one.group}
              for one in found}  # fmt: skip
    assert groups == {LAION: {LAION}, OPENAI: {OPENAI}}
    assert [one.shard_key for one in found] == [one.group for one in found]
    assert len(found) == 8


def test_captions_are_written_in_fp32_in_a_venv_and_a_process_of_their_own(planned):
    both = ("zeroshot_retrieval", "captioning")
    usual, writes = planned("wds/flickr8k", models=(COCA,), tasks=both, platform="gpu")
    assert (usual.group, writes.group) == (COCA, f"{COCA} captions")
    assert usual.shard_key == writes.shard_key
    assert SUITE.venv(usual.cell).name == "clip"
    assert SUITE.venv(writes.cell).name == "clip-captions"
    assert ClipSpecification.of(usual.cell).precision == "amp"
    assert ClipSpecification.of(writes.cell).precision == "fp32"
    assert writes.guess.expected_s > 3 * usual.guess.expected_s
    assert any("SPICE" in note for note in writes.notes)
    with pytest.raises(UsageError, match=r"fp32, and --precision is bf16"):
        planned("wds/flickr8k", models=(COCA,), tasks=both, settings={"precision": "bf16"})


def test_only_a_model_that_writes_captions_is_asked_for_them(planned, tmp_path):
    tower = {"embed_dim": 8, "vision_cfg": {}, "text_cfg": {}}
    roberta = {**tower, "text_cfg": {"hf_tokenizer_name": "roberta-base"}, "multimodal_cfg": {}}
    kinds = {"plain": tower, "coca": {**tower, "multimodal_cfg": {}}, "roberta": roberta}
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"x")
    for name, configuration in kinds.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(configuration))
    models = (
        *(
            LAION,
            COCA,
            "hf-hub:me/coca",
            "transformers:me/clip",
            f"coca_roberta-ViT-B-32:{weights}",
        ),
        *(f"{tmp_path / name}.json:{weights}" for name in kinds),
    )
    found = planned("wds/flickr8k", models=models, tasks=("captioning",))
    refused = [one.refusal is not None for one in found]
    assert refused == [True, False, False, True, True, True, False, True]
    assert found[0].refusal[1].message in found[0].notes
    assert not any(one.refusal for one in planned("wds/flickr8k", models=models))


def test_settings_are_in_the_specification_and_shown_where_they_were_changed(planned):
    given = {"precision": "bf16", "batch_size": 8, "compile": "on"}
    (one,) = planned(settings=given)
    specification = ClipSpecification.of(one.cell)
    assert (specification.precision, specification.batch_size) == ("bf16", 8)
    assert specification.compile
    assert not specification.drop_text_tail  # it is exact in fp32 only
    assert one.cell.settings == {"precision": "bf16", "batch_size": 8, "compile": True}
    (same,) = planned(settings={"precision": "fp32", "compile": "off"})
    assert same.cell.hash == planned()[0].cell.hash


def test_the_precision_is_the_peer_s_on_a_gpu_and_fp32_on_a_cpu(planned):
    (usual,) = planned(platform="gpu")
    (named,) = planned(platform="gpu", settings={"precision": "amp"})
    (exact,) = planned(platform="gpu", settings={"precision": "fp32"})
    (on_cpu,) = planned()
    assert ClipSpecification.of(usual.cell).precision == "amp"
    assert usual.cell == named.cell
    assert exact.cell.settings == {"precision": "fp32"}
    assert exact.cell.hash != usual.cell.hash, "never merged"
    assert ClipSpecification.of(on_cpu.cell).precision == "fp32"
    assert usual.guess.expected_s < exact.guess.expected_s


def test_a_linear_probe_says_how_it_is_trained(planned):
    (one,) = planned(tasks=("linear_probe",), settings={"epochs": 3, "val_proportion": 0.5})
    probe = ClipSpecification.of(one.cell).linear_probe
    assert probe is not None
    assert (probe.epochs, probe.val_proportion, probe.fewshot_k) == (3, 0.5, -1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "setting batch_size=0"),
        ({"precision": "fp8"}, "setting precision='fp8'"),
        ({"epochs": 0}, "setting epochs=0"),
        ({"val_proportion": 1.5}, "setting val_proportion=1.5"),
        ({"val_proportion": 0.5, "val_split": "val"}, "val_split and val_proportion"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(planned, settings, message):
    with pytest.raises(UsageError, match=message):
        planned(settings=settings)


def test_a_setting_or_an_option_that_nothing_reads_is_refused(planned):
    with pytest.raises(UnknownNameError, match="'precision'"):
        planned(settings={"precison": "fp32"})
    with pytest.raises(UnknownNameError, match="unknown option 'think'"):
        planned(think=1)


def test_no_language_is_ignored(planned, web_set):
    directory = web_set(
        **{"classnames.de.txt": "Katze\n", "zeroshot_classification_templates.de.txt": "{c}\n"}
    )
    found = planned(str(directory), languages=("en", "de"))
    assert [one.cell.axes for one in found] == [{}, {"language": "de"}]
    assert [ClipSpecification.of(one.cell).language for one in found] == ["en", "de"]
    with pytest.raises(UsageError, match=r"\bjp\b.* en, de\b"):
        planned(str(directory), languages=("jp",))
    with pytest.raises(UsageError, match="language 'jp'"):
        planned(str(directory), languages=("de", "jp"))


def test_cells_that_would_share_a_file_are_refused(planned, web_set):
    with pytest.raises(UsageError, match="would share a file"):
        planned(str(web_set("a b")), str(web_set("a+b".replace("+", "_"))))


def test_what_lies_on_this_machine_is_named(planned, web_set, tmp_path):
    directory, checkpoint = web_set(), tmp_path / "mine.pt"
    checkpoint.write_bytes(b"weights")
    (one,) = planned(str(directory), models=(f"RN50:{checkpoint}",))
    assert one.local_files == (str(directory), str(checkpoint))
    assert SUITE.adapter_reference(one.cell) == f"RN50:{checkpoint}"


def test_larger_models_need_more_memory_and_more_time(planned):
    models = (LAION, "ViT-L-14:laion2b_s32b_b82k", "ViT-bigG-14:laion2b_s39b_b160k")
    found = planned(models=models, platform="gpu", settings={"precision": "fp32"})
    needs = [SUITE.device_bytes(one.cell) for one in found]
    times = [one.guess.expected_s for one in found]
    assert needs == sorted(needs)
    assert times == sorted(times)
    # 2.54 G parameters in fp32 alone are 10.1 GB.
    assert 10e9 < needs[-1] < 16e9
    half = planned(models=models[-1:], settings={"precision": "bf16"})
    assert SUITE.device_bytes(half[0].cell) < needs[-1] * 0.6
    wide = planned(models=models[-1:], settings={"batch_size": 1024})
    assert SUITE.device_bytes(wide[0].cell) > needs[-1] * 2
    (usual,), (larger,) = (planned(models=models[-1:], image_size=size) for size in (224, 448))
    assert SUITE.device_bytes(larger.cell) > SUITE.device_bytes(usual.cell)
    assert larger.guess.expected_s > usual.guess.expected_s * 2


def test_a_gpu_is_expected_to_be_quicker(planned):
    assert planned(platform="gpu")[0].guess.expected_s < planned()[0].guess.expected_s / 10


def test_each_data_set_is_prepared_once_for_all_models_with_the_same_pixels(planned, tmp_path):
    models = (LAION, "ViT-B-16:laion2b_s34b_b88k", "ViT-B-16-SigLIP-256:webli")
    cells = [one.cell for one in planned("retrieval", models=models)]
    first = SUITE.unprepared(cells, tmp_path)
    assert len(first) == 6
    assert {cell.adapter for cell in first} == {LAION, "ViT-B-16-SigLIP-256:webli"}


def test_accuracy_takes_one_round_and_throughput_several(planned):
    (cell,) = [one.cell for one in planned()]
    quick, standard = SUITE.efforts["quick"], SUITE.efforts["standard"]
    one = result(acc1=0.5, encoded_images_per_s=100.0)
    assert SUITE.is_enough(cell, [one], quick)
    assert not SUITE.is_enough(cell, [one], standard)
    same = [result(n, acc1=0.5, encoded_images_per_s=100.0 + n) for n in range(3)]
    assert SUITE.is_enough(cell, same, standard)
    assert SUITE.is_enough(cell, [result(acc1=0.5)], standard)  # features of an earlier cell


def test_the_score_is_the_task_s_own_figure():
    assert score_of({"acc1": 0.5, "acc5": 0.9}) == 0.5
    recalls = {f"{kind}_retrieval_recall@{k}": k / 10 + add
               for kind, add in (("image", 0.0), ("text", 0.2)) for k in (5, 1)}  # fmt: skip
    assert score_of(recalls) == pytest.approx(0.2)
    assert score_of({"encoded_images_per_s": 3.0}) is None
    figures = SUITE.figures([result(mean_average_precision=0.25, encoded_images_per_s=9.0)])
    assert figures["score"].value == 0.25


def test_accuracy_that_varies_between_rounds_is_pointed_out():
    effort: Effort = SUITE.efforts["standard"]
    rounds = [result(n, acc1=0.5 + n / 100, encoded_images_per_s=100.0) for n in range(3)]
    assert "accuracy-varies" in {one.kind for one in SUITE.warnings(rounds, effort)}
    assert SUITE.warnings(rounds[:1], effort) == ()


def test_the_declaration_names_every_metric_once():
    names = [one.name for one in DECLARATION.metrics]
    assert len(names) == len(set(names))
    titles = SUITE.declared([]).scenario_titles
    assert titles == {}


def test_the_page_of_the_suite_defines_every_rate():
    page = (ROOT / "docs" / "clip.md").read_text(encoding="utf-8")
    rates = [one for one in DECLARATION.metrics if one.unit == "1/s"]
    assert len(rates) == 4
    assert all(f"| {one.heading} | `{one.name}` |" in page for one in rates)


def test_prompts_of_a_file_are_in_the_specification_and_tell_cells_apart(planned, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"vtab/cifar10": {"cat": ["whiskers"]}}')
    found = planned(
        "wds/vtab/cifar10",
        template_file=str(file),
        tasks=("zeroshot_classification", "linear_probe"),
    )
    classified, probed = (ClipSpecification.of(one.cell) for one in found)
    assert classified.prompt_file.path == str(file)
    assert classified.prompt_file.entry == "vtab/cifar10"
    assert found[0].cell.axes == {"prompts": f"mine@{classified.prompt_file.sha256[:8]}"}
    assert str(file) in found[0].local_files
    assert probed.prompt_file is None
    assert found[1].cell.axes == {}
    assert found[1].local_files == ()


CIFAR = ["aereo", "auto", "uccello", "gatto", "cervo", "cane", "rana", "cavallo", "nave", "camion"]


def test_class_names_of_a_file_are_in_the_specification_and_tell_cells_apart(planned, tmp_path):
    file = tmp_path / "it.json"
    file.write_text(json.dumps({"vtab/cifar10": CIFAR}))
    both = ("zeroshot_classification", "linear_probe")
    found = planned("wds/vtab/cifar10", classname_file=str(file), tasks=both)
    classified, probed = (ClipSpecification.of(one.cell) for one in found)
    assert (classified.name_file.path, classified.name_file.entry) == (str(file), "vtab/cifar10")
    assert classified.prompt_file is None
    assert found[0].cell.axes == {"classnames": f"it@{classified.name_file.sha256[:8]}"}
    assert str(file) in found[0].local_files
    assert probed.name_file is None
    assert found[1].cell.axes == {}


def test_a_file_of_class_names_that_does_not_fit_is_refused(planned, web_set, tmp_path):
    file = tmp_path / "it.json"
    file.write_text(json.dumps({"vtab/cifar10": CIFAR[:9]}))
    with pytest.raises(UsageError, match=r" 9 .*vtab/cifar10\b.*\b10 class"):
        planned("wds/vtab/cifar10", classname_file=str(file))
    with pytest.raises(UsageError, match=r"wds/mnist\b.*vtab/cifar10"):
        planned("wds/mnist", classname_file=str(file))
    with pytest.raises(UsageError, match="leave --classname-file out"):
        planned("wds/mscoco_captions", classname_file=str(file))
    german = {"classnames.de.txt": "a\nb\nc\n"}
    german |= {"zeroshot_classification_templates.de.txt": "{c}\n"}
    (tmp_path / "pets.json").write_text(json.dumps({"mine": ["a", "b", "c"]}))
    pets = {"classname_file": str(tmp_path / "pets.json")}
    mine = str(web_set(**german))
    with pytest.raises(UsageError, match=r"mine .*\ben\b.*\bde\b.*--languages"):
        planned(mine, languages=("en", "de"), **pets)
    assert len(planned(mine, languages=("de",), **pets)) == 1


@pytest.mark.parametrize(
    ("named", "lacks"), [((), "no prompts in mine for"), (("x", "y", "z"), "for x, y, z;")]
)
def test_prompts_by_class_that_lack_a_class_are_refused_in_the_plan(
    planned, web_set, tmp_path, named, lacks
):
    names, prompts = tmp_path / "names.json", tmp_path / "prompts.json"
    names.write_text(json.dumps({"mine": named}))
    prompts.write_text('{"mine": {"another": ["a photo"]}}')
    given = {"classname_file": str(names)} if named else {}
    with pytest.raises(UsageError, match=lacks):
        planned(str(web_set()), template_file=str(prompts), **given)


def test_a_file_of_prompts_that_nothing_is_scored_by_is_refused(planned, tmp_path):
    (tmp_path / "mine.json").write_text('{"vtab/cifar10": ["{c}"]}')
    with pytest.raises(UsageError, match="leave --template-file out"):
        planned("wds/mscoco_captions", template_file=str(tmp_path / "mine.json"))
    with pytest.raises(UsageError, match=r"prompts .*wds/mnist, .*vtab/cifar10;"):
        planned("wds/mnist", template_file=str(tmp_path / "mine.json"))
