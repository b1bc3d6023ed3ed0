"""Bad input gets a clear error that says what to do, before anything is started."""

from types import SimpleNamespace

import pytest

from skymark.cli.main import main


@pytest.fixture
def skymark(tmp_path, monkeypatch, capsys):
    """Call a command in the test's directory; `run` is to write below ``out``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    output = tmp_path / "out"

    def call(command, *arguments):
        place = ("--output", str(output)) if command == "run" else ()
        status = main([command, *arguments, *place])
        return SimpleNamespace(status=status, stderr=capsys.readouterr().err, output=output)

    return call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scenarios", "CV1"), ["unknown scenario 'CV1'", "'CV-1'"]),
        (("--scenarios", "CV-1:smal"), ["'smal'", "'small'"]),
        (("--scenarios", "tier-9"), ["tier-9", "tier-1"]),
        (("--adapters", "pytroch"), ["unknown adapter 'pytroch'", "'pytorch'"]),
        (("--adapters", "Google Grian"), ["'grain'"]),
        (("--adapters", "./nowhere.py:Loader"), ["no file", "nowhere.py"]),
        (("--profile", "ci_gpu"), ["unknown profile 'ci_gpu'", "ci_cpu"]),
        (("--rounds", "0"), ["--rounds", "Must be >= 1"]),
        (("--timeout", "0"), ["--timeout", "Must be > 0"]),
        (("--axis", "dept=3"), ["unknown axis 'dept'"]),
        (("--scenarios", "IO-1", "--axis", "source=tape"), ["axis source", "'tape'"]),
        (("--set", "format"), ["NAME=VALUE"]),
        (("--set", "fromat=tar"), ["unknown setting 'fromat'", "'format'"]),
        (("--workers", "-1"), ["workers"]),
        (("--set", "http_latency_ms=inf"), ["http_latency_ms", "finite"]),
        (("--retry", "broken", "--resume"), ["unknown status 'broken'"]),
        (("--retry", "failed"), ["--retry needs --resume"]),
        (("--effort", "extreme"), ["extreme", "quick"]),
        (("--no-such-option",), ["--no-such-option"]),
        (("--data", "./nowhere"), ["nowhere"]),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_do(skymark, arguments, words):
    ran = skymark("run", *arguments)
    assert ran.status == 2
    assert not ran.output.exists()
    for word in words:
        assert word in ran.stderr.replace("\n", " ")


def test_an_unknown_key_in_a_profile_names_the_nearest(tmp_path, skymark):
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'description = "x"\nsuite = "loading"\nplatform = "cpu"\nscenario = ["CV-1"]\n'
    )
    ran = skymark("plan", "--profile", str(profile))
    assert ran.status == 2
    assert "unknown key 'scenario'" in ran.stderr
    assert "'scenarios'" in ran.stderr


def test_a_file_that_is_no_dataset_is_refused_before_anything_starts(tmp_path, skymark):
    nothing = tmp_path / "nothing.parquet"
    nothing.write_text("not a table")
    ran = skymark("run", "--scenarios", "CV-1", "--adapters", "numpy", "--data", str(nothing))
    assert ran.status == 2
    assert "nothing.parquet" in ran.stderr
    assert not ran.output.exists()


def test_a_directory_that_is_no_run_is_refused(tmp_path, skymark):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    ran = skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy")
    assert ran.status == 2
    assert "is not empty" in ran.stderr
    assert (tmp_path / "out" / "thesis.txt").read_text() == "precious"


def test_a_file_in_place_of_the_output_directory_is_refused(tmp_path, skymark):
    (tmp_path / "out").write_text("precious")
    ran = skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy")
    assert ran.status == 2
    assert "is a file" in ran.stderr
    assert (tmp_path / "out").read_text() == "precious"
