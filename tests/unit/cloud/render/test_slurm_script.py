"""Rendered batch scripts: clean by shellcheck, and what sbatch reads in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from signal import Signals

import pytest

from skymark.cli.main import main
from skymark.cloud.render.slurm import PLAIN_READS, SHARED_READS

ROOT = Path(__file__).parents[4]
SPLITS = ("even:1", "even:10", "weighted:heavy=1x60,worker=7x20", "two-level:5x10", "waves:5x10/4")
TOTAL = ("--total-cpus", "200", "--total-memory", "400")
CACHES = ("--cache-policy", "per-job", "--cache-root", "/shared/our caches")


@pytest.fixture
def script(capsys):
    """Render a script."""

    def render(*words, profile="ci_cpu"):
        assert main(["render", "slurm", profile, *words]) == 0
        return capsys.readouterr().out

    return render


def directives(text: str) -> list[str]:
    return re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)


def shellcheck() -> str:
    """Return the program, of this interpreter's packages or of the system."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    found = shutil.which("shellcheck", path=path)
    assert found is not None, "shellcheck is no program here; install requirements/dev.txt"
    return found


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("more", [(), ("--store", "s3://b/p", *TOTAL), CACHES, CACHES[:2]], ids=len)
def test_shellcheck_finds_nothing(split, more, script, tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(script("--split", split, *more))
    done = subprocess.run([shellcheck(), file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_words_of_the_user_stay_words(script, tmp_path):
    """A shell reads the command as the user gave it."""
    plan = tmp_path / "it's a $name; exit" / "plan.json"
    plan.parent.mkdir()
    assert main(["plan", "--scenarios", "TAB-1", "--output", str(plan)]) == 0
    text = script("--plan", str(plan), "--split", "even:2")
    (line,) = [one for one in text.splitlines() if one.startswith("skymark run")]
    spoken = 'skymark() { printf "%s\\n" "$@"; }; scratch=/s run=r store=file:///shared\n'
    said = subprocess.run(
        ["bash", "-c", spoken + line.removesuffix("&")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[:3] == ["run", "--plan", str(plan)]
    assert said[-5:] == ["--output", "/s/r", "--store", "file:///shared", "--resume"]


def test_the_script_says_how_to_make_its_venvs_where_nodes_have_no_network(script):
    text = script("--scenarios", "TAB-1", "--adapters", "numpy", "grain")
    assert ": skymark env build numpy grain\n" in text


def test_an_array_has_a_task_for_each_worker(script):
    text = script("--split", "even:10", *TOTAL)
    assert {"--array=0-9", "--cpus-per-task=20", "--mem=38146M"} <= set(directives(text))
    assert "export SKYMARK_ARRAY=0-9" in text


def test_waves_limit_how_many_tasks_run_at_once(script):
    text = script("--split", "waves:5x10/4")
    assert "--array=0-49%20" in directives(text)
    assert "export SKYMARK_ARRAY=0-49\n" in text


SBATCH = """\
#!/bin/bash
echo "$*" >> "$HOME/submitted"
wc -l < "$HOME/submitted"
"""
"""Notes how it was called, and prints a number as sbatch --parsable does."""


def test_chained_starts_are_a_program_that_submits_each_task_after_the_one_before(script, tmp_path):
    text = script("--split", "even:4", "--stagger", "2")
    begin = text.index("#   job=$(")
    chain = text[begin : text.index("#   done") + len("#   done")].replace("#   ", "")
    (tmp_path / "sbatch").write_text(SBATCH)
    (tmp_path / "sbatch").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    variables = {"HOME": str(tmp_path), "PATH": path}
    subprocess.run(
        ["bash", "-euc", chain.replace("THIS-FILE", "job.sh")], env=variables, check=True
    )
    assert (tmp_path / "submitted").read_text().splitlines() == [
        "--parsable --array=0 job.sh",
        "--parsable --array=1 -d after:1+2 job.sh",
        "--parsable --array=2 -d after:2+2 job.sh",
        "--parsable --array=3 -d after:3+2 job.sh",
    ]
    assert "of 4 tasks\n# the last starts 6 min after the first" in text


def test_the_reason_against_chained_starts_is_what_the_page_has_measured():
    page = (ROOT / "docs" / "reference" / "caches.md").read_text("utf-8")
    tables = page.partition("tar table: begin")[2]
    for policy, reads in (("staggered", PLAIN_READS), ("shared", SHARED_READS)):
        row = next(line for line in tables.splitlines() if line.startswith(f"| {policy}, 16 |"))
        assert row.split("|")[4].strip() == f"{reads} ×"


def test_a_single_worker_is_no_array(script):
    text = script()
    assert not [one for one in directives(text) if one.startswith("--array")]
    assert "SKYMARK_ARRAY" not in text


def test_types_of_workers_are_submitted_one_by_one_as_parts_of_one_array(script):
    text = script("--split", "weighted:heavy=1x60,worker=7x20", *TOTAL)
    assert not [one for one in directives(text) if "cpus" in one or "array" in one]
    assert "sbatch --array=0 --cpus-per-task=60 --mem=114440M" in text
    assert "sbatch --array=1-7 --cpus-per-task=20 --mem=38146M" in text
    assert "export SKYMARK_ARRAY=0-7" in text


@pytest.mark.parametrize(
    ("deadline", "limit", "signal"),
    [
        ((), "0-00:10:00", 120),
        (("--deadline", "90s"), "0-00:01:30", 22),
        (("--deadline", "36h"), "1-12:00:00", 120),
        (("--deadline", "1-12:00:01"), "1-12:00:01", 120),
    ],
)
def test_a_task_is_told_before_its_time_is_up(deadline, limit, signal, script):
    found = directives(script(*deadline))
    assert f"--time={limit}" in found
    assert f"--signal=B:USR1@{signal}" in found
    assert "--requeue" in found


def test_a_suite_whose_cells_need_a_machine_takes_whole_nodes(script):
    assert "--exclusive" in directives(script())
    assert "--exclusive" not in directives(script("--total-cpus", "8"))


def test_gpus_are_asked_for(script):
    assert "--gres=gpu:H100:1" in directives(script("--gpus", "H100:1", profile="gpu_h100"))


def test_a_plan_s_file_takes_the_place_of_options(script, tmp_path):
    plan = tmp_path / "plan.json"
    assert main(["plan", "--scenarios", "TAB-1", "--output", str(plan)]) == 0
    text = script("--plan", str(plan), "--split", "longest:2")
    assert f"skymark run --plan {plan} --split longest:2" in text


TEMPLATE = """\
#!/bin/bash
@DIRECTIVES@
#SBATCH --account=physics --mail-user=me@site.org
module load python
@BODY@
echo done
"""


def test_a_site_has_its_own_template(script, tmp_path):
    file = tmp_path / "site.sh"
    file.write_text(TEMPLATE)
    text = script("--split", "even:2", "--template", str(file))
    assert "me@site.org" in text
    assert text.index("module load python") < text.index("skymark run")
    assert text.rstrip().endswith("echo done")


@pytest.mark.parametrize(
    "template", ["", "@BODY@\n", TEMPLATE + "@BODY@\n", TEMPLATE + "@OTHER@\n"]
)
def test_a_template_without_its_two_lines_is_refused(template, tmp_path, capsys):
    file = tmp_path / "site.sh"
    file.write_text(template)
    assert main(["render", "slurm", "ci_cpu", "--template", str(file)]) == 2
    assert "@DIRECTIVES@ and @BODY@" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpu_h100"], "give --gpus"),
        (["gpu_h100", "--gpus", "one"], "--gpus one"),
        (["tpu_v5e"], "render sky"),
        (["ci_cpu", "--split", "weighted:a=1x0.5,b=1x1"], "whole CPUs"),
        (["ci_cpu", "--stagger", "1"], "--stagger .*--split"),
        (["ci_cpu", "--split", "weighted:a=1x1,b=1x1", "--stagger", "1"], "of several types"),
        (["ci_cpu", "--template", "nowhere.sh"], "nowhere.sh"),
        (["ci_cpu", "--store", "ftp://x"], "names no store"),
        (["ci_cpu", "--plan", "nowhere.json", "--rounds", "3"], "--rounds .*--plan nowhere"),
        (["ci_cpu", "--cache-root", "/shared"], "--cache-root .*--cache-policy"),
        (["ci_cpu", "--cache-policy", "shared", "--cache-root", "caches"], "--cache-root caches "),
        (["ci_cpu", "--cache-policy", "prebuilt"], "--cache-policy prebuilt .*--data"),
        (["ci_cpu", "--output", "nowhere/job.sh", "--deadline", "soon"], "no duration"),
        (["ci_cpu", "--results", "a\nrm -rf ~"], "control character"),
        (["ci_cpu", "--cache-policy", "shared", "--cache-root", "/a\nb"], "control character"),
    ],
)
def test_what_sbatch_or_a_task_would_refuse_is_refused_here(words, said, capsys):
    assert main(["render", "slurm", *words]) == 2
    shown = capsys.readouterr()
    assert re.search(said, " ".join(shown.err.split()))
    assert shown.out == ""


PROGRAM = """\
#!/bin/bash
trap 'echo told; touch "$HOME/told"; exit 130' TERM
case $* in *--split*) ;; *) exit 9 ;; esac
printf '%s\\n' "$@" > "$HOME/words"
ls "$HOME/caches" "$HOME/caches/hf-datasets-$SLURM_JOB_ID" > "$HOME/held" 2>/dev/null
printf '%s\n' "${SKYMARK_CACHE_POLICY:-}" "${SKYMARK_CACHE_ROOT:-}" > "$HOME/caches-told"
touch "$HOME/begun"
sleep "${WORK_S:-0}" > /dev/null 2>&1 & wait $!
exit "${STATUS:-0}"
"""
SCONTROL = '#!/bin/bash\necho "$*" >> "$HOME/scontrol"\n'


@pytest.fixture
def node(tmp_path, script):
    """A node without Slurm: the script, with programs that tell how they were called.

    The tests in tests/cloud run it on a real Slurm; here every end can be brought about at once.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("skymark", PROGRAM), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    file = tmp_path / "job.sh"
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "scratch"),
        "SLURM_JOB_ID": "13",
        "SLURM_ARRAY_JOB_ID": "11",
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    (tmp_path / "scratch").mkdir()

    def start(*words: str, **more: str) -> subprocess.Popen[str]:
        split = () if "--split" in words else ("--split", "even:10")
        file.write_text(script(*split, *words))
        return subprocess.Popen(
            ["bash", str(file)],
            env=variables | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(process: subprocess.Popen[str], tmp_path: Path) -> tuple[int, str]:
    """Return the status and output of a script; its scratch must be gone."""
    said, _ = process.communicate(timeout=120)
    assert list((tmp_path / "scratch").iterdir()) == []
    return process.returncode, said


def await_file(path: Path) -> None:
    while not path.exists():
        pass


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_task_ends_as_its_run_ends(status, node, tmp_path):
    assert ended(node(STATUS=str(status)), tmp_path)[0] == status
    assert not (tmp_path / "scontrol").exists()


@pytest.mark.parametrize("signal", ["USR1", "TERM"])
def test_a_told_task_lets_its_run_store_and_queues_up_again_near_the_limit_alone(
    signal, node, tmp_path
):
    process = node(WORK_S="60")
    await_file(tmp_path / "begun")
    process.send_signal(Signals[f"SIG{signal}"])
    status, said = ended(process, tmp_path)
    assert (status, (tmp_path / "told").exists()) == (130, True)
    assert (tmp_path / "scontrol").exists() is (signal == "USR1")
    assert f" {tmp_path}/results/" in said
    if signal == "USR1":
        assert (tmp_path / "scontrol").read_text() == "requeue 11_2\n"
        assert "queues up again" in said


TOLD_EARLY = """\
#!/bin/bash
@DIRECTIVES@
tell() { until [ -e "$HOME/begun" ]; do sleep 0.05; done; kill -SIGNAL $$; }
trap 'case $BASH_COMMAND in worker=?!) tell ;; esac' DEBUG
@BODY@
"""
"""Tells the task in the moment before its run's number is noted."""


@pytest.mark.parametrize("signal", ["USR1", "TERM"])
def test_a_task_that_is_told_before_it_knows_its_run_s_number_tells_it_all_the_same(
    signal, node, tmp_path
):
    site = tmp_path / "site.sh"
    site.write_text(TOLD_EARLY.replace("SIGNAL", signal))
    status, _ = ended(node("--template", str(site), WORK_S="60"), tmp_path)
    assert (status, (tmp_path / "told").exists()) == (130, True)
    assert (tmp_path / "scontrol").exists() is (signal == "USR1")


def test_a_limit_shorter_than_a_round_does_not_go_on_for_ever(node, tmp_path):
    process = node(WORK_S="60", SLURM_RESTART_COUNT="20")
    await_file(tmp_path / "begun")
    process.send_signal(Signals.SIGUSR1)
    assert ended(process, tmp_path)[0] == 130
    assert not (tmp_path / "scontrol").exists()


def test_without_the_program_a_task_says_what_to_do(node, tmp_path):
    (tmp_path / "bin" / "skymark").unlink()
    status, said = ended(node(PATH="/usr/bin:/bin"), tmp_path)
    assert (status, "activate its venv" in said) == (2, True)


@pytest.mark.parametrize("told", [False, True])
def test_a_task_has_caches_by_its_job_s_id_which_go_with_it(told, node, tmp_path):
    """Also those that it left itself where its node failed; another job's stay."""
    caches = tmp_path / "caches"
    (caches / "hf-datasets-12").mkdir(parents=True)
    (caches / "hf-datasets-13").mkdir()
    (caches / "hf-datasets-13" / "left").touch()
    process = node(
        "--cache-policy", "per-job", "--cache-root", str(caches), WORK_S="60" if told else "0"
    )
    if told:
        await_file(tmp_path / "begun")
        process.send_signal(Signals.SIGUSR1)
    assert ended(process, tmp_path)[0] == (130 if told else 0)
    assert (tmp_path / "scontrol").exists() is told
    held = (tmp_path / "held").read_text()
    assert "hf-datasets-13\n" in held
    assert "left" not in held
    assert (
        f"--cache-policy\nper-job\n--cache-root\n{caches}/hf-datasets-13\n"
        in (tmp_path / "words").read_text()
    )
    assert [path.name for path in caches.iterdir()] == ["hf-datasets-12"]


def test_caches_without_a_directory_of_the_site_lie_in_the_task_s_scratch(node, tmp_path):
    assert ended(node("--cache-policy", "per-job"), tmp_path)[0] == 0
    words = (tmp_path / "words").read_text().splitlines()
    place = Path(words[words.index("--cache-root") + 1])
    assert place.name == "hf-datasets-13"
    assert place.parent.parent == tmp_path / "scratch"


@pytest.mark.parametrize("said", [{}, {"SKYMARK_CACHE_POLICY": "shared"}])
def test_a_task_has_caches_of_its_own_unless_told_otherwise(said, node, tmp_path):
    assert ended(node(**said), tmp_path)[0] == 0
    policy, root = (tmp_path / "caches-told").read_text().splitlines()
    assert policy == said.get("SKYMARK_CACHE_POLICY", "per-job")
    assert root.startswith(str(tmp_path / "scratch")) is not bool(said)
    assert "--cache-policy" not in (tmp_path / "words").read_text()


def test_a_directory_of_the_site_s_has_the_user_s_name(node, tmp_path):
    """Of results and of caches; all else in it is no shell code."""
    given = ("--results", "~/of $ME $(touch x)", "--cache-policy", "shared")
    process = node(*given, "--cache-root", "$HOME/caches `touch x`", ME="me")
    assert ended(process, tmp_path)[0] == 0
    words = (tmp_path / "words").read_text().splitlines()
    assert f"file://{tmp_path}/of%20me%20$(touch%20x)" in words
    assert f"{tmp_path}/caches `touch x`" in words
    assert not (tmp_path / "x").exists()


def test_a_variable_that_a_node_has_not_is_named(node, tmp_path):
    status, said = ended(node("--results", "/tmp/$NOWHERE"), tmp_path)
    assert status != 0
    assert re.search("NOWHERE: .*--results", said)


@pytest.mark.parametrize("split", ["even:1", "even:3"])
def test_a_script_without_slurm_runs_or_says_how(split, node, tmp_path, script):
    process = node("--split", split, SLURM_JOB_ID="", SLURM_ARRAY_TASK_ID="", SLURM_SUBMIT_DIR="")
    status, said = ended(process, tmp_path)
    if split == "even:1":
        assert (status, (tmp_path / "begun").exists()) == (0, True)
    else:
        assert status == 2
        assert re.search(r"\b3 tasks\b.*sbatch", said)


@pytest.mark.parametrize("profile", ["a\nrm -rf x.toml", "a\rb.toml", "a\x1b[2J.toml"])
def test_a_name_with_a_line_break_becomes_no_shell_code(profile, tmp_path, capsys):
    file = tmp_path / profile
    file.write_text((ROOT / "benchmarks" / "profiles" / "ci_cpu.toml").read_text())
    assert main(["render", "slurm", str(file)]) == 2
    shown = capsys.readouterr()
    assert ("control character" in " ".join(shown.err.split()), shown.out) == (True, "")


def test_a_profile_of_one_s_own_gives_the_job_its_plain_name(script, tmp_path):
    file = tmp_path / "my $(profile)" / f"{'long ' * 30}.toml"
    file.parent.mkdir()
    file.write_text((ROOT / "benchmarks" / "profiles" / "ci_cpu.toml").read_text())
    (name,) = (one for one in directives(script(profile=str(file))) if "job-name" in one)
    assert re.fullmatch(r"--job-name=skymark-long-[a-z-]{1,50}", name)


SCONTROL_OF = """\
#!/bin/bash
[ "$*" = "show config" ] || exit 1
echo "MaxArraySize            = 1001"
echo "MaxDBDMsgs = 20008"
"""


def test_an_array_that_slurm_does_not_take_is_refused_with_its_number(
    tmp_path, monkeypatch, script, capsys
):
    (tmp_path / "scontrol").write_text(SCONTROL_OF)
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "--array=0-1000" in directives(script("--split", "even:1001"))
    assert main(["render", "slurm", "ci_cpu", "--split", "even:1002"]) == 2
    assert "1,001 here (MaxArraySize" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "scontrol").write_text("#!/bin/bash\nexit 1\n")
    text = script("--split", "even:1002")
    assert re.search(r"# 1,002 .*MaxArraySize\D+1,002\b.*1,001", text)


def test_shared_caches_stay(node, tmp_path):
    caches = tmp_path / "caches"
    (caches / "shared").mkdir(parents=True)
    words = ("--cache-policy", "shared", "--cache-root", str(caches))
    assert ended(node(*words), tmp_path)[0] == 0
    assert "\n".join(words) in (tmp_path / "words").read_text()
    assert [path.name for path in caches.iterdir()] == ["shared"]
