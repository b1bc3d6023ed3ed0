"""The workflows are correct by actionlint, pinned, frugal with rights, and name real commands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.cli.main import app

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = shutil.which("actionlint", path=str(Path(sys.executable).parent)) or shutil.which(
    "actionlint"
)


def lines(pattern: str) -> list[str]:
    return [
        line.strip()
        for path in WORKFLOWS
        for line in path.read_text().splitlines()
        if re.search(pattern, line)
    ]


def actionlint(*files: Path) -> subprocess.CompletedProcess[str]:
    assert ACTIONLINT is not None
    return subprocess.run(
        [ACTIONLINT, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed")
def test_actionlint_finds_nothing():
    done = actionlint(*WORKFLOWS)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed")
def test_actionlint_would_find_a_wrong_key(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert "run-on" in actionlint(wrong).stdout


def test_every_action_is_pinned_by_its_commit():
    uses = lines(r"^\s*-?\s*uses:")
    assert uses
    for use in uses:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", use), use


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_rights_but_those_that_a_job_asks_for(path):
    text = path.read_text()
    assert "\npermissions: {}\n" in text
    rights = re.findall(r"^ {6}([\w-]+: (?:read|write))$", text, re.MULTILINE)
    assert set(rights) <= {"contents: read", "pull-requests: write"}


def test_a_secret_is_seen_by_the_one_step_that_needs_it():
    for path in WORKFLOWS:
        for line in path.read_text().splitlines():
            if "secrets." in line:
                # Ten spaces: the environment of a step, not of a job or a workflow.
                assert re.fullmatch(r" {10}[A-Z_]+: \$\{\{ secrets\.[A-Z_]+ \}\}", line), line


def test_no_text_of_a_pull_request_reaches_a_shell():
    for line in lines(r"\$\{\{ *github\.event"):
        assert re.match(r"(NUMBER|group): ", line), line


def commands() -> list[list[str]]:
    """Every skymark command in the workflows, as words; redirections and pipes are left out."""
    text = "\n".join(path.read_text() for path in WORKFLOWS).replace("\\\n", " ")
    found = re.findall(r"^\s*(?:run: )?(?:\.venv/bin/)?skymark ([^\n>|]*)", text, re.MULTILINE)
    return [shlex.split(words.replace('"$MAX_COST_USD"', "2.5")) for words in found]


def test_every_command_and_option_exists():
    assert {words[0] for words in commands()} == {"cost", "launch", "down", "report", "run"}
    for words in commands():
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_a_pull_request_is_gated_on_its_base_and_head_in_turn():
    (words,) = (words for words in commands() if words[0] == "run")
    assert words[words.index("--against") + 1] == "HEAD^1"
    assert "--gate" in words
    assert lines(r"fetch-depth: 2")


def test_machines_are_ended_whatever_happened_before():
    text = (ROOT / ".github" / "workflows" / "bench.yml").read_text()
    steps = text.split("      - name: ")
    (ending,) = (step for step in steps if "skymark down" in step)
    assert "if: always()" in ending
    assert text.index("skymark launch") < text.index("skymark down")


def test_a_report_in_a_fence_cannot_end_it():
    fenced = lines(r"skymark report ")
    assert fenced
    assert all(line.count("| tr '`' \"'\"") == 1 for line in fenced)
