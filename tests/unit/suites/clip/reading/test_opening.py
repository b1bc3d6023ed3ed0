"""Data sets in all layouts, and damage that is told before any compute."""

from __future__ import annotations

import io
import json
import shutil
import tarfile

import numpy as np
import pytest

from skymark.model.errors import ChangedSincePlanError, DataError, UnknownNameError
from skymark.suites.clip.datasets.local import local_set
from skymark.suites.clip.reading.opening import (
    check_fingerprint,
    check_labels,
    open_split,
    prompts_for,
    reread,
)
from skymark.suites.clip.specification import ClipSpecification, Model, Source, Weights
from tests.clip.drawing import CLASSES, TEMPLATES, captions, pictures
from tests.clip.shards import write_shards

TASK = "zeroshot_classification"
MODEL = Model(architecture="ViT-B-32", weights=Weights(tag="laion2b_s34b_b79k"))


@pytest.fixture
def shapes(tmp_path):
    """Return a directory in CLIP_benchmark's layout."""
    place = tmp_path / "shapes"
    drawn = pictures(12, seed=1)
    write_shards(place / "test", [{"jpg": one.file, "cls": one.label_text} for one in drawn])
    (place / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    templates = place / "zeroshot_classification_templates.txt"
    templates.write_text("\n".join(TEMPLATES) + "\n")
    return place


def source(place, layout="webdataset", name="shapes"):
    return Source(name=name, kind="directory", address=str(place), layout=layout)


def opened(place, tmp_path, task=TASK, split="test", **settings):
    return open_split(source(place, **settings), split, task, tmp_path / "cache")


def prompts(place, tmp_path, language="en", **settings):
    specification = ClipSpecification(
        model=MODEL,
        source=source(place, **settings),
        task=TASK,
        language=language,
    )
    return prompts_for(specification, opened(place, tmp_path, **settings))


def npy(row):
    out = io.BytesIO()
    np.save(out, np.array(row))
    return out.getvalue()


def add_member(shard, name, data=b"x"):
    with tarfile.open(shard, "a") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


class TestShards:
    def test_images_and_labels_come_in_the_order_of_shards(self, shapes, tmp_path):
        samples = opened(shapes, tmp_path).samples
        drawn = pictures(12, seed=1)
        order = [*range(0, 12, 2), *range(1, 12, 2)]
        assert samples.labels == tuple(drawn[number].label for number in order)
        assert [samples.read(n) for n in range(12)] == [drawn[number].file for number in order]

    def test_samples_are_read_once_and_then_kept(self, shapes, tmp_path, monkeypatch):
        first = opened(shapes, tmp_path)
        monkeypatch.setattr("skymark.suites.clip.reading.opening.read_shards", None)
        assert opened(shapes, tmp_path) == first

    def test_a_shard_that_changed_is_read_again(self, shapes, tmp_path):
        first = opened(shapes, tmp_path)
        add_member(shapes / "test" / "1.tar", "s99.jpg", pictures(1, 3)[0].file)
        add_member(shapes / "test" / "1.tar", "s99.cls", b"1")
        assert len(opened(shapes, tmp_path).samples) == len(first.samples) + 1

    def test_data_sets_of_one_name_have_identities_of_their_own(self, shapes, tmp_path):
        shutil.copytree(shapes, tmp_path / "other" / "shapes")
        one, other = (opened(place, tmp_path) for place in (shapes, tmp_path / "other" / "shapes"))
        assert one.slug == other.slug
        assert one.identity != other.identity

    def test_a_shard_read_again_is_what_it_was(self, shapes, tmp_path):
        split = opened(shapes, tmp_path)
        for number in (0, 1):
            again, before = reread(split, number)
            assert again == before

    def test_a_limit_takes_elements_from_the_whole_split(self, shapes, tmp_path):
        whole = opened(shapes, tmp_path).samples
        one = open_split(source(shapes), "test", TASK, tmp_path / "cache", limit=5)
        fewer = open_split(source(shapes), "test", TASK, tmp_path / "cache", limit=3)
        in_order = [place for place in whole.places if place in one.samples.places]
        assert one.samples.places == tuple(in_order)
        assert len(in_order) == 5
        assert set(fewer.samples.places) < set(in_order)
        assert one.samples.content_digest != whole.content_digest
        for number in (0, 1):
            again, before = reread(one, number)
            assert again == before
        all_of_them = open_split(source(shapes), "test", TASK, tmp_path / "cache", limit=99)
        assert all_of_them.samples == whole

    def test_groups_come_from_a_column_of_metadata(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        drawn = pictures(6, seed=1)

        def write(rows):
            shutil.rmtree(shapes / "test", ignore_errors=True)
            members = zip(drawn, rows, strict=True)
            samples = [
                {"jpg": one.file, "cls": one.label_text, "npy": npy(row)} for one, row in members
            ]
            write_shards(shapes / "test", samples, shards=1)
            return open_split(source(shapes), "test", TASK, tmp_path / "cache", group_column=1)

        assert write([[9, number] for number in range(6)]).samples.groups == tuple(range(6))
        with pytest.raises(DataError, match=r"s0000003\.npy .*column 1\b"):
            write([[9, 1], [9, 1], [9, 1], [9], [9, 1], [9, 1]])

    def test_several_labels_are_rows_of_ones_and_zeros(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        drawn = pictures(4, seed=1)
        write_shards(shapes / "test", [{"png": one.file, "npy": one.multilabel} for one in drawn])
        (shapes / "dataset_type.txt").write_text("multilabel\n")
        rows = opened(shapes, tmp_path).samples.multilabels
        assert {len(row) for row in rows} == {len(CLASSES)}

    def test_captions_are_the_lines_of_a_text(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        drawn = pictures(4, seed=1)
        samples = [{"jpg": one.file, "txt": "\n".join(captions(one)).encode()} for one in drawn]
        write_shards(shapes / "test", samples, shards=1)
        (shapes / "dataset_type.txt").write_text("retrieval\n")
        split = opened(shapes, tmp_path, task="zeroshot_retrieval")
        assert split.samples.captions == tuple(tuple(captions(one)) for one in drawn)

    def test_pairs_of_images_are_numbered(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        one, other = pictures(2, seed=1)
        pair = {"0.jpg": one.file, "1.jpg": other.file, "txt": b"first\nsecond"}
        write_shards(shapes / "test", [pair, pair])
        (shapes / "dataset_type.txt").write_text("selection\n")
        samples = opened(shapes, tmp_path, task="image_caption_selection").samples
        assert (samples.images_per_instance, len(samples)) == (2, 4)
        assert samples.read(3) == other.file


class TestDamage:
    def test_a_shard_of_0_bytes(self, shapes, tmp_path):
        (shapes / "test" / "1.tar").write_bytes(b"")
        with pytest.raises(DataError, match=r"1\.tar .*\b0 bytes"):
            opened(shapes, tmp_path)

    def test_a_missing_shard(self, shapes, tmp_path):
        (shapes / "test" / "1.tar").unlink()
        with pytest.raises(DataError, match=r"1\.tar .*missing.*nshards\.txt"):
            opened(shapes, tmp_path)

    @pytest.mark.parametrize("keep", [700, 3000, -1100])
    def test_a_shard_that_is_cut_off(self, shapes, tmp_path, keep):
        shard = shapes / "test" / "0.tar"
        data = shard.read_bytes().rstrip(b"\0")
        shard.write_bytes(data[:keep])
        with pytest.raises(DataError, match=r"0\.tar .*no whole tar"):
            opened(shapes, tmp_path)

    def test_a_shard_of_garbage(self, shapes, tmp_path):
        (shapes / "test" / "0.tar").write_bytes(b"<html>not found</html>" * 100)
        with pytest.raises(DataError, match=r"0\.tar .*no whole tar"):
            opened(shapes, tmp_path)

    @pytest.mark.parametrize("name", ["../../evil.jpg", "/etc/evil.jpg", "a/../../b.jpg"])
    def test_a_member_that_leaves_the_directory(self, shapes, tmp_path, name):
        add_member(shapes / "test" / "0.tar", name)
        with pytest.raises(DataError, match="leaves the directory"):
            opened(shapes, tmp_path)

    def test_a_link_in_a_shard(self, shapes, tmp_path):
        with tarfile.open(shapes / "test" / "0.tar", "a") as archive:
            link = tarfile.TarInfo("s98.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        with pytest.raises(DataError, match="leaves the directory"):
            opened(shapes, tmp_path)

    @pytest.mark.parametrize(
        ("members", "message"),
        [
            ({"jpg": b"x"}, "has no .cls"),
            ({"cls": b"1"}, "has no image"),
            ({"jpg": b"x", "cls": b"one"}, "no class number"),
        ],
    )
    def test_a_sample_that_lacks_something(self, shapes, tmp_path, members, message):
        for extension, data in members.items():
            add_member(shapes / "test" / "1.tar", f"s97.{extension}", data)
        with pytest.raises(DataError, match=message):
            opened(shapes, tmp_path)

    @pytest.mark.parametrize(
        "text",
        ["", "two", "0", "-1", "1e3", "2.0", "1_0", "\u0663", "2 3", "9" * 20, "9" * 5000, "2\0"],
    )
    def test_a_number_of_shards_that_is_none(self, shapes, tmp_path, text):
        (shapes / "test" / "nshards.txt").write_text(text)
        with pytest.raises(DataError, match=r"nshards\.txt .*no number"):
            opened(shapes, tmp_path)

    def test_a_shard_beside_those_that_are_counted(self, shapes, tmp_path):
        (shapes / "test" / "nshards.txt").write_text("1")
        with pytest.raises(DataError, match=r"\b1 shards.*1\.tar .*beside"):
            opened(shapes, tmp_path)

    def test_an_unknown_split_is_answered_with_those_there_are(self, shapes, tmp_path):
        with pytest.raises(DataError, match="it has test"):
            opened(shapes, tmp_path, split="val")

    def test_an_unknown_type(self, shapes, tmp_path):
        (shapes / "dataset_type.txt").write_text("segmentation")
        with pytest.raises(UnknownNameError, match="segmentation"):
            opened(shapes, tmp_path)

    def test_a_task_that_has_no_use_for_the_labels(self, shapes, tmp_path):
        with pytest.raises(DataError, match=r"one label .*zeroshot_retrieval"):
            opened(shapes, tmp_path, task="zeroshot_retrieval")

    @pytest.mark.parametrize("file", ["classnames.txt", "zeroshot_classification_templates.txt"])
    def test_a_missing_or_empty_file_of_texts(self, shapes, tmp_path, file):
        (shapes / file).write_text("\n")
        with pytest.raises(DataError, match=f"{file} is empty"):
            prompts(shapes, tmp_path)
        (shapes / file).unlink()
        with pytest.raises(DataError, match=f"{file} is missing"):
            prompts(shapes, tmp_path)

    @pytest.mark.parametrize(
        "template",
        [
            "a photo",
            "a {d}",
            "{",
            "{0}",
            "{}",
            "{c:>999999999}",
            "{c!r}",
            "{c.__class__}",
            "{0.__class__}",
            "{c[0]}",
            "{c} {d}",
            "{c:{c}}",
            "{{c}}",
        ],
    )
    def test_a_template_that_cannot_be_filled(self, shapes, tmp_path, template):
        (shapes / "zeroshot_classification_templates.txt").write_text(template)
        with pytest.raises(DataError, match="template"):
            prompts(shapes, tmp_path)

    def test_a_label_without_a_class_name(self, shapes, tmp_path):
        (shapes / "classnames.txt").write_text("\n".join(CLASSES[:3]))
        with pytest.raises(DataError, match=r" 0\D+5\b.*3 class"):
            prompts(shapes, tmp_path)

    def test_rows_of_labels_that_do_not_fit_the_class_names(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        out = io.BytesIO()
        np.save(out, np.zeros(4, np.int64))
        write_shards(shapes / "test", [{"png": b"x", "npy": out.getvalue()}] * 2)
        (shapes / "dataset_type.txt").write_text("multilabel\n")
        with pytest.raises(DataError, match=r" 4\b.* 6 class"):
            check_labels(opened(shapes, tmp_path), len(CLASSES))

    def test_an_array_with_code_in_it_is_no_label(self, shapes, tmp_path):
        shutil.rmtree(shapes / "test")
        out = io.BytesIO()
        np.save(out, np.array([print], object), allow_pickle=True)
        write_shards(shapes / "test", [{"png": b"x", "npy": out.getvalue()}])
        (shapes / "dataset_type.txt").write_text("multilabel\n")
        with pytest.raises(DataError, match=r"\.npy .*\bobject\b"):
            opened(shapes, tmp_path)


class TestPlanned:
    def test_a_directory_that_changed_since_the_plan_is_refused(self, shapes):
        planned = local_set(shapes, "shapes", "test").source
        check_fingerprint(planned, "test")
        add_member(shapes / "test" / "0.tar", "s99.jpg", bytes(20_000))
        with pytest.raises(ChangedSincePlanError, match="shapes"):
            check_fingerprint(planned, "test")

    def test_other_class_names_are_another_data_set(self, shapes):
        planned = local_set(shapes, "shapes", "test").source
        (shapes / "classnames.txt").write_text("\n".join(reversed(CLASSES)))
        with pytest.raises(ChangedSincePlanError, match="shapes"):
            check_fingerprint(planned, "test")


class TestLanguages:
    def test_prompts_of_another_language_have_files_of_their_own(self, shapes, tmp_path):
        (shapes / "classnames.it.txt").write_text("\n".join(["x"] * 6))
        (shapes / "zeroshot_classification_templates.it.txt").write_text("foto di {c}")
        italian = prompts(shapes, tmp_path, "it")
        assert italian.of_class("x") == ["foto di x"]
        assert italian.digest != prompts(shapes, tmp_path).digest

    @pytest.mark.parametrize("language", ["it", "../en", ""])
    def test_a_language_without_files_is_refused(self, shapes, tmp_path, language):
        with pytest.raises(DataError, match="language"):
            prompts(shapes, tmp_path, language)


class TestFolders:
    @pytest.fixture
    def folder(self, tmp_path):
        place = tmp_path / "folder"
        for one in pictures(12, seed=1):
            file = place / "test" / f"big_{CLASSES[one.label]}" / f"{one.number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(one.file)
        return place

    def test_a_folder_per_class_in_the_order_of_names(self, folder, tmp_path):
        split = opened(folder, tmp_path, layout="folder")
        assert split.samples.labels == tuple(label for label in range(6) for _ in range(2))
        found = prompts(folder, tmp_path, layout="folder")
        assert found.classes == tuple(sorted(f"big {name}" for name in CLASSES))
        assert found.of_class("big dot") == ["a photo of a big dot."]

    def test_an_empty_image_or_class_is_refused(self, folder, tmp_path):
        (folder / "test" / "nothing").mkdir()
        with pytest.raises(DataError, match="holds no image"):
            opened(folder, tmp_path, layout="folder")
        (folder / "test" / "nothing" / "a.png").write_bytes(b"")
        with pytest.raises(DataError, match="has 0 bytes"):
            opened(folder, tmp_path, layout="folder")


class TestSelection:
    def test_sugar_crepe_has_a_right_and_a_wrong_caption(self, tmp_path):
        place = tmp_path / "sugar"
        (place / "val2017").mkdir(parents=True)
        one, other = pictures(2, seed=1)
        entries = {}
        for number, drawn in (("3", one), ("17", other)):
            (place / "val2017" / f"{number}.jpg").write_bytes(drawn.file)
            entries[number] = {
                "filename": f"{number}.jpg",
                "caption": "right",
                "negative_caption": "wrong",
            }
        (place / "add_att.json").write_text(json.dumps(entries))
        settings = {"layout": "folder", "name": "sugar_crepe/add_att"}
        split = opened(place, tmp_path, "image_caption_selection", **settings)
        assert split.samples.captions == (("right", "wrong"),) * 2
        entries["3"]["filename"] = "../../secret.jpg"
        (place / "add_obj.json").write_text(json.dumps(entries))
        with pytest.raises(DataError, match="leaves"):
            opened(place, tmp_path, "image_caption_selection", layout="folder", name="x/add_obj")

    def test_winoground_has_pairs(self, tmp_path):
        place = tmp_path / "wino"
        (place / "images").mkdir(parents=True)
        for number, drawn in enumerate(pictures(2, seed=1)):
            (place / "images" / f"ex_0_img_{number}.png").write_bytes(drawn.file)
        row = {"image_0": "ex_0_img_0", "image_1": "ex_0_img_1"}
        row |= {"caption_0": "one", "caption_1": "other"}
        (place / "examples.jsonl").write_text(json.dumps(row) + "\n")
        split = opened(place, tmp_path, "image_caption_selection", layout="folder")
        assert split.samples.images_per_instance == 2
        assert split.samples.captions == (("one", "other"),)


class TestWinogavil:
    LINES = (
        {"cue": "Apple", "candidates": ["pie", "sea", "tree"], "associations": ["pie", "tree"]},
        {"cue": "wave", "candidates": ["sea", "hand", "pie"], "associations": ["sea"]},
    )

    def opened(self, tmp_path, *lines, **settings):
        place = tmp_path / "winogavil"
        shutil.rmtree(place, ignore_errors=True)
        (place / "images").mkdir(parents=True)
        for one, name in zip(pictures(4, seed=2), ("pie", "sea", "tree", "hand"), strict=True):
            (place / "images" / f"{name}.jpg").write_bytes(one.file)
        text = "\n".join(map(json.dumps, lines or self.LINES))
        (place / "associations.jsonl").write_text(f"{text}\n")
        data = local_set(place, "winogavil", "test")
        assert data.task == "image_association"
        return open_split(data.source, "test", data.task, tmp_path / "cache", **settings)

    def test_words_share_images_that_come_once(self, tmp_path):
        split = self.opened(tmp_path)
        names = [file.path.rpartition("/")[2] for file in split.samples.files]
        assert names == ["pie.jpg", "sea.jpg", "tree.jpg", "hand.jpg"]
        assert [one.candidates for one in split.samples.associations] == [(0, 1, 2), (1, 3, 0)]
        assert split.samples.associations[0].right == (True, False, True)
        assert split.samples.texts == ["An apple", "A wave"]
        again, before = reread(split, 0)
        assert again == before

    def test_a_limit_takes_words_with_their_images(self, tmp_path):
        split = self.opened(tmp_path, limit=1)
        (one,) = split.samples.associations
        assert len(split.samples) == len(one.candidates) == 3
        paths = [split.samples.files[place.file].path for place in split.samples.places]
        drawn = next(line for line in self.LINES if line["cue"] == one.cue)
        shown = [paths[number].rpartition("/")[2].removesuffix(".jpg") for number in one.candidates]
        assert shown == drawn["candidates"]
        again, before = reread(split, 0)
        assert again == before

    def test_a_damaged_image_takes_its_words_along(self, tmp_path):
        split = self.opened(tmp_path)
        (tmp_path / "winogavil" / "images" / "hand.jpg").write_bytes(b"no image")
        skipping = open_split(
            split.source, "test", "image_association", tmp_path / "cache", skip_damaged=True
        )
        assert [one.cue for one in skipping.samples.associations] == ["Apple"]
        assert len(skipping.samples.left_out) == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"associations": ["moon"]}, "'moon' is no candidate"),
            ({"candidates": []}, "has no list 'candidates'"),
            ({"candidates": ["pie", "pie"]}, "'candidates' twice"),
            ({"candidates": ["pie", 3]}, "'candidates' .*no texts"),
            ({"candidates": ["../pie"], "associations": ["../pie"]}, "do not trust"),
            ({"candidates": ["moon"], "associations": ["moon"]}, r"moon\.jpg is missing"),
            ({"cue": None}, "has no text 'cue'"),
        ],
    )
    def test_a_wrong_line_is_named(self, tmp_path, change, message):
        with pytest.raises(DataError, match=message):
            self.opened(tmp_path, self.LINES[0] | change)
