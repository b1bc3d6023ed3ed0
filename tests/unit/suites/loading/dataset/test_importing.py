"""Real data becomes what the scenarios' stages read, and what is wrong with it is said early."""

from __future__ import annotations

import importlib
import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from skymark.model.errors import DataError
from skymark.resources import needs
from skymark.suites.loading.dataset.clips import mp4_bytes
from skymark.suites.loading.dataset.importing import RealData, import_data
from skymark.suites.loading.dataset.sounds import flac_bytes, speech, speech_like, wav_bytes
from skymark.suites.loading.dataset.tabular import feature_moments
from skymark.suites.loading.dataset.values import category
from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.scenarios.au1_compressed_audio import CompressedAudio
from skymark.suites.loading.scenarios.cv_images import ImageClassification
from skymark.suites.loading.scenarios.cv_volumes_and_clips import VideoClips, Volumes
from skymark.suites.loading.scenarios.mm_pairs import AudioTextPairs, ImageTextPairs
from skymark.suites.loading.scenarios.nlp_texts import TextSequences, TokenBlocks
from skymark.suites.loading.scenarios.tab_tables import DenseFeatures, SparseFeatures
from skymark.suites.loading.work import Size


def picture(kind: str = "JPEG", width: int = 48, height: int = 40, mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(width).integers(0, 255, (height, width, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def imported(data, cls: type[Scenario], size: Size, directory) -> tuple[Scenario, Oracle]:
    """Plan and import as a run does, and check that the scenario's work runs on every element."""
    RealData(str(data)).check(cls)
    scenario = cls(size=RealData(str(data)).size(cls, size), seed=3)
    dataset = import_data(str(data), scenario, directory)
    assert len(dataset) == scenario.size.elements
    oracle = Oracle(scenario, dataset)
    for index in range(len(dataset)):
        oracle.check(Content(0, oracle.reference.batch(0, np.array([index]))))
    assert oracle.verdict().passed, oracle.cause
    return scenario, oracle


class TestImages:
    SIZE = Size(elements=101, batch_size=4, values={"height": 0, "width": 0, "side": 16})

    def test_a_folder_of_images_runs_cv1(self, tmp_path):
        for name in ("cat/1.jpg", "dog/1.jpg", "dog/2.jpg"):
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name).write_bytes(picture())
        _, oracle = imported(tmp_path / "in", ImageClassification, self.SIZE, tmp_path / "out")
        assert oracle.dataset.column("label").tolist() == [0, 1, 1]
        assert oracle.dataset.column("width").tolist() == [48] * 3
        assert oracle.dataset.column("height").tolist() == [40] * 3
        assert bytes(oracle.dataset[0]["jpeg"]) == picture()

    def test_every_format_is_kept_as_it_is(self, tmp_path):
        kinds = [("PNG", "RGBA"), ("PNG", "L"), ("GIF", "P"), ("TIFF", "RGB"), ("WEBP", "RGB")]
        for number, (kind, mode) in enumerate(kinds):
            (tmp_path / f"{number}.{kind.lower()}").write_bytes(picture(kind, mode=mode))
        _, oracle = imported(tmp_path, ImageClassification, self.SIZE, tmp_path / "out")
        for element, (kind, mode) in zip(oracle.dataset, kinds, strict=True):
            assert bytes(element["jpeg"]) == picture(kind, mode=mode)

    def test_a_truncated_jpeg_is_named_before_anything_starts(self, tmp_path):
        (tmp_path / "whole.jpg").write_bytes(picture())
        (tmp_path / "cut.jpg").write_bytes(picture()[:-200])
        with pytest.raises(DataError, match=r"cut\.jpg .*truncated JPEG"):
            RealData(str(tmp_path)).check(ImageClassification)

    def test_an_image_that_does_not_decode_is_named_in_the_import(self, tmp_path):
        data = picture("PNG")
        (tmp_path / "cut.png").write_bytes(data[: len(data) // 2] + data[-12:])
        (tmp_path / "a.png").write_bytes(data)
        RealData(str(tmp_path)).check(ImageClassification)
        scenario = ImageClassification(size=self.SIZE.model_copy(update={"elements": 2}))
        with pytest.raises(DataError, match=r"cut\.png .*\bagain"):
            import_data(str(tmp_path), scenario, tmp_path / "out")

    def test_tar_shards_run_mm1(self, tmp_path):
        members = {f"{k}.{end}": data for k in range(3) for end, data in self.pair(k).items()}
        with tarfile.open(tmp_path / "s.tar", "w") as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        _, oracle = imported(tmp_path / "s.tar", ImageTextPairs, self.SIZE, tmp_path / "out")
        assert bytes(oracle.dataset[2]["caption"]) == b"dog 2"

    def pair(self, number):
        return {"jpg": picture(), "txt": f"dog {number}".encode()}

    def test_the_first_of_several_captions_is_taken(self, tmp_path):
        captions = [["a dog", "an animal"], ["a cat", "an animal"], ["a cow"]]
        table = pa.table({"image": [{"bytes": picture(), "path": None}] * 3, "captions": captions})
        pq.write_table(table, tmp_path / "0.parquet")
        _, oracle = imported(tmp_path / "0.parquet", ImageTextPairs, self.SIZE, tmp_path / "out")
        assert bytes(oracle.dataset[0]["caption"]) == b"a dog"

    def test_missing_captions_are_said_before_anything_starts(self, tmp_path):
        (tmp_path / "a.jpg").write_bytes(picture())
        with pytest.raises(DataError, match=r" text\b.* image, label\b"):
            RealData(str(tmp_path)).check(ImageTextPairs)


class TestSounds:
    SIZE = Size(elements=9, batch_size=4, values={"seconds": 0.5})

    def test_a_folder_of_sounds_with_texts_runs_mm2(self, tmp_path):
        for number in range(3):
            sound = speech_like(np.random.default_rng(number), 0.4).tobytes()
            (tmp_path / f"{number}.wav").write_bytes(sound)
            (tmp_path / f"{number}.txt").write_text("hello there")
        _, oracle = imported(tmp_path, AudioTextPairs, self.SIZE, tmp_path / "out")
        assert len(oracle.dataset) == 3

    @pytest.mark.parametrize("kind", ["flac", "wav"])
    def test_a_folder_of_sounds_of_either_kind_runs_mm2_and_au1(self, tmp_path, kind):
        spoken = [speech(np.random.default_rng(number), 0.4) for number in range(3)]
        encode = {"flac": flac_bytes, "wav": wav_bytes}[kind]
        for number, samples in enumerate(spoken):
            path = tmp_path / "in" / f"speaker-{number}" / f"a.{kind}"
            path.parent.mkdir(parents=True)
            path.write_bytes(encode(samples).tobytes())
            path.with_suffix(".txt").write_text("hello there")
        _, oracle = imported(tmp_path / "in", AudioTextPairs, self.SIZE, tmp_path / "mm2")
        assert bytes(oracle.dataset[2]["wav"]) == wav_bytes(spoken[2]).tobytes()
        size = Size(elements=9, batch_size=4, values={"seconds": 0.5, "crop": 0.3, "classes": 3})
        _, oracle = imported(tmp_path / "in", CompressedAudio, size, tmp_path / "au1")
        assert bytes(oracle.dataset[2]["flac"]) == flac_bytes(spoken[2]).tobytes()
        assert [element["label"] for element in oracle.dataset] == [0, 1, 2]

    def test_a_damaged_flac_file_is_named(self, tmp_path):
        sound = flac_bytes(speech(np.random.default_rng(0), 0.4)).tobytes()
        (tmp_path / "a.flac").write_bytes(sound[: len(sound) // 2])
        with pytest.raises(DataError, match=r"a\.flac: .*FLAC"):
            RealData(str(tmp_path)).check(CompressedAudio)


def grey_clip(frames: int, height: int = 32, width: int = 48) -> bytes:
    levels = np.linspace(40, 200, frames).astype(np.uint8)
    shape = (height * 3 // 2, width)
    return mp4_bytes([np.full(shape, level) for level in levels], height, width).tobytes()


class TestClips:
    SIZE = Size(
        elements=9, batch_size=4, values={"side": 16, "frames": 4, "stride": 2, "classes": 2}
    )

    def test_a_folder_of_clips_of_any_size_and_length_runs_cv5(self, tmp_path):
        shapes = {"run/a.mp4": (20, 32, 48), "run/b.mp4": (9, 64, 32), "jump/c.mp4": (3, 32, 32)}
        for name, shape in shapes.items():
            (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name).write_bytes(grey_clip(*shape))
        scenario, oracle = imported(tmp_path / "in", VideoClips, self.SIZE, tmp_path / "out")
        assert [element["label"] for element in oracle.dataset] == [0, 1, 1]
        short = scenario.transform(oracle.dataset[0], 0)["clip"]
        assert short.shape == (4, 16, 16, 3)
        # Frames 0 and 2, and the last one again for those that the clip has not.
        means = short.mean(axis=(1, 2, 3))
        assert means[0] < means[1] == means[2] == means[3]

    def test_tar_shards_of_clips_run_cv5(self, tmp_path):
        with tarfile.open(tmp_path / "0.tar", "w") as archive:
            for number in range(3):
                members = {"mp4": grey_clip(12), "cls": str(number % 2).encode()}
                for extension, data in members.items():
                    header = tarfile.TarInfo(f"{number}.{extension}")
                    header.size = len(data)
                    archive.addfile(header, io.BytesIO(data))
        _, oracle = imported(tmp_path / "0.tar", VideoClips, self.SIZE, tmp_path / "out")
        assert [element["label"] for element in oracle.dataset] == [0, 1, 0]


class TestText:
    def test_lines_of_text_are_packed_for_nlp1(self, tmp_path):
        lines = [f"line {number} with a few words" for number in range(50)]
        (tmp_path / "a.txt").write_text("\n".join(lines))
        size = Size(elements=101, batch_size=5, values={"block": 64})
        scenario, oracle = imported(tmp_path / "a.txt", TokenBlocks, size, tmp_path / "out")
        assert 50 * 29 / 65 <= scenario.size.elements < 50 * 29 / 50
        tokens = np.concatenate([element["tokens"] for element in oracle.dataset])
        found = bytes(tokens.astype(np.uint8)).decode()
        assert sum(found.count(line) for line in lines) >= 45

    def test_no_more_text_is_taken_than_the_variant_has(self, tmp_path):
        (tmp_path / "a.txt").write_text("some words\n" * 1000)
        size = Size(elements=7, batch_size=5, values={"block": 64})
        scenario, _ = imported(tmp_path / "a.txt", TokenBlocks, size, tmp_path / "out")
        assert scenario.size.elements == 7

    def test_json_lines_run_nlp2(self, tmp_path):
        rows = ['{"text": "good", "label": "pos"}', '{"text": "bad film", "label": "neg"}']
        (tmp_path / "a.jsonl").write_text("\n".join([*rows, rows[0]]))
        size = Size(elements=11, batch_size=2, values={"longest": 64, "classes": 2})
        _, oracle = imported(tmp_path, TextSequences, size, tmp_path / "out")
        assert oracle.dataset.column("label").tolist() == [1, 0, 1]
        assert bytes(oracle.dataset[1]["tokens"].astype(np.uint8)) == b"bad film"

    def test_text_without_labels_does_not_run_nlp2(self, tmp_path):
        (tmp_path / "a.txt").write_text("words")
        with pytest.raises(DataError, match=r" label, .*only text;"):
            RealData(str(tmp_path)).check(TextSequences)


class TestTables:
    def test_a_table_of_numbers_runs_tab1_and_is_standardised(self, tmp_path):
        random = np.random.default_rng(1)
        rows = [f"{a:.4f},{b:.3f},{int(a > 0)}" for a, b in random.normal(5, 3, (41, 2))]
        (tmp_path / "a.csv").write_text("\n".join(["height,weight,target", *rows]))
        size = Size(elements=1001, batch_size=8, values={"features": 32})
        scenario, oracle = imported(tmp_path / "a.csv", DenseFeatures, size, tmp_path / "out")
        assert scenario.size["features"] == 2
        elements = [scenario.transform(oracle.dataset[k], 0)["features"] for k in range(41)]
        assert np.allclose(np.mean(elements, axis=0), 0, atol=1e-5)
        assert np.allclose(np.std(elements, axis=0), 1, atol=1e-5)
        assert np.array_equal(feature_moments(2)[0].shape, (2,))

    @pytest.mark.parametrize(
        ("row", "reason"), [("1,,0", "'y' of .* is missing"), ("1,bob,0", "'bob', where a num")]
    )
    def test_what_is_no_number_is_named(self, tmp_path, row, reason):
        (tmp_path / "a.csv").write_text(f"x,y,label\n{row}\n")
        with pytest.raises(DataError, match=reason):
            RealData(str(tmp_path)).check(DenseFeatures)

    def test_click_logs_run_tab2(self, tmp_path):
        rows = [
            "\t".join([str(k % 2), "", "-1", *map(str, range(11)), *["68fd1e64"] * 25, ""])
            for k in range(5)
        ]
        (tmp_path / "sample.txt").write_text("\n".join(rows))
        size = Size(elements=101, batch_size=2, values={"largest_table": 100})
        _, oracle = imported(tmp_path / "sample.txt", SparseFeatures, size, tmp_path / "out")
        assert oracle.dataset.column("dense")[0].tolist() == [-1, -1, *range(11)]
        assert oracle.dataset.column("categorical")[0].tolist() == [0x68FD1E64] * 25 + [-1]
        assert oracle.dataset.column("label").tolist() == [0, 1, 0, 1, 0]

    def test_clicks_in_parquet_run_tab2(self, tmp_path):
        columns: dict[str, list[object]] = {"Label": [1, 0, 1]}
        columns |= {f"I{k}": [None, 2.0, 3.0] for k in range(1, 14)}
        columns |= {f"C{k}": ["zz", "a1", None] for k in range(1, 27)}
        pq.write_table(pa.table(columns), tmp_path / "0.parquet")
        size = Size(elements=101, batch_size=2, values={"largest_table": 100})
        _, oracle = imported(tmp_path, SparseFeatures, size, tmp_path / "out")
        assert oracle.dataset.column("dense")[:, 0].tolist() == [-1, 2, 3]
        assert oracle.dataset.column("categorical")[:, 5].tolist() == [
            category("zz"),
            category("a1"),
            -1,
        ]

    def test_a_table_that_is_no_click_log_is_refused(self, tmp_path):
        (tmp_path / "a.csv").write_text("I1,I2,label\n1,2,0\n")
        with pytest.raises(DataError, match=r"\b13\b.* I1, I2, label\b"):
            RealData(str(tmp_path)).check(SparseFeatures)


def test_categories_of_any_text_have_ids():
    assert category(12) == 12
    assert category("68fd1e64") == 0x68FD1E64
    assert len({category(one) for one in ("1", "01", 1, 1.5, "ff", "FF", "255", -1, "-1")}) == 8
    assert category(float("nan")) == category(None) == category("") == -1
    assert category("New York") != category("new york")
    assert 0 <= category("New York") < 2**63


def labelled_lines(directory, rows: int) -> str:
    (directory / "a.jsonl").write_text('{"text": "x", "label": 0}\n' * rows)
    return str(directory)


@pytest.mark.parametrize(
    ("variant", "rows", "elements"),
    [(102, 9, 9), (102, 8, 7), (102, 200, 102), (8, 11, 8), (8, 7, 4)],
)
def test_a_last_short_batch_is_there_where_the_variant_has_one(tmp_path, variant, rows, elements):
    size = Size(elements=variant, batch_size=4, values={"longest": 8, "classes": 2})
    assert RealData(labelled_lines(tmp_path, rows)).size(TextSequences, size).elements == elements


def test_too_few_elements_are_refused(tmp_path):
    size = Size(elements=8, batch_size=4, values={"longest": 8, "classes": 2})
    with pytest.raises(DataError, match=r" 3 elements\b.* 4 "):
        RealData(labelled_lines(tmp_path, 3)).size(TextSequences, size)


def test_empty_documents_fill_no_block(tmp_path):
    pq.write_table(pa.table({"text": ["", "", ""]}), tmp_path / "0.parquet")
    size = Size(elements=8, batch_size=3, values={"block": 8})
    with pytest.raises(DataError, match=r" 0 elements\b.* 1 "):
        RealData(str(tmp_path)).size(TokenBlocks, size)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"image": 3, "label": 0}, "image of .*:1 .*but int;"),
        ({"image": "x", "label": [1]}, "image of .*:1 .*but str;"),
    ],
)
def test_a_field_that_is_no_image_is_named(tmp_path, value, reason):
    (tmp_path / "a.jsonl").write_text(json.dumps(value))
    with pytest.raises(DataError, match=reason):
        RealData(str(tmp_path)).check(ImageClassification)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"text": "x", "label": [1]}, r"the label of .*:1 is \[1\]"),
        ({"text": "x", "label": 0.5}, "label of .*:1 .*0.5; .*whole number"),
        ({"text": 7, "label": 0}, "the text of .*:1 is int"),
        ({"text": [], "label": 0}, "the text of .*:1 is list"),
    ],
)
def test_labels_and_texts_of_another_kind_are_named(tmp_path, value, reason):
    (tmp_path / "a.jsonl").write_text(json.dumps(value))
    with pytest.raises(DataError, match=reason):
        RealData(str(tmp_path)).check(TextSequences)


