"""Files of prompts: templates or prompts by class, for each data set."""

from __future__ import annotations

import json

import pytest

from skymark.model.errors import ChangedSincePlanError, DataError
from skymark.suites.clip.reading.user_files import Prompting

CLASSES = ("cat", "dog")
BY_CLASS = {"cat": ["whiskers", "a purring cat"], "dog": ["a dog that barks"], "owl": ["feathers"]}
CONTENT = {"vtab/pets": BY_CLASS, "wds/mine": ["a photo of a {c}.", "{c}"]}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "prompts.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_each_class_has_its_own_prompts(write):
    file = Prompting(write(CONTENT)).entry_for("wds/vtab/pets")
    assert file.entry == "vtab/pets"
    prompts = Prompting.read_again(file).prompts(file.entry, CLASSES)
    assert [prompts.of_class(name) for name in CLASSES] == [BY_CLASS["cat"], BY_CLASS["dog"]]
    assert prompts.counts == [2, 1]


def test_templates_are_filled_with_the_names(write):
    file = Prompting(write(CONTENT)).entry_for("wds/mine")
    prompts = Prompting.read_again(file).prompts(file.entry, CLASSES)
    assert prompts.of_class("dog") == ["a photo of a dog.", "dog"]
    assert prompts.counts == [2, 2]


def test_other_prompts_have_another_digest(write):
    first = Prompting(write(CONTENT)).prompts("vtab/pets", CLASSES)
    changed = {"vtab/pets": {**BY_CLASS, "dog": ["a dog that sleeps"]}}
    assert Prompting(write(changed)).prompts("vtab/pets", CLASSES).digest != first.digest


def test_a_file_that_changed_since_the_plan_is_refused(write):
    file = Prompting(write(CONTENT)).entry_for("wds/mine")
    write({"wds/mine": ["{c}"]})
    with pytest.raises(ChangedSincePlanError, match=r"prompts\.json"):
        Prompting.read_again(file).prompts(file.entry, CLASSES)


def test_a_class_without_prompts_is_named(write):
    prompting = Prompting(write(CONTENT))
    with pytest.raises(DataError, match=r"vtab/pets .*fish, newt;"):
        prompting.prompts("vtab/pets", ("cat", "fish", "newt"))
    with pytest.raises(DataError, match=r"a, b, c\b.*\b2 "):
        prompting.prompts("vtab/pets", tuple("abcde"))


def test_a_data_set_without_an_entry_is_not_scored_with_those_of_another(write):
    with pytest.raises(DataError, match=r"wds/cars.* vtab/pets, wds/mine"):
        Prompting(write(CONTENT)).entry_for("wds/cars")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ([1], "no JSON object"),
        ({"mine": "a photo"}, "list of templates.* mine"),
        ({"mine": []}, "list of templates.* mine"),
        ({"mine": {"cat": []}}, "list of templates.* mine"),
        ({"mine": {"cat": [1]}}, "are no texts"),
        ({"mine": ["a photo"]}, "mine, text 1: .*no {c}"),
        ({"mine": ["{c}", "a {}"]}, r"mine, text 2: .* \{\};.* \{c\}"),
        ({"mine": ["{c}", " "]}, r"mine, text 2 .*blank"),
        ({"mine": {"cat": ["a {}"]}}, r"mine, class cat, text 1: .* \{\};"),
        ({"mine": {"cat": ["a cat", ""]}}, r"mine, class cat, text 2 .*blank"),
    ],
)
def test_another_format_is_refused(write, content, message):
    path = write(content)
    with pytest.raises(DataError, match=message):
        Prompting(path).entry_for("mine")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"prompts .*none\.json"):
        Prompting(tmp_path / "none.json")
