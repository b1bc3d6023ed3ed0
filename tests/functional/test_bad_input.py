"""Bad input gets a clear error that says what to do, before anything is started."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scenarios", "CV-l"), ["unknown scenario 'CV-l'", "Did you mean 'CV-1'?"]),
        (("--scenarios", "CV-1:smal"), ["'smal'", "Did you mean 'small'?"]),
        (("--scenarios", "tier-9"), ["tier-9", "tier-1"]),
        (("--adapters", "pytroch"), ["unknown adapter 'pytroch'", "Did you mean 'pytorch'?"]),
        (("--adapters", "Google Grian"), ["Did you mean 'Google Grain'?"]),
        (("--adapters", "./nowhere.py:Loader"), ["no file", "nowhere.py"]),
        (("--profile", "ci_gpu"), ["unknown profile 'ci_gpu'", "Did you mean"]),
        (("--rounds", "0"), ["--rounds 0"]),
        (("--timeout", "0"), ["--timeout 0"]),
        (("--axis", "dept=3"), ["unknown axis 'dept'"]),
        (("--set", "format"), ["NAME=VALUE"]),
        (("--set", "fromat=tar"), ["unknown setting 'fromat'", "Did you mean 'format'?"]),
        (("--workers", "-1"), ["workers"]),
        (("--retry", "broken", "--resume"), ["unknown status 'broken'"]),
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
    profile.write_text('description = "x"\nplatform = "cpu"\nscenario = ["CV-1"]\n')
    ran = skymark("plan", "--profile", str(profile))
    assert ran.status == 2
    assert "unknown key 'scenario'" in ran.stderr
    assert "Did you mean 'scenarios'?" in ran.stderr


def test_a_file_that_is_no_dataset_is_refused_before_anything_starts(tmp_path, skymark):
    nothing = tmp_path / "nothing.parquet"
    nothing.write_text("not a table")
    ran = skymark("run", "--scenarios", "CV-1", "--adapters", "numpy", "--data", str(nothing))
    assert ran.status == 2
    assert "nothing.parquet" in ran.stderr
    assert not ran.output.exists()


def test_the_output_directory_of_another_plan_is_refused(skymark):
    assert skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy", "--rounds", "1").status == 0
    ran = skymark("run", "--scenarios", "NLP-1", "--adapters", "numpy", "--rounds", "1")
    assert ran.status == 2
    assert "holds another plan" in ran.stderr


def test_a_directory_that_is_no_run_is_refused(tmp_path, skymark):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    ran = skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy")
    assert ran.status == 2
    assert "is not empty" in ran.stderr
    assert (tmp_path / "out" / "thesis.txt").read_text() == "precious"
