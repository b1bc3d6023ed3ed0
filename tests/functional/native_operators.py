"""Libraries' own operators beside the reference, for `test_native_operators.py`."""

from __future__ import annotations

import contextlib
import importlib
import io
import os

import numpy as np
import pytest

from skymark.suites.loading.registry import scenario_class
from skymark.suites.loading.work import Size

PHOTOGRAPHS = {"height": 90, "width": 120, "side": 64, "classes": 5}
ON_PHOTOGRAPHS = ("CV-1", "CV-3", "MM-1", "PC-2")
SIZES = {
    **{id: Size(elements=8, batch_size=8, values=PHOTOGRAPHS) for id in ON_PHOTOGRAPHS},
    "CV-4": Size(elements=8, batch_size=8, values=PHOTOGRAPHS | {"smallest": 32}),
    "CV-5": scenario_class("CV-5")
    .variants["small"]
    .model_copy(update={"elements": 5, "batch_size": 5}),
    "AU-1": Size(elements=12, batch_size=12, values={"seconds": 1.0, "crop": 0.5, "classes": 5}),
    "CV-2": Size(
        elements=3,
        batch_size=3,
        values={"depth": 12, "height": 14, "width": 16, "edge": 8, "classes": 2},
    ),
    "NLP-1": Size(elements=20, batch_size=20, values={"block": 64}),
    "PC-1": Size(elements=40, batch_size=40, values={"width": 64}),
    "PR-2": Size(elements=40, batch_size=40, values={"features": 16}),
    "TAB-1": Size(elements=40, batch_size=40, values={"features": 32}),
    "TAB-2": Size(elements=40, batch_size=40, values={"largest_table": 100_000}),
}
EPOCH = 2


def made(id, directory):
    """Return a small scenario and its data."""
    axes = {"depth": 50} if id == "PC-1" else {}
    scenario = scenario_class(id)(size=SIZES[id], seed=7, axes=axes)
    return scenario, scenario.generate(directory)


def agree(batch, scenario, dataset):
    done = scenario.collate([scenario.transform(element, EPOCH) for element in dataset])
    expected = scenario.mix(done, EPOCH)
    assert set(batch) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(
            np.asarray(batch[name]), values, atol=scenario.native_tolerance, err_msg=name
        )
        apart = np.abs(np.asarray(batch[name], np.float64) - values).reshape(len(values), -1)
        assert apart.mean(axis=1).max() <= (scenario.native_mean_tolerance or np.inf), name


def raw_batch(dataset):
    columns = {column.name: np.array(dataset.column(column.name)) for column in dataset.columns}
    return {"index": np.arange(len(dataset)), **columns}


class TestJax:
    @pytest.fixture(autouse=True)
    def jax(self):
        os.environ["JAX_ENABLE_X64"] = "1"
        return importlib.import_module("jax")

    @pytest.mark.parametrize("id", ["CV-2", "PC-1", "PR-2", "TAB-1", "TAB-2"])
    def test_operators_do_what_the_reference_does(self, id, tmp_path):
        from skymark.suites.loading.adapters.datarax.operators import OPERATORS, forget

        scenario, dataset = made(id, tmp_path)
        drawn = OPERATORS[id].draw(scenario, dataset, EPOCH)
        batch = raw_batch(dataset) | drawn
        for step in (*OPERATORS[id].steps(scenario), forget(drawn)):
            batch = step(batch)
        agree(batch, scenario, dataset)


