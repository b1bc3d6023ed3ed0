"""Data sets by name: public ones, directories, globs and lists, and what is refused."""

from __future__ import annotations

import pytest

from skymark.model.errors import UnknownNameError, UsageError
from skymark.suites.clip.datasets.choosing import chosen_sets, public_sets


def chosen(*names, tasks=(), root=None, split="test"):
    return chosen_sets(names, tasks, root, split)


def pairs(*names, **options):
    return [(one.dataset.name, task) for one in chosen(*names, **options) for task in one.tasks]


def test_more_than_forty_public_sets_have_a_place_on_the_hub():
    found = chosen("all")
    assert len(public_sets()) == 60
    assert len(found) == 48
    addresses = {one.dataset.source.address for one in found}
    assert "clip-benchmark/wds_vtab-cifar10" in addresses
    assert len(addresses) == 48
    assert all(one.dataset.images for one in found)


def test_tasks_are_done_where_a_set_serves_them():
    names = ("wds/vtab/cifar10", "wds/mscoco_captions")
    assert pairs(*names) == [
        ("wds/vtab/cifar10", "zeroshot_classification"),
        ("wds/mscoco_captions", "zeroshot_retrieval"),
    ]
    both = ("linear_probe", "zeroshot_retrieval", "zeroshot_classification")
    assert pairs("all", tasks=("zeroshot_retrieval",)) == pairs("wds/mscoco*", "wds/flickr*")
    assert ("wds/vtab/cifar10", "linear_probe") in pairs(*names, tasks=both)
    assert pairs("wds/mnist:linear_probe", "wds/mnist") == [
        ("wds/mnist", "linear_probe"),
        ("wds/mnist", "zeroshot_classification"),
    ]


@pytest.mark.parametrize(
    ("name", "same"),
    [("cars", "wds/cars"), ("vtab/cifar10", "wds/vtab/cifar10"), ("vtab/*", "wds/vtab/*")],
)
def test_the_beginning_of_public_names_may_be_left_out(name, same):
    assert pairs(name) == pairs(same)


def test_a_public_name_that_is_a_directory_too_is_refused(web_set, monkeypatch):
    monkeypatch.chdir(web_set("cars").parent)
    with pytest.raises(UsageError, match=r" wds/cars .*\./cars"):
        chosen("cars")
    assert pairs("./cars") == [("cars", "zeroshot_classification")]


@pytest.mark.parametrize(("name", "count"), [("vtab", 19), ("vtab+", 36), ("datacomp", 37)])
def test_a_collection_has_its_data_sets(name, count):
    found = [name for name, _ in pairs(name)]
    assert len(found) == len(set(found)) == count
    assert ("wds/vtab/dtd" in found, "wds/vtab/dsprites_label_y_position" in found) == (True, False)


def test_a_list_may_have_blank_lines_and_comments(tmp_path):
    listed = tmp_path / "webdatasets.txt"
    listed.write_text("\ufeff# mine\nwds/cars  # small\n\n   \nvtab/dtd\r\n", "utf-8")
    assert [name for name, _ in pairs(str(listed))] == ["wds/cars", "wds/vtab/dtd"]


def test_data_sets_of_datacomp_have_their_own_figures_and_groups():
    found = {one.dataset.name: one.dataset for one in chosen("wilds/*", "fairness/*")}
    figures = {name: (one.figure, one.group_column) for name, one in found.items()}
    assert figures == {
        "wds/wilds/iwildcam": ("f1_macro", None),
        "wds/wilds/camelyon17": (None, None),
        "wds/wilds/fmow": ("worst_group_acc1", 0),
        "wds/fairness/dollar_street": ("worst_group_acc5", 0),
        "wds/fairness/geode": ("worst_group_acc1", 0),
    }


