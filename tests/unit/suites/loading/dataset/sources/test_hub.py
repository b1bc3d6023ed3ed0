"""Datasets of the Hub, read by its real client from a small server on this machine."""

from __future__ import annotations

import io
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from skymark.cache.sources import HubReference, ParquetTable, parse, table_of
from skymark.cli.main import main
from skymark.cli.options import PlanOptions
from skymark.execute.run_caches import caches_of_run
from skymark.model.errors import DataError, UnknownNameError
from skymark.suites.loading.dataset.importing import RealData, import_data
from skymark.suites.loading.dataset.sources import parquet as hub
from skymark.suites.loading.dataset.sources.opening import open_source
from skymark.suites.loading.registry import bind_scenario
from skymark.suites.loading.scenarios.cv_images import ImageClassification
from skymark.suites.loading.scenarios.mm_pairs import ImageTextPairs
from skymark.suites.loading.scenarios.nlp_texts import TokenBlocks
from skymark.suites.loading.scenarios.tab_tables import SparseFeatures
from skymark.suites.loading.specification import LoadingSpecification
from skymark.suites.loading.work import Size
from tests.hub_server import serving

pytest.importorskip("huggingface_hub")

CONVERTED = "refs/convert/parquet"


def point_at(server, monkeypatch):
    """Make the Hub's client ask a server here, as HF_ENDPOINT does before it is imported."""
    from huggingface_hub import constants

    endpoint = f"http://127.0.0.1:{server.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, endpoint)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    hub.open_hub.cache_clear()


@pytest.fixture
def loopback_only(monkeypatch):
    """Fail the test if anything asks for the address of another machine."""
    resolve = socket.getaddrinfo
    asked: list[str] = []

    def resolve_here(host, *arguments, **options):
        if host not in {"127.0.0.1", b"127.0.0.1"}:
            asked.append(host)
            raise socket.gaierror(f"{host} is not this machine")
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)
    yield
    assert not asked


@pytest.fixture
def server(tmp_path, monkeypatch, loopback_only):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    with serving() as running:
        point_at(running, monkeypatch)
        yield running
    hub.open_hub.cache_clear()


