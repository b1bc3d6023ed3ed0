"""`skymark clip`: commands in a suite's own words, on runs that were not measured."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from datetime import UTC, datetime

import pytest
from filelock import FileLock

from skymark.cli.main import main
from skymark.cloud.cost.quote import Offer
from skymark.cloud.lifecycle import quoting
from skymark.execute.planner import load_profile, make_plan
from skymark.machine.facts import capture
from skymark.model.manifest import Manifest
from skymark.model.metric import Figure
from skymark.model.plan import Plan
from skymark.model.record import Cause, Record, Status
from skymark.model.requests import Work
from skymark.rundir.directory import RunDirectory
from skymark.suite.registry import suite_named
from skymark.suites.clip import commands

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNTS = {"pairs": 6, "done": 4, "failed": 1, "pending": 1}
MODELS = ("ViT-B-32:laion2b_s34b_b79k", "RN50-quickgelu:openai")
SETS = ("wds/vtab/cifar10", "wds/mnist", "wds/mscoco_captions")


def counts_in(text):
    """Numbers of a message by the word after each."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", text)}


@pytest.fixture
def run(tmp_path):
    """A run of two models on three sets: one pair failed, one is pending."""
    plan = make_plan(load_profile("clip"), Work(scenarios=SETS, adapters=MODELS))
    directory = tmp_path / "run"
    manifest = Manifest(
        run_id="run",
        created_at=NOW,
        plan=plan,
        plan_hash=plan.hash,
        declaration=suite_named("clip").declared(one.cell for one in plan.cells),
        machine=capture(tmp_path),
    )
    made = RunDirectory.create(directory, manifest, resume=False)
    for number, one in enumerate(plan.cells[:-1]):
        failed = number == 1
        made.write_record(
            Record(
                cell=one.cell,
                cell_hash=one.cell.hash,
                status=Status.FAILED if failed else Status.OK,
                cause=Cause(kind="memory", message="out of memory") if failed else None,
                metrics={} if failed else figures(one.cell.variant, number / 10 + 0.123456789),
                started_at=NOW,
                ended_at=NOW,
            )
        )
    return directory