def test_an_absent_library_says_how_to_get_it():
    advice = r"needs nowhere, .* run: uv pip install .*\[data\]"
    with pytest.raises(DataError, match=advice), needs("nowhere"):
        importlib.import_module("nowhere")
    with pytest.raises(ModuleNotFoundError), needs("nowhere"):
        importlib.import_module("elsewhere")


def test_data_that_changes_is_counted_again(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "label": 0}\n' * 3)
    size = Size(elements=101, batch_size=4, values={"longest": 8, "classes": 2})
    before = RealData(str(path)).size(TextSequences, size), RealData(str(path)).fingerprint
    path.write_text('{"text": "x", "label": 0}\n' * 5)
    assert (before[0].elements, RealData(str(path)).size(TextSequences, size).elements) == (3, 5)
    assert RealData(str(path)).fingerprint != before[1]


def test_data_that_shrank_since_planning_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": 0}\n' * 3)
    size = Size(elements=5, batch_size=4, values={"longest": 8, "classes": 2})
    with pytest.raises(DataError, match=r" 3 elements\b.* 5 "):
        import_data(str(tmp_path), TextSequences(size=size), tmp_path / "out")


def test_a_scenario_without_real_data_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(DataError, match=r"CV-2 .*real data"):
        RealData(str(tmp_path)).check(Volumes)