class TestTensorFlow:
    @pytest.fixture(autouse=True)
    def tensorflow(self):
        return importlib.import_module("tensorflow")

    @pytest.mark.parametrize("id", ["PC-1", "PR-2", "TAB-1", "TAB-2"])
    def test_operators_on_batches_do_what_the_reference_does(self, id, tmp_path, tensorflow):
        from skymark.suites.loading.adapters.tfdata.operators import OPERATORS

        scenario, dataset = made(id, tmp_path)
        batch = {name: tensorflow.constant(v) for name, v in raw_batch(dataset).items()}
        operators = OPERATORS[id]
        assert operators.on_batches
        for step in operators.steps(scenario, operators.draw(scenario, dataset, EPOCH)):
            batch = step(batch)
        agree(batch, scenario, dataset)

    def test_packing_ragged_documents_does_what_the_reference_does(self, tmp_path, tensorflow):
        from skymark.suites.loading.adapters.tfdata.operators import OPERATORS

        scenario, dataset = made("NLP-1", tmp_path)
        ragged = {
            name: tensorflow.ragged.constant([element[name].tolist() for element in dataset])
            for name in ("tokens", "lengths")
        }
        batch = {"index": tensorflow.range(len(dataset)), **ragged}
        for step in OPERATORS["NLP-1"].steps(scenario, {}):
            batch = step(batch)
        agree(batch, scenario, dataset)

    def test_one_iterator_delivers_epochs_as_a_loader_that_begins_there_does(self, tmp_path):
        from skymark.suites.loading.adapter import LoadingJob
        from skymark.suites.loading.adapters.tfdata import TfDataLoader, records

        scenario, dataset = made("PR-2", tmp_path / "canonical")
        records.write_records(dataset, tmp_path)
        job = LoadingJob(scenario, dataset, tmp_path, "tfrecord", batch_size=16, seed=7)

        def epoch(loader, number):
            batches = [{k: np.asarray(v) for k, v in b.items()} for b in loader.epoch(number)]
            return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}

        loader = TfDataLoader(job)
        streams = [epoch(loader, number) for number in range(3)]
        first = loader.iterator
        next(loader.epoch(3))  # and left in its middle
        assert loader.iterator is first
        streams.append(epoch(loader, 3))
        for number, stream in enumerate(streams):
            assert sorted(stream["index"]) == list(range(len(dataset)))
            alone = epoch(TfDataLoader(job), number)
            for name, values in stream.items():
                np.testing.assert_array_equal(values, alone[name])
        order = streams[EPOCH]["index"]
        expected = [scenario.transform(dataset[int(i)], EPOCH)["features"] for i in order]
        np.testing.assert_allclose(streams[EPOCH]["features"], expected, atol=1e-3)
        assert not np.array_equal(streams[0]["index"], streams[1]["index"])

    @pytest.mark.parametrize("format", ["tfrecord", "files", "tar", "memory"])
    @pytest.mark.parametrize("id", ["CV-2", "NLP-1", "TAB-2"])
    def test_every_format_gives_the_raw_elements(self, id, format, tmp_path, tensorflow):
        from skymark.suites.loading.adapter import LoadingJob
        from skymark.suites.loading.adapters.tfdata import records
        from skymark.suites.loading.dataset.files import write_files
        from skymark.suites.loading.dataset.tar import write_tar

        scenario, dataset = made(id, tmp_path / "canonical")
        storage = tmp_path / format
        storage.mkdir()
        writers = {"tfrecord": records.write_records, "files": write_files, "tar": write_tar}
        if format in writers:
            writers[format](dataset, storage)
        read = records.source(LoadingJob(scenario, dataset, storage, format, batch_size=4))
        keys = tensorflow.data.Dataset.range(len(dataset))
        if format == "tfrecord":
            paths = sorted(str(path) for path in storage.iterdir())
            keys = tensorflow.data.TFRecordDataset(paths)
        elements = list(keys.map(read).as_numpy_iterator())
        assert sorted(int(element["index"]) for element in elements) == list(range(len(dataset)))
        for element in elements:
            raw = dataset[int(element["index"])]
            for column in dataset.columns:
                assert np.array_equal(element[column.name], raw[column.name]), column.name
                assert np.asarray(element[column.name]).dtype == np.dtype(column.dtype)


def load(adapter, id, workers, directory):
    """Have a DataLoader make the one batch of a scenario, and require the reference's."""
    from skymark.suites.loading.adapter import LoadingJob

    scenario, dataset = made(id, directory)
    batch_size = scenario.size.batch_size
    job = LoadingJob(
        scenario, dataset, directory, "canonical", batch_size, workers=workers, shuffle=False
    )
    with contextlib.closing(adapter.open(job)) as loader:  # threads would outlive a failure
        (batch,) = loader.epoch(EPOCH)
    agree(batch, scenario, dataset)


class TestTorchvision:
    @pytest.fixture(autouse=True)
    def torchvision(self):
        return importlib.import_module("torchvision")

    @pytest.mark.parametrize("id", ["CV-1", "CV-3", "CV-4", "PC-2"])
    @pytest.mark.parametrize("workers", [0, 2])
    def test_operators_do_what_the_reference_does(self, id, workers, tmp_path):
        from skymark.suites.loading.adapters.torchvision import Torchvision

        load(Torchvision(), id, workers, tmp_path)