def figures(task, value):
    if task == "zeroshot_retrieval":
        found = {"image_retrieval_recall@5": value, "text_retrieval_recall@5": value + 0.01}
    else:
        found = {"acc1": value, "mean_per_class_recall": value}
    return {name: Figure(value=one) for name, one in {"score": value, **found}.items()}


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def test_the_help_names_a_suite_with_words_of_its_own(capsys):
    assert main(["--help"]) == 0
    title, *_ = commands.__doc__.partition(":")
    assert re.search(rf"clip\s+{title}", capsys.readouterr().out)
    assert main(["clip", "run", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--models", "--datasets", "--tasks", "--resume"))
    assert not any(option in shown for option in ("--adapters", "--scenarios", "--plan ", "--axis"))


NO_PLAN = ("clip", "plan", "--datasets", "wds/mnist")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("clip", "status"), "skymark clip run"),
        (("clip", "table"), "skymark clip run"),
        (("report",), "skymark run"),
        (("clip", "status", "--plan", "none.json"), "skymark clip plan --output"),
        (("clip", "submit", "--cluster", "x", "--num-jobs", "2"), "skymark clip submit --managed"),
        (("submit", "--cluster", "x", "--num-jobs", "2"), "skymark submit --managed"),
        ((*NO_PLAN, "--output", "a.json"), "skymark run --plan a.json"),
        ((*NO_PLAN, "--on", "H100:8"), "`skymark clip run` has it"),
        (("plan", "--on", "H100:8"), "`skymark run` has it"),
    ],
)
def test_advice_names_the_command_of_the_suite_that_is_used(
    arguments, advice, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.json").write_text("nothing")
    main([*arguments])
    told = " ".join(capsys.readouterr().err.replace("│", "").split())
    assert advice in told


@pytest.mark.parametrize("command", ["run", "plan", "submit", "status", "table"])
def test_the_help_of_a_suite_names_no_command_that_the_suite_has_itself(command, capsys):
    assert main(["clip", command, "--help-all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.findall(r"skymark (?:run|plan|submit)\b(?! --plan)", shown) == []


def test_a_suite_takes_no_profile_of_another(capsys):
    assert main(["clip", "run", "--profile", "cpu"]) == 2
    assert re.search(r"\bcpu\b.* loading\b", capsys.readouterr().err)


def test_a_plan_of_hours_on_a_cpu_tells_the_time_on_a_gpu(capsys):
    long, short = ("--datasets", "wds/imagenet1k"), ("--datasets", "wds/mnist", "--limit", "8")
    for words, told in ((long, True), (short, False), ((*long, "--profile", "clip_gpu"), False)):
        assert main(["clip", "plan", "--models", *MODELS, *words]) == 0
        assert ("on one GPU: " in capsys.readouterr().err) == told


def test_a_plan_shows_pairs_groups_memory_time_and_price(capsys):
    arguments = ("--models", *MODELS, "--datasets", *SETS, "--profile", "clip_gpu")
    assert main(["clip", "plan", *arguments, "--hourly-price", "3"]) == 0
    shown = capsys.readouterr()
    head, *lines = shown.out.splitlines()
    assert head.split() == ["model", "pairs", "data", "sets", "GPU", "memory", "time", "USD"]
    assert [line.split()[:3] for line in lines] == [[name, "3", "3"] for name in MODELS]
    assert " GB" in lines[0]
    assert re.match(r"6 pairs\D+2 models\D+3\D+2 groups", shown.err)
    assert "GPU in amp; " in shown.err
    assert "with --precision fp32: " in shown.err
    assert " 3 USD " in shown.err


def test_a_plan_tells_what_it_assumes_of_weights_and_of_damaged_elements(capsys, tmp_path):
    (tmp_path / "mine.pt").write_bytes(b"weights")
    model = f"ViT-B-32:{tmp_path}/mine.pt"
    arguments = ("--models", model, "--datasets", SETS[0], "--skip-damaged")
    assert main(["clip", "plan", *arguments]) == 0
    shown = capsys.readouterr().err
    assert re.search("open_clip.*: shortest bicubic", shown)
    assert "GELU is assumed" in shown
    assert f"{SETS[0]}: --skip-damaged " in shown
    assert main(["clip", "plan", *arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 3


def test_a_plan_takes_the_price_of_the_cheapest_machine_of_the_catalogue(capsys, monkeypatch):
    """SkyPilot's catalogue is stood in for: it is in SkyPilot's own venv."""
    asked = []

    def offer(profile, machine, tell):
        asked.append((profile, machine.infra))
        return Offer(
            cloud="Lambda",
            region="us-west-1",
            instance_type="gpu_1x_h100",
            accelerators="H100:1",
            spot=False,
            hourly_price_usd=2.5,
        )

    monkeypatch.setattr(quoting, "cheapest_offer", offer)
    chosen = ("--models", MODELS[0], "--datasets", SETS[0], "--profile", "clip_gpu")
    assert main(["clip", "plan", *chosen, "--infra", "lambda", "--json"]) == 0
    shown = capsys.readouterr()
    listed = json.loads(shown.out)
    (one,) = listed["adapters"]
    assert asked == [("clip_gpu", "lambda")]
    assert listed["hourly_price_usd"] == 2.5
    assert one["price_usd"] == pytest.approx(one["time"]["expected_s"] / 3600 * 2.5)
    told = r" 2\.5 USD per hour .*gpu_1x_h100 .*Lambda us-west-1 \(catalogue\)"
    assert re.search(told, shown.err)
    both = ("--infra", "lambda", "--hourly-price", "3")
    assert main(["clip", "plan", *chosen, *both]) == 2
    assert "leave one out" in capsys.readouterr().err


def test_a_plan_lists_its_pairs_and_is_written_as_a_file(capsys, tmp_path):
    arguments = ("--models", MODELS[0], "--datasets", "wds/m*")
    assert main(["clip", "plan", *arguments, "--pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [
        "wds/mnist:zeroshot_classification",
        "wds/mscoco_captions:zeroshot_retrieval",
        "wds/mscoco_captions2017:zeroshot_retrieval",
    ]
    file = tmp_path / "plan.json"
    assert main(["clip", "plan", *arguments, "--output", str(file), "--json", "--pairs"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["pairs"], listed["groups"]) == (3, 1)
    planned = Plan.model_validate_json(file.read_text()).cells
    assert [one["id"] for one in listed["cells"]] == [one.cell.id for one in planned]


def test_the_profile_s_models_are_planned_where_none_is_named(capsys):
    assert main(["clip", "plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 1


def test_pending_is_what_the_plan_has_and_the_records_have_not(run, capsys):
    assert main(["clip", "status", str(run)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["model", "done", "failed", "pending"]
    assert re.search(rf"^{MODELS[0]}\s+2\s+1$", shown, re.MULTILINE)
    assert re.search(rf"^{MODELS[1]}\s+2\s+1$", shown, re.MULTILINE)
    assert counts_in(shown.splitlines()[-1]) == COUNTS


def test_pairs_in_a_state_are_listed_with_their_message(run, capsys):
    assert main(["clip", "status", str(run), "--only", "failed", "pending"]) == 0
    failed, pending = capsys.readouterr().out.splitlines()
    assert failed.split()[:3] == ["failed", MODELS[0], "wds/mnist:zeroshot_classification"]
    assert failed.endswith(": out of memory")
    assert pending.split() == ["pending", MODELS[1], "wds/mscoco_captions:zeroshot_retrieval"]
    assert main(["clip", "status", str(run), "--json"]) == 0
    states = [one["state"] for one in json.loads(capsys.readouterr().out)]
    assert states == ["done", "failed", "done", "done", "done", "pending"]


def test_the_pair_that_is_being_measured_is_running(run, capsys):
    (run / "logs").mkdir(exist_ok=True)
    missing = f"clip.wds_mscoco_captions.zeroshot_retrieval.{MODELS[1].replace(':', '_')}"
    (run / "logs" / f"{missing}.log").touch()
    assert main(["clip", "status", str(run), "--only", "running"]) == 0
    assert capsys.readouterr().out == "none\n"
    with FileLock(run / ".lock"):
        assert main(["clip", "status", str(run), "--only", "running"]) == 0
    assert MODELS[1] in capsys.readouterr().out


def test_a_stored_run_has_the_same_state(run, capsys, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    assert main(["export", str(run), "--to", store.as_uri()]) == 0
    capsys.readouterr()
    assert main(["clip", "status", f"{store.as_uri()}/run"]) == 0
    assert counts_in(capsys.readouterr().out) == COUNTS


def test_the_runs_of_several_machines_count_as_one(run, capsys, tmp_path):
    shares = [tmp_path / "one", tmp_path / "other"]
    for number, share in enumerate(shares):
        shutil.copytree(run, share)
        for place, record in enumerate(sorted((share / "records").iterdir())):
            if place % 2 == number:
                record.unlink()
    assert main(["clip", "status", str(shares[0])]) == 0
    assert "done, 4 pending" in capsys.readouterr().out.replace("1 failed, ", "")
    assert main(["clip", "status", *map(str, shares)]) == 0
    assert counts_in(capsys.readouterr().out) == COUNTS


def test_a_plan_of_which_nothing_has_run_is_pending(capsys, tmp_path):
    file = str(tmp_path / "plan.json")
    what = ("--models", *MODELS, "--datasets", *SETS)
    assert main(["clip", "plan", *what, "--output", file]) == 0
    capsys.readouterr()
    assert main(["clip", "status", "--plan", file]) == 0
    assert counts_in(capsys.readouterr().out) == {"pairs": 6, "pending": 6}


def test_the_records_of_a_run_count_for_a_plan_that_is_larger(run, capsys, tmp_path):
    file = str(tmp_path / "plan.json")
    what = ("--models", *MODELS, "--datasets", *SETS, "wds/stl10")
    assert main(["clip", "plan", *what, "--output", file]) == 0
    capsys.readouterr()
    assert main(["clip", "status", str(run), "--plan", file]) == 0
    assert counts_in(capsys.readouterr().out) == COUNTS | {"pairs": 8, "pending": 3}


def test_a_run_of_another_suite_is_refused(capsys):
    assert main(["clip", "status", "tests/data/run"]) == 2
    assert " suite loading; " in capsys.readouterr().err


def test_a_table_has_every_digit_as_csv_and_no_mean_of_half_a_row(run, capsys):
    assert main(["clip", "table", str(run), "--sheet", "classification", "--format", "csv"]) == 0
    head, *rows = rows_of(capsys.readouterr().out)
    assert head == ["model", "wds/vtab/cifar10", "wds/mnist", "mean"]
    assert rows[0] == [MODELS[0], "0.123456789", "", ""]
    assert rows[1][:3] == [MODELS[1], "0.423456789", "0.523456789"]
    assert float(rows[1][3]) == pytest.approx(0.473456789)


def test_retrieval_has_a_column_for_images_and_one_for_texts(run, capsys):
    assert main(["clip", "table", str(run), "--sheet", "retrieval", "--format", "csv"]) == 0
    head, row = rows_of(capsys.readouterr().out)
    assert head == ["model", "wds/mscoco_captions image R@5", "wds/mscoco_captions text R@5"]
    assert [float(one) for one in row[1:]] == pytest.approx([0.323456789, 0.333456789])


def test_tables_for_people_are_markdown_or_html(run, capsys, tmp_path):
    assert main(["clip", "table", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "## classification" in shown
    assert "## retrieval" in shown
    assert "| model | wds/vtab/cifar10 | wds/mnist | mean |" in shown
    assert "| RN50-quickgelu:openai | 0.4235 | 0.5235 | 0.4735 |" in shown
    page = tmp_path / "page.html"
    assert main(["clip", "table", str(run), "--format", "html", "--output", str(page)]) == 0
    assert "<td>0.4235</td>" in page.read_text()


def test_results_of_the_peer_stand_beside_a_run_s(run, capsys, tmp_path):
    out = tmp_path / "json"
    assert main(["export", str(run), "--to", "clip-benchmark", "--output", str(out)]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == len(list(out.iterdir())) == 4
    assert " 2 cells" in shown.err
    sheet = ("--sheet", "classification", "--format", "csv")
    assert main(["clip", "table", str(run), str(out), *sheet]) == 0
    head, *rows = rows_of(capsys.readouterr().out)
    assert head[:2] == ["model", "run"]
    by_source = {(row[0], row[1]): row[2:4] for row in rows}
    assert by_source[MODELS[1], "run"] == by_source[MODELS[1], "clip-benchmark"]


def test_captioning_by_the_peer_has_a_table_of_its_own(run, capsys, tmp_path):
    file = tmp_path / "captions.json"
    found = {"dataset": "wds/mscoco_captions", "model": "coca_ViT-B-32", "pretrained": "mine.pt",
             "task": "captioning", "metrics": {"Bleu_4": 0.25, "CIDEr": 0.75}}  # fmt: skip
    file.write_text(json.dumps(found))
    assert main(["clip", "table", str(run), str(file), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert tables.keys() == {"classification", "retrieval", "captioning"}
    assert tables["captioning"] == [{"model": "coca_ViT-B-32:mine.pt", "wds/mscoco_captions": 0.75}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sheet", "clasification"), "'classification'"),
        (("--format", "csv"), "choose one of classification, retrieval with --sheet"),
        (("--metric", "acc11"), "'acc1'"),
        (("--flips", MODELS[0], MODELS[0]), "give two models"),
    ],
)
def test_a_table_that_cannot_be_made_is_answered(run, capsys, arguments, message):
    assert main(["clip", "table", str(run), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_format_that_the_suite_has_not_is_answered_with_those_that_it_has(run, capsys):
    assert main(["export", str(run), "--to", "clip-bench"]) == 2
    known = r"--to clip-bench .*\.csv .*\.parquet.* pytest-benchmark .*clip-benchmark"
    assert re.search(known, capsys.readouterr().err)
    assert main(["export", str(run), "--to", "x.csv", "--output", "y"]) == 2
    assert "--output is for" in capsys.readouterr().err