def parquet(**columns) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def picture(kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def run(data, cls, size, directory):
    RealData(data).check(cls)
    scenario = cls(size=RealData(data).size(cls, size))
    dataset = import_data(data, scenario, directory)
    for element in dataset:
        scenario.transform(element, 0)
    return dataset


SIDE = Size(elements=5, batch_size=2, values={"side": 16, "height": 0, "width": 0})


class TestReadyMappings:
    def test_cifar10_runs_cv1(self, server, tmp_path):
        images = [{"bytes": picture(), "path": None}] * 3
        server.datasets["uoft-cs/cifar10"] = {
            "main": {
                "README.md": b"",
                "plain_text/test-00000-of-00001.parquet": parquet(img=images[:1], label=[9]),
                "plain_text/train-00000-of-00001.parquet": parquet(img=images, label=[3, 1, 2]),
            }
        }
        dataset = run("hf://uoft-cs/cifar10", ImageClassification, SIDE, tmp_path / "out")
        assert dataset.column("label").tolist() == [3, 1, 2]

    def test_imagenette_runs_cv1_from_the_converted_branch(self, server, tmp_path):
        images = [{"bytes": picture("JPEG"), "path": "a.jpg"}] * 3
        files = {
            f"{size}/{split}/0000.parquet": parquet(image=images, label=[number] * 3)
            for number, size in enumerate(["160px", "320px", "full_size"])
            for split in ("train", "validation")
        }
        server.datasets["frgfm/imagenette"] = {"main": {"imagenette.py": b""}, CONVERTED: files}
        usual = run("hf://frgfm/imagenette", ImageClassification, SIDE, tmp_path / "usual")
        assert usual.column("label").tolist() == [1, 1, 1]
        data = "hf://frgfm/imagenette:160px/validation"
        other = run(data, ImageClassification, SIDE, tmp_path / "other")
        assert other.column("label").tolist() == [0, 0, 0]

    def test_wikitext_runs_nlp1(self, server, tmp_path):
        table_data = ["", " = Title = ", "Some words of an article . " * 5] * 20
        server.datasets["Salesforce/wikitext"] = {
            "main": {
                "wikitext-103-raw-v1/train-00000-of-00002.parquet": parquet(text=["wrong"]),
                "wikitext-2-raw-v1/train-00000-of-00001.parquet": parquet(text=table_data),
            }
        }
        size = Size(elements=10, batch_size=4, values={"block": 64})
        dataset = run("hf://Salesforce/wikitext", TokenBlocks, size, tmp_path / "out")
        assert len(dataset) == 10

    def test_coco_captions_run_mm1(self, server, tmp_path):
        answers = [["a dog", "an animal"], ["a cat"], ["a cow"]]
        table = parquet(
            question_id=["1", "2", "3"],
            image=[{"bytes": picture("JPEG"), "path": None}] * 3,
            question=["Describe the image."] * 3,
            answer=answers,
        )
        path = "data/val-00000-of-00013-22cc89d6efa1cc3e.parquet"
        server.datasets["lmms-lab/COCO-Caption"] = {"main": {path: table}}
        dataset = run("hf://lmms-lab/COCO-Caption", ImageTextPairs, SIDE, tmp_path / "out")
        assert bytes(dataset[0]["caption"]) == b"a dog"

    def test_criteo_runs_tab2_from_a_partial_conversion(self, server, tmp_path):
        columns = {"Label": [1, 0, 0]}
        columns |= {f"I{k}": [1.0, None, 3.0] for k in range(1, 14)}
        columns |= {f"C{k}": ["68fd1e64", None, "05db9164"] for k in range(1, 27)}
        files = {"default/partial-train/0000.parquet": parquet(**columns)}
        server.datasets["reczoo/Criteo_x4"] = {"main": {"train.csv": b""}, CONVERTED: files}
        size = Size(elements=5, batch_size=2, values={"largest_table": 100})
        dataset = run("hf://reczoo/Criteo_x4", SparseFeatures, size, tmp_path / "out")
        assert dataset.column("categorical")[0, 0] == 0x68FD1E64


class TestFiles:
    @pytest.fixture
    def shards(self, server):
        files = {
            f"data/train-0000{k}-of-00003.parquet": parquet(text=[str(k)] * 10) for k in range(3)
        }
        server.datasets["o/n"] = {"main": files, "v1": {"a.parquet": parquet(text=["old"])}}
        return server

    def test_planning_downloads_no_file(self, shards, tmp_path):
        source = open_source("hf://o/n")
        assert source.count(100) == 30
        assert source.fingerprint() == open_source("hf://o/n").fingerprint()
        assert not list((tmp_path / "hub-cache").rglob("*.parquet"))

    def test_only_the_files_needed_are_downloaded(self, shards, tmp_path):
        rows = list(open_source("hf://o/n").read(("text",), 15))
        assert [row.values[0] for row in rows] == ["0"] * 10 + ["1"] * 5
        assert rows[12].place == "o/n/data/train-00001-of-00003.parquet row 2"
        assert len(list((tmp_path / "hub-cache").rglob("*.parquet"))) == 2

    def test_a_revision_can_be_given(self, shards):
        source = open_source("hf://o/n@v1")
        assert [row.values for row in source.read(("text",), 9)] == [("old",)]
        assert source.fingerprint() != open_source("hf://o/n").fingerprint()

    def test_an_unknown_revision_is_refused(self, shards):
        with pytest.raises(DataError, match=r"o/n@v9 .*revision;.* @"):
            open_source("hf://o/n@v9")

    def test_an_unknown_split_is_refused_with_the_known_ones(self, shards):
        with pytest.raises(UnknownNameError, match=r"o/n 'trian'\. .*'train'"):
            open_source("hf://o/n:trian")

    def test_a_file_that_is_no_parquet_is_refused(self, shards):
        shards.datasets["o/n"]["v1"]["a.parquet"] = b"PAR1 but no more, and long enough"
        with pytest.raises(DataError, match=r"hf://o/n/a\.parquet .*whole Parquet"):
            open_source("hf://o/n@v1")


def test_several_configurations_ask_for_a_choice(server):
    files = {f"{name}/train/0.parquet": parquet(text=["a"]) for name in ("en", "de")}
    server.datasets["o/n"] = {"main": files}
    with pytest.raises(DataError, match=r" de, en\b.* hf://o/n:de/train"):
        open_source("hf://o/n")
    with pytest.raises(UnknownNameError, match="o/n 'fr'"):
        open_source("hf://o/n:fr/train")
    assert open_source("hf://o/n:en/train").count(5) == 1


def test_a_dataset_without_parquet_is_refused(server):
    server.datasets["o/n"] = {"main": {"data.zip": b""}}
    with pytest.raises(DataError, match=r"o/n .*no Parquet"):
        open_source("hf://o/n")


def test_an_unknown_dataset_is_refused(server):
    with pytest.raises(DataError, match=r"o/absent: .*no such"):
        open_source("hf://o/absent")


def test_a_gated_dataset_says_how_to_get_in(server):
    server.refusals["o/gated"] = "GatedRepo"
    with pytest.raises(DataError, match=r"o/gated .*gated; .*HF_TOKEN"):
        open_source("hf://o/gated")


def test_a_hub_that_is_down_says_so(server, monkeypatch):
    with serving() as stopped:
        pass
    point_at(stopped, monkeypatch)
    with pytest.raises(DataError, match=r"o/n .*network"):
        open_source("hf://o/n")


def test_references_are_taken_apart():
    assert parse("hf://a/b") == HubReference("a/b", None, None)
    assert parse("hf://a/b@refs/pr/1:en/test") == HubReference("a/b", "refs/pr/1", "en/test")
    with pytest.raises(DataError, match=r"hf://only-a-name.* hf://owner/name"):
        parse("hf://only-a-name")


@pytest.mark.parametrize(
    ("path", "configuration", "split"),
    [
        ("data/train-00000-of-00002-0a1b2c3d4e5f6789.parquet", "default", "train"),
        ("en/validation-00001-of-00002.parquet", "en", "validation"),
        ("test-00000-of-00001.parquet", "default", "test"),
        ("default/train/0000.parquet", "default", "train"),
        ("default/partial-train/0000.parquet", "default", "train"),
        ("coco.parquet", "default", "train"),
    ],
)
def test_paths_tell_configuration_and_split(path, configuration, split):
    assert table_of(path) == ParquetTable(path, configuration, split)


NUMBERS = list(range(300))


@pytest.fixture
def table_data(server):
    """A data set of numbers and labels, as TAB-1 reads them."""
    path = "data/train-00000-of-00001.parquet"
    server.datasets["o/numbers"] = {"main": {path: parquet(x=NUMBERS, label=[1] * 300)}}
    return "hf://o/numbers"


def plan_of(data):
    return PlanOptions(scenarios=("TAB-1",), adapters=("numpy",), own={"data": data}).plan()


@pytest.mark.parametrize("policy", ["per-job", "parquet"])
def test_a_run_fetches_into_its_own_directory(server, table_data, tmp_path, policy):
    with caches_of_run(policy, tmp_path / "root", plan_of(table_data)):
        rows = list(RealData(table_data).rows())
        assert [values for _, values in rows] == [(number, 1) for number in NUMBERS]
        (job,) = (tmp_path / "root" / "jobs").glob("[!.]*")
        assert list((job / "huggingface" / "hub").rglob("*.parquet"))
    assert not (tmp_path / "hub-cache").exists()
    assert not job.exists()


def test_under_parquet_and_shared_only_the_first_run_fetches(server, table_data, tmp_path):
    plan, root, fetched = plan_of(table_data), tmp_path / "root", []
    for number in range(3):
        server.fetched.clear()
        with caches_of_run("parquet+shared", root, plan):
            cell = plan.cells[0].cell
            fingerprint = LoadingSpecification.of(cell).data_fingerprint
            place = tmp_path / f"out-{number}"
            dataset = import_data(table_data, bind_scenario(cell), place, fingerprint)
            assert len(dataset) == bind_scenario(cell).size.elements
        fetched.append(len(server.fetched))
    assert fetched[0] > 0
    assert fetched[1:] == [0, 0]


def test_prebuilt_notices_a_new_file_of_the_hub(server, table_data, tmp_path):
    build = ["cache", "build", "--data", table_data, "--cache-root", str(tmp_path / "root")]
    assert main(build) == 0
    assert not (tmp_path / "hub-cache").exists()
    with caches_of_run("prebuilt", tmp_path / "root", plan_of(table_data)):
        pass
    from huggingface_hub import HfFileSystem

    path = "data/train-00001-of-00002.parquet"
    server.datasets["o/numbers"]["main"][path] = parquet(x=NUMBERS, label=[0] * 300)
    hub.open_hub.cache_clear()
    HfFileSystem.clear_instance_cache()  # it remembers listings of a commit, as other processes not
    match = "/numbers .*changed .* --data hf://o/numbers --cache-policy prebuilt"
    with (
        pytest.raises(DataError, match=match),
        caches_of_run("prebuilt", tmp_path / "root", plan_of(table_data)),
    ):
        pass
