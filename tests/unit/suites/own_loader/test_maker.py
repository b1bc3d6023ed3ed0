"""A user's function is read without running it, and its parameters decide what is tried."""

from __future__ import annotations

import pytest

from skymark.machine import facts
from skymark.model.errors import UsageError
from skymark.suites.own_loader.maker import points_of, read_maker

SOURCE = """
raise RuntimeError("planning runs no code")

def plain(root="data", num_workers=0, *, decode="pillow"): ...

def needs(root, num_workers): ...

def any_of(**keywords): ...

class Loader:
    def __init__(self, workers=1, size=2): ...

class Bare(Base): ...

def clash(step_ms=1): ...

async def not_one(): ...
"""


@pytest.fixture
def named(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return lambda function: read_maker(f"{path}:{function}")


@pytest.mark.parametrize(
    ("function", "parameters", "required", "takes_any"),
    [
        ("plain", ("root", "num_workers", "decode"), (), False),
        ("needs", ("root", "num_workers"), ("root", "num_workers"), False),
        ("any_of", (), (), True),
        ("Loader", ("workers", "size"), (), False),
        ("Bare", (), (), True),
    ],
)
def test_functions_and_classes_are_read(named, function, parameters, required, takes_any):
    maker = named(function)
    assert (maker.parameters, maker.required) == (parameters, required)
    assert maker.takes_any == takes_any
    assert maker.name == f"train.{function}"
    assert read_maker(maker.reference) == maker


@pytest.mark.parametrize("function", ["clash", "not_one", "plian", "Missing"])
def test_what_is_no_such_function_is_refused(named, function):
    with pytest.raises(UsageError, match=function):
        named(function)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("absent.py:make", None),
        ("broken.py:make", "def make(:"),
        ("null.py:make", "\0"),
        ("nothing", None),
        ("file.py:", ""),
        ("folder.py:make", "DIRECTORY"),
    ],
)
def test_what_is_no_python_file_is_refused(tmp_path, monkeypatch, text, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / text.partition(":")[0]
    if content == "DIRECTORY":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    with pytest.raises(UsageError):
        read_maker(text)


@pytest.mark.parametrize(
    ("function", "settings", "wrong"),
    [
        ("plain", {"num_worker": 1}, "num_workers"),
        ("needs", {"root": "x"}, "num_workers"),
        ("plain", {"decode": "turbo"}, None),
        ("any_of", {"anything": 1}, None),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(named, function, settings, wrong):
    maker = named(function)
    if wrong is None:
        maker.require(settings)
    else:
        with pytest.raises(UsageError, match=wrong):
            maker.require(settings)


def test_usual_values_and_the_user_s_own_are_combined(named):
    points = points_of(named("plain"), {}, {"decode": ["pillow", "turbo"]}, cores=6)
    assert {one["num_workers"] for one in points} == {0, 1, 2, 4, 6}
    assert {one["decode"] for one in points} == {"pillow", "turbo"}
    assert len(points) == 10


def test_the_user_s_values_and_fixed_ones_replace_the_usual_ones(named):
    points = points_of(named("plain"), {}, {"num_workers": [3]}, cores=6)
    assert points == [{"num_workers": 3}]
    points = points_of(named("plain"), {"num_workers": 5}, {"decode": ["turbo"]}, cores=6)
    assert points == [{"decode": "turbo"}]


def test_a_function_with_nothing_to_try_says_what_could_be_tried(named):
    with pytest.raises(UsageError, match="--try"):
        points_of(named("any_of"), {}, {}, cores=2)


TORCH = """
def make(num_workers=0, prefetch_factor=None, persistent_workers=False,
         multiprocessing_context=None, in_order=True, pin_memory=False): ...
"""


@pytest.mark.parametrize("fixed", [{}, {"num_workers": 0}, {"prefetch_factor": 8}])
@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_no_point_is_one_that_a_data_loader_refuses(tmp_path, monkeypatch, fixed, has_gpu, cores):
    monkeypatch.setattr(facts, "has_driver", lambda _: has_gpu)
    path = tmp_path / "train.py"
    path.write_text(TORCH)
    points = points_of(read_maker(f"{path}:make"), fixed, {}, cores)
    assert len({tuple(sorted(one.items())) for one in points}) == len(points)
    for point in points:
        call = {**fixed, **point}
        assert not set(point) & set(fixed)
        assert ("pin_memory" in point) == has_gpu
        assert call["num_workers"] <= cores
        if call["num_workers"] == 0:
            alone = {**point, "prefetch_factor": point.get("prefetch_factor", "None")}
            assert alone["prefetch_factor"] == "None"
            assert not point["persistent_workers"]
            assert point["multiprocessing_context"] == "None"
        else:
            assert point["multiprocessing_context"] in {"fork", "forkserver"}
