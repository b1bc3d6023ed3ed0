"""The documentation says what the code does: reference pages, commands, tables, links."""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from skymark.cli.main import add_suites, app, main
from skymark.model import errors
from skymark.model.record import explanations
from skymark.rundir.directory import RunDirectory
from skymark.rundir.reader import open_run
from tests.data.make_run import cell, measured, rounds_of, write_run
from tests.examples import EXAMPLES
from tests.image_modes import MODES, REFUSED
from tests.reference_pages import PAGES
from tests.reference_pages.loading import own_adapters

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "skymark"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_made_from_the_code(name):
    assert (ROOT / name).read_text() == PAGES[name](), "`nox -s reference` makes the page anew"


@pytest.mark.parametrize("slug", own_adapters())
def test_an_adapter_names_the_page_that_it_follows(slug):
    assert own_adapters()[slug].guide.startswith("https://")


def test_every_kind_of_image_is_in_one_row_of_the_table():
    table = (DOCS / "reference" / "images.md").read_text().partition("images: begin -->")[2]
    cells = re.findall(r"^\| (\w+: [^|]+) \|", table, re.MULTILINE)
    by_format = [part.partition(": ") for cell in cells for part in cell.split("<br>")]
    named = [
        format if kind == "plain" else f"{format}, {kind}"
        for format, _, kinds in by_format
        for kind in kinds.split("; ")
    ]
    assert sorted(named) == sorted([*MODES, *REFUSED])


GIVEN = re.compile(
    r"""(?:\(\s*kind=|(?:refuse|remember|Hypothesis|Refused)\(\s*|_told\(\s*field,\s*
    |\sif\sis_full\selse\s|^(?:DIED|DOUBTFUL_ROUND)\s=\s)"([\w-]+)"
    |\((no-driver)\)""",
    re.VERBOSE | re.MULTILINE,
)
VERDICTS = ("suites/loading/oracle", "suites/loading/drives", "suites/clip/oracle")


def kinds_in(*folders: str) -> set[str]:
    """Return the kinds of causes and warnings that the code of some folders gives."""
    files = [path for folder in folders for path in sorted((SOURCE / folder).rglob("*.py"))]
    found = (kind for path in files for kind in GIVEN.findall(path.read_text()))
    return {one or other for one, other in found}


def test_every_verdict_is_explained():
    kinds = kinds_in(*VERDICTS)
    assert {"skipped-stage", "ignored-seed", "another-rank", "resume", "wrong-images"} <= kinds
    assert kinds == {kind for kind, one in explanations().items() if "invalid" in one.given}


def test_every_cause_and_every_warning_is_explained():
    kinds = kinds_in(".")
    expected = {"timeout", "venv", "drift", "cpu-quota", "leaked-processes", "worker-died"}
    assert expected <= kinds
    raised = {kind for kind in explanations() if kind.endswith("Error")}
    assert kinds == {*explanations()} - raised
    assert all(hasattr(errors, kind) for kind in raised)


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


YAML_OPTIONS = ("test_a_yaml_gets_what_the_options_of_sky_say",)
LAUNCH_OPTIONS = ("test_a_launch_gets_what_the_options_of_sky_launch_say",)
EACH_OTHERS = ("test_sky_and_skymark_show_and_end_each_other_s_jobs",)
REACHING = ("test_a_shell_a_command_and_files_reach_each_machine",)
SKY_LAUNCH = ("test_sky_launch_puts_each_job_s_results_into_a_directory_of_its_own",)
IDLE = ("test_leaving.py::test_an_idle_machine_is_set_up_runs_nothing_and_takes_runs",)

MANAGED = "test_managed.py"

TRIED = {
    "launch": (*SKY_LAUNCH, *LAUNCH_OPTIONS),
    "launch --idle": IDLE,
    "exec": (
        *YAML_OPTIONS,
        "test_the_runner_needs_no_path_in_sky_exec",
        "test_a_command_runs_in_the_source_with_skymark_s_python_and_fails_with_its_job",
        "test_a_run_on_one_of_two_machines_and_half_a_card_comes_home",
        "test_points_of_a_grid_run_side_by_side_on_cards_of_their_own",
        "test_each_job_runs_its_own_source_where_sky_exec_gives_it_that_of_the_last",
        "test_a_runner_that_is_given_the_directory_of_runs_is_what_collect_brings",
        "test_what_the_machine_cannot_give_is_refused_and_queues_nothing",
    ),
    "queue": EACH_OTHERS,
    "logs": EACH_OTHERS,
    "cancel": (*EACH_OTHERS, "test_jobs_are_cancelled_by_number_and_all_at_once"),
    "status": EACH_OTHERS,
    "ssh": REACHING,
    "rsync": REACHING,
    "down": (
        "test_launch.py::test_the_doctor_names_a_machine_that_was_left_over",
        "test_lifecycle.py::test_two_machines_share_a_plan_and_stay_for_another_run",
    ),
    "jobs launch": (
        f"{MANAGED}::test_sky_jobs_launch_runs_one_of_our_yamls_into_the_store_that_it_is_given",
        f"{MANAGED}::test_where_a_machine_is_taken_away_another_one_goes_on_and_repeats_nothing_stored",
    ),
    "-c": (*SKY_LAUNCH, *LAUNCH_OPTIONS, *IDLE),
    **dict.fromkeys(
        ("-n", "--gpus", "--num-nodes", "--env", "--env-file", "--secret"),
        (*YAML_OPTIONS, *LAUNCH_OPTIONS, "test_a_key_arrives_in_the_job_of_a_machine_s_yaml"),
    ),
    "-d": (
        *EACH_OTHERS,
        "test_leaving.py::test_a_detached_launch_returns_and_its_results_wait_on_the_machine",
    ),
    **dict.fromkeys(
        ("--down", "-i"), ("test_launch.py::test_an_idle_machine_ends_itself", *LAUNCH_OPTIONS)
    ),
    "-y": (
        "test_sky_words.py::test_every_option_is_ours_or_taken_or_answered",
        "test_everyday_words_of_sky_work_as_they_are_printed",
    ),
}
"""Tests of ``tests/cloud`` by the word of a SkyPilot user's day that they try with `sky`."""