def test_several_labels_per_image_train_no_probe():
    with pytest.raises(UsageError, match=r"multilabel .*zeroshot_classification.* linear_probe"):
        chosen("wds/voc2007_multilabel", tasks=("linear_probe",))


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (("cifar10",), {}, "'cifar10'.* wds/vtab/cifar10"),
        (("wds/winoground",), {}, "wds/winoground .*hub .*--dataset-root"),
        (("./absent",), {}, r"no directory \./absent"),
        (("wds/mnist",), {"tasks": ("zeroshot_retrieval",)}, "and not zeroshot_retrieval"),
        (("wds/nothing*",), {}, r"'wds/nothing\*'"),
        (("wds/mnist",), {"root": "/absent/{dataset}"}, "is not at /absent/mnist"),
        (("wds/mnist",), {"tasks": ("captions",)}, "unknown task"),
        (("wds/mnist",), {"tasks": ("captioning",)}, "and not captioning"),
        (("wds/mnist:linear_prob",), {}, "unknown task 'linear_prob'"),
        (("wds/qqqqqqqq*",), {}, "`skymark list scenarios --suite clip` shows all"),
    ],
)
def test_a_wrong_name_task_or_place_is_answered_at_once(names, options, message):
    with pytest.raises(UsageError, match=message):
        chosen(*names, **options)


def test_a_root_is_a_hub_s_page_an_address_or_a_directory(web_set):
    page = "https://huggingface.co/datasets/me/wds_{dataset_cleaned}/tree/main"
    (hub,) = chosen("wds/vtab/cifar10", root=page)
    (away,) = chosen("wds/vtab/cifar10", root="http://localhost:8000/{dataset}/")
    directory = web_set("wds_vtab-cifar10")
    (here,) = chosen("wds/vtab/cifar10", root=f"{directory.parent}/wds_{{dataset_cleaned}}")
    places = [(one.dataset.source.kind, one.dataset.source.address) for one in (hub, away, here)]
    assert places == [
        ("hub", "me/wds_vtab-cifar10"),
        ("url", "http://localhost:8000/vtab/cifar10"),
        ("directory", str(directory)),
    ]
    assert here.dataset.source.fingerprint is not None
    assert here.dataset.classes == 3


@pytest.mark.parametrize("root", ["https://h/{dataset}?sig=abc", "https://user:abc@h/{dataset}"])
def test_a_root_with_a_key_is_in_no_plan(root):
    with pytest.raises(UsageError, match=r"--dataset-root .* key"):
        chosen("wds/vtab/cifar10", root=root)


def test_a_directory_says_its_task_and_its_languages(web_set):
    directory = web_set(
        **{"classnames.de.txt": "Katze\n", "zeroshot_classification_templates.de.txt": "{c}\n"}
    )
    (one,) = chosen(str(directory))
    assert one.dataset.name == "mine"
    assert one.tasks == ("zeroshot_classification",)
    assert one.dataset.languages == ("en", "de")
    (captions,) = chosen(str(web_set("captions", "retrieval", **{"language.txt": "zh\n"})))
    assert captions.tasks == ("zeroshot_retrieval",)
    assert captions.dataset.languages == ("zh",)


def test_a_fingerprint_changes_with_the_content(web_set):
    directory = web_set()
    before = chosen(str(directory))[0].dataset.source.fingerprint
    assert chosen(str(directory))[0].dataset.source.fingerprint == before
    (directory / "classnames.txt").write_text("cat\ndog\nelk\n")
    assert chosen(str(directory))[0].dataset.source.fingerprint != before


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: (d / "classnames.txt").unlink(), r"classnames\.txt .*missing"),
        (lambda d: (d / "test" / "1.tar").write_bytes(b""), "1.tar has 0 bytes"),
        (lambda d: (d / "test" / "0.tar").unlink(), "0.tar is missing"),
        (lambda d: (d / "test" / "nshards.txt").unlink(), r"nshards\.txt .*missing"),
        (lambda d: (d / "test" / "nshards.txt").write_text("-1"), r"nshards\.txt .*no number"),
        (lambda d: (d / "dataset_type.txt").write_text("audio"), "type of data set .*'audio'"),
        (lambda d: (d / "classnames.txt").write_text("\n"), "is empty"),
        (lambda d: (d / "classnames.txt").write_bytes(b"\xff\xfe\xfd"), "is no UTF-8"),
    ],
)
def test_a_damaged_directory_is_refused_before_anything_runs(web_set, break_it, message):
    directory = web_set()
    break_it(directory)
    with pytest.raises(UsageError, match=message):
        chosen(str(directory))


