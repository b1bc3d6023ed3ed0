"""Bad input gets a clear error that says what to do, before anything is started."""

import numpy as np
import pytest

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scenarios", "CV1"), ["unknown scenario 'CV1'", "Did you mean 'CV-1'?"]),
        (("--scenarios", "CV-1:smal"), ["'smal'", "Did you mean 'small'?"]),
        (("--scenarios", "tier-9"), ["tier-9", "tier-1"]),
        (("--adapters", "pytroch"), ["unknown adapter 'pytroch'", "Did you mean 'pytorch'?"]),
        (("--adapters", "Google Grian"), ["Did you mean 'Google Grain'?"]),
        (("--adapters", "./nowhere.py:Loader"), ["no file", "nowhere.py"]),
        (("--profile", "ci_gpu"), ["unknown profile 'ci_gpu'", "Did you mean"]),
        (("--rounds", "0"), ["--rounds", "Must be >= 1"]),
        (("--timeout", "0"), ["--timeout", "Must be > 0"]),
        (("--axis", "dept=3"), ["unknown axis 'dept'"]),
        (("--scenarios", "IO-1", "--axis", "source=tape"), ["unknown value of axis source 'tape'"]),
        (("--set", "format"), ["NAME=VALUE"]),
        (("--set", "fromat=tar"), ["unknown setting 'fromat'", "Did you mean 'format'?"]),
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
    assert "Did you mean 'scenarios'?" in ran.stderr


def test_a_file_that_is_no_dataset_is_refused_before_anything_starts(tmp_path, skymark):
    nothing = tmp_path / "nothing.parquet"
    nothing.write_text("not a table")
    ran = skymark("run", "--scenarios", "CV-1", "--adapters", "numpy", "--data", str(nothing))
    assert ran.status == 2
    assert "nothing.parquet" in ran.stderr
    assert not ran.output.exists()


def test_the_output_directory_of_another_plan_is_refused(skymark):
    assert (
        skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy", "--rounds", "1").status == 0
    )
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


def test_a_file_in_place_of_the_output_directory_is_refused(tmp_path, skymark):
    (tmp_path / "out").write_text("precious")
    ran = skymark("run", "--scenarios", "TAB-1", "--adapters", "numpy")
    assert ran.status == 2
    assert "is a file" in ran.stderr
    assert (tmp_path / "out").read_text() == "precious"


@pytest.fixture
def photos(tmp_path):
    """A folder of small photographs, one folder per class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / f"class-{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (40, 50, 3), np.uint8)).save(path)
    return tmp_path / "photos"


def test_a_folder_of_photos_is_measured_and_a_truncated_one_is_named(photos, tmp_path, skymark):
    arguments = ("run", "--scenarios", "CV-1", "--adapters", "numpy", "--rounds", "1")
    cache = {"SKYMARK_CACHE": str(tmp_path / "cache")}
    ran = skymark(*arguments, "--data", "./photos", **cache)
    assert ran.status == 0, ran.stderr
    assert ran.records["loading.CV-1.small.numpy"].cell.specification["data"]

    broken = photos / "class-1" / "13.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    ran = skymark(*arguments, "--data", "./photos", "--resume", **cache)
    assert ran.status == 2
    assert "class-1/13.jpg" in ran.stderr