class TestTorchCodec:
    @pytest.fixture(autouse=True)
    def torchcodec(self):
        return importlib.import_module("torchcodec")

    @pytest.mark.parametrize("id", ["CV-5", "AU-1"])
    @pytest.mark.parametrize("workers", [0, 2])
    def test_operators_do_what_the_reference_does(self, id, workers, tmp_path):
        from skymark.suites.loading.adapters.torchcodec import TorchCodec

        load(TorchCodec(), id, workers, tmp_path)

    def test_frames_are_the_same_bit_for_bit(self, tmp_path):
        import torch
        from torchcodec.decoders import VideoDecoder

        from skymark.suites.loading.transforms.video import decode_frames

        _, dataset = made("CV-5", tmp_path)
        for element in dataset:
            decoder = VideoDecoder(bytes(element["mp4"]), dimension_order="NHWC")
            everything = decode_frames(element["mp4"], range)
            assert torch.equal(decoder[:], torch.from_numpy(everything))

    def test_samples_are_the_same_wherever_a_stretch_begins(self, tmp_path):
        from torchcodec.decoders import AudioDecoder

        from skymark.suites.loading.transforms.audio import SAMPLE_RATE, decode_flac

        _, dataset = made("AU-1", tmp_path)
        for element in dataset:
            samples = decode_flac(element["flac"])
            for begin in range(0, len(samples) - 4_000, 97):
                bounds = begin / SAMPLE_RATE, (begin + 4_000) / SAMPLE_RATE
                # A second stretch from one decoder may fail: such files cannot be sought in.
                decoder = AudioDecoder(bytes(element["flac"]))
                stretch = decoder.get_samples_played_in_range(*bounds).data
                assert np.array_equal(stretch[0], samples[begin : begin + 4_000]), begin


def turned(jpeg):
    """Return an image whose EXIF orientation says that its first row is on the right."""
    from PIL import Image

    exif = Image.Exif()
    exif[0x112] = 6
    segment = exif.tobytes()
    marked = b"\xff\xd8\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment
    return np.frombuffer(marked + bytes(jpeg)[2:], np.uint8)


class TestSpdl:
    @pytest.fixture(autouse=True)
    def spdl(self):
        return importlib.import_module("spdl.io")

    @pytest.mark.parametrize("id", ["CV-1", "CV-3", "CV-4", "MM-1"])
    def test_operators_do_what_the_reference_does(self, id, tmp_path):
        from skymark.suites.loading.adapters.spdl_io import SpdlIo

        load(SpdlIo(), id, 2, tmp_path)

    def test_an_image_is_not_turned_by_its_exif_orientation(self, tmp_path):
        from skymark.suites.loading.adapter import LoadingJob
        from skymark.suites.loading.adapters.spdl_io import DecodingStage

        scenario, dataset = made("CV-1", tmp_path)
        stage = DecodingStage(LoadingJob(scenario, dataset, tmp_path, "canonical", 8))
        stage.reader = [{**element, "jpeg": turned(element["jpeg"])} for element in dataset]
        agree(stage((EPOCH, [*range(len(dataset))])), scenario, dataset)

    @pytest.mark.parametrize("subsampling", [0, 1, 2])
    @pytest.mark.parametrize(("width", "height"), [(75, 51), (76, 52)])
    def test_colours_lie_where_the_reference_has_them(self, spdl, width, height, subsampling):
        from PIL import Image

        from skymark.suites.loading.adapters.spdl_io import in_rgb

        noise = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(noise).save(file, "JPEG", subsampling=subsampling)
        whole = np.asarray(Image.open(file).convert("RGB")).astype(int)
        for box in ((0, 0, height, width), (7, 5, 31, 29), (height - 31, width - 29, 31, 29)):
            top, left, rows, columns = box
            packets = spdl.demux_image(file.getvalue())
            frames = spdl.decode_packets(packets, f"{in_rgb(packets, box)},format=rgb24")
            pixels = spdl.to_numpy(spdl.convert_frames(frames))
            apart = pixels - whole[top : top + rows, left : left + columns]
            assert np.abs(apart).mean() < 1, box  # 20 where planes are stretched