def test_a_split_that_is_not_there_is_answered_with_those_that_are(web_set):
    with pytest.raises(UsageError, match=r"'val'.* test\b"):
        chosen(str(web_set()), split="val")


def test_a_folder_of_images_has_a_class_per_folder(planned, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / "test" / name).mkdir(parents=True)
        (tmp_path / "pets" / "test" / name / "1.jpg").write_bytes(b"\xff")
    (one,) = chosen(str(tmp_path / "pets"))
    assert (one.dataset.classes, one.dataset.images) == (2, 2)
    assert one.dataset.source.layout == "folder"
    (tmp_path / "pets" / "test" / "dog" / "2.jpg").touch()
    with pytest.raises(UsageError, match=r"2\.jpg .*0 bytes.*--skip-damaged"):
        planned(str(tmp_path / "pets"))
    (skipped,) = planned(str(tmp_path / "pets"), skip_damaged=True)
    data = skipped.data
    assert (data.taken, data.found, data.classes) == (2, 3, 2)
    assert [str(one) for one in data.left_out] == ["1 damaged"]
    assert "pets: --skip-damaged" in skipped.notes[0]


@pytest.mark.parametrize("text", ["a {c}\n\n", "a {}\n", "a cat\n"])
def test_templates_are_checked_before_anything_runs_in_every_layout(text, web_set, tmp_path):
    (tmp_path / "pets" / "test" / "cat").mkdir(parents=True)
    (tmp_path / "pets" / "test" / "cat" / "1.jpg").write_bytes(b"\xff")
    (tmp_path / "pets" / "classnames.txt").write_text("cat\n")
    for directory in (web_set(), tmp_path / "pets"):
        (directory / "zeroshot_classification_templates.txt").write_text(text)
        with pytest.raises(UsageError, match=r"templates\.txt:\d.* \{c\}"):
            chosen(str(directory))


def test_selection_lies_as_its_authors_publish_it(tmp_path):
    (tmp_path / "val2017").mkdir()
    (tmp_path / "add_att.json").write_text('{"0": {}}')
    (one,) = chosen(str(tmp_path / "add_att.json"))
    (same,) = chosen("wds/sugar_crepe/add_att", root=str(tmp_path))
    assert one.dataset.name == "sugar_crepe/add_att"
    assert one.tasks == same.tasks == ("image_caption_selection",)
    assert one.dataset.source.address == same.dataset.source.address == str(tmp_path)


def test_two_directories_of_one_name_are_refused(web_set):
    one, other = web_set("a/same"), web_set("b/same")
    with pytest.raises(UsageError, match=f"{one} .*{other} .* same;"):
        chosen(str(one), str(other))


def test_two_names_for_one_place_are_refused(web_set):
    with pytest.raises(UsageError, match=r"wds/mnist .*wds/stl10 .*/mine;.*--dataset-root"):
        chosen("wds/mnist", "wds/stl10", root=str(web_set()))
    with pytest.raises(UsageError, match=r"wds/mnist .*wds/stl10 .*localhost:1/one;"):
        chosen("wds/mnist", "wds/stl10", root="http://localhost:1/one")


def test_a_task_that_does_not_exist_names_those_that_do():
    with pytest.raises(UnknownNameError, match="'zeroshot_retrieval'"):
        chosen("wds/mnist", tasks=("zero_shot_retrieval",))
