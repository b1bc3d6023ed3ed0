"""The documentation says what the code does: reference pages, commands, tables, links."""

import re
import shlex
from pathlib import Path

import pytest

from skymark.cli.main import add_suites, app, main
from skymark.model import errors
from skymark.model.causes import explanations
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


WORDS_OF_SKY = {
    *("launch", "exec", "queue", "logs", "cancel", "ssh", "rsync", "status", "down", "jobs launch"),
    *("-c", "-n", "-d", "--gpus", "--num-nodes", "--env", "--env-file", "--secret", "--down", "-i"),
}


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
    rows = (DOCS / "security.md").read_text()
    found = re.findall(r"^\| any .*\| `(\w+)` \| (\d+) \| (\d+) \|$", rows, re.MULTILINE)
    assert found == [(name, f"{one.many}", f"{one.few}") for name, one in EXAMPLES.items()]


def test_every_word_of_a_skypilot_user_s_day_is_tried_by_a_test_that_there_is():
    table = (DOCS / "sky-commands.md").read_text().partition("## How it is tested")[2]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert {word for row in rows for word in re.findall("`([^`]+)`", row[0])} >= WORDS_OF_SKY
    tests = re.findall(r"`(?:(\w+\.py)::)?(test_\w+)`", table)
    assert len(tests) >= len(rows) - 1
    for file, name in tests:
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