def test_a_newcomer_s_table_names_files_that_there_are():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Find the code")[2]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", table.partition("\n## ")[0], re.MULTILINE)[1:]
    assert len(rows) >= 15
    for row in rows:
        folder = ROOT
        for name in re.findall(r"`([\w./]+(?:/|\.py))`", row):
            path = ROOT / name if name.startswith("src/") else folder / name
            assert path.exists(), path
            folder = path if path.is_dir() else path.parent


def test_the_numbers_of_examples_of_each_property_are_in_the_table():
    rows = (DOCS / "reference" / "evidence.md").read_text()
    found = re.findall(r"^\| any .*\| `(\w+)` \| (\d+) \| (\d+) \|$", rows, re.MULTILINE)
    assert found == [(name, f"{one.many}", f"{one.few}") for name, one in EXAMPLES.items()]


@pytest.mark.parametrize("word", TRIED)
def test_every_word_of_a_skypilot_user_s_day_is_explained_and_tried_by_a_test_that_there_is(word):
    rows = re.findall(r"^\| (`[^|]+) \|", (DOCS / "sky-commands.md").read_text(), re.MULTILINE)
    assert any(re.search(rf"`{word}[` ]", row) for row in rows)
    for test in TRIED[word]:
        file, _, name = test.rpartition("::")
        path = ROOT / "tests" / "cloud" / (file or "test_daily_work.py")
        assert f"def {name}(" in path.read_text()


def commands():
    """Yield every command line of skymark's in the documentation."""
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("skymark "):
                    yield pytest.param(line, id=f"{path.name}: {line.partition('  #')[0][8:]}")


@pytest.mark.parametrize("line", list(commands()))
def test_a_documented_command_is_understood(line):
    first, *_ = re.split(r"[;|&<>]", line)
    words = shlex.split(first, comments=True)[1:]
    add_suites(words)
    app.parse_args(words, exit_on_error=False, print_error=False)


SCENARIOS_OF_AICHOR = (1, 2, 3, 4)
OF_THE_PAGE = (*("--total-cpus", "200", "--total-memory", "400", "--command", "python -u main.py"),)


@pytest.mark.parametrize("scenario", SCENARIOS_OF_AICHOR)
def test_a_manifest_of_the_page_is_what_render_writes(scenario, capsys):
    shown = re.findall(r"```yaml\n(.*?)```", (DOCS / "splitting.md").read_text(), re.DOTALL)
    assert len(shown) == len(SCENARIOS_OF_AICHOR)
    comment, _, manifest = shown[scenario - 1].partition("\n")
    if scenario > 1:  # the page says once how all begin
        manifest = shown[0].partition("\n")[2].partition("  types:\n")[0] + manifest
    assert main(["render", "aichor", "--scenario", str(scenario), *OF_THE_PAGE]) == 0
    assert f"{comment}\n{manifest}" == capsys.readouterr().out


def test_the_program_on_items_of_one_s_own_runs(monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "splitting.md").read_text(), re.DOTALL)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "10")
    found = {}
    exec(program, found)
    assert (found["part"].items[0], found["part"].items[-1]) == (101, 200)


def test_the_query_over_all_samples_runs_and_has_each_run_once(tmp_path, monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "results.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    rounds = rounds_of(60_000, name="numpy")
    names, adapters = ("20260101-a", "20260102-b"), ("numpy", "grain")
    for name in names:
        records = [measured(cell("TAB-1", adapter), rounds) for adapter in adapters]
        path = write_run(tmp_path / "results" / name, records)
        run = RunDirectory.of(path, open_run(path).manifest)
        for record in records:
            run.write_record(record, rounds)
    (tmp_path / "results" / "latest").symlink_to(names[-1])
    found = {}
    exec(program, found)
    origin = found["table"].select(["run_id", "adapter"]).to_pylist()
    waits = sum(len(one.samples["wait_ns"]) for one in rounds)
    assert Counter((row["run_id"], row["adapter"]) for row in origin) == {
        (name, adapter): waits for name in names for adapter in adapters
    }
