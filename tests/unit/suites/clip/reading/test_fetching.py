"""Data sets fetched from a server and from the hub, both on this machine."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skymark.model.errors import DataError
from skymark.model.record import Cell
from skymark.suites.clip.reading import fetching
from skymark.suites.clip.reading.fetching import fetch, local_directory
from skymark.suites.clip.reading.opening import open_split
from skymark.suites.clip.specification import ClipSpecification, Model, Source, Weights
from skymark.suites.clip.suite import ClipSuite
from tests.clip.drawing import pictures
from tests.clip.shards import write_shards
from tests.hub_server import serving

TASK = "zeroshot_classification"
MODEL = Model(architecture="ViT-B-32", weights=Weights(tag="laion2b_s34b_b79k"))


@pytest.fixture
def shapes(tmp_path):
    place = tmp_path / "server" / "shapes"
    drawn = pictures(6, seed=1)
    write_shards(place / "test", [{"jpg": one.file, "cls": one.label_text} for one in drawn])
    (place / "classnames.txt").write_text("a\nb\nc\nd\ne\nf\n")
    (place / "zeroshot_classification_templates.txt").write_text("a photo of {c}\n")
    return place


class Handler(SimpleHTTPRequestHandler):
    """Serves files, counts them, and fails as it is told."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.server.failures:
            failure = self.server.failures.pop()
            if failure == "cut":
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                self.wfile.write(b"beginning")
            else:
                self.send_error(failure)
            return
        super().do_GET()

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def server(shapes, monkeypatch):
    monkeypatch.setattr(fetching.time, "sleep", lambda _: None)
    handler = functools.partial(Handler, directory=str(shapes.parent))
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running.asked, running.failures = [], []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def source_at(server, name="wds/vtab/shapes", folder="shapes"):
    address = f"http://127.0.0.1:{server.server_port}/{folder}"
    return Source(name=name, kind="url", address=address, layout="webdataset")


class TestServer:
    def test_a_data_set_is_fetched_once_by_all_who_want_it(self, server, tmp_path):
        source, cache = source_at(server), tmp_path / "cache"
        with ThreadPoolExecutor(8) as many:
            places = set(many.map(lambda _: fetch(source, ("test",), cache), range(16)))
        (place,) = places
        assert place.parent == cache / "webdataset"
        assert server.asked.count("/shapes/test/0.tar") == 1
        assert len(open_split(source, "test", TASK, cache).samples) == 6

    def test_two_data_sets_of_one_name_have_directories_of_their_own(self, server, tmp_path):
        one, other = source_at(server), source_at(server, folder="other/shapes")
        assert local_directory(one, tmp_path) != local_directory(other, tmp_path)

    @pytest.mark.parametrize("failure", [500, 503, "cut"])
    def test_a_failure_that_passes_is_no_matter(self, server, tmp_path, failure):
        server.failures = [failure, failure]
        fetch(source_at(server), ("test",), tmp_path)
        assert len(open_split(source_at(server), "test", TASK, tmp_path).samples) == 6

    def test_a_transfer_that_is_always_cut_leaves_nothing_behind(self, server, tmp_path):
        server.failures = ["cut"] * 30
        with pytest.raises(DataError, match=r"/shapes/\w+\.txt could not"):
            fetch(source_at(server), ("test",), tmp_path)
        directory = local_directory(source_at(server), tmp_path)
        assert not [file for file in directory.rglob("*") if file.is_file()]

    def test_a_split_that_is_not_there_is_an_error(self, server, tmp_path):
        with pytest.raises(DataError, match="404"):
            fetch(source_at(server), ("val",), tmp_path)

    def test_a_server_that_is_away_is_an_error(self, server, tmp_path):
        source = source_at(server).model_copy(update={"address": "http://127.0.0.1:9/none"})
        with pytest.raises(DataError, match=r"127\.0\.0\.1:9/none/.* could not"):
            fetch(source, ("test",), tmp_path)

    def test_an_address_of_a_file_is_refused(self, tmp_path):
        source = Source(name="x", kind="url", address="file:///etc", layout="webdataset")
        with pytest.raises(DataError, match="no http"):
            fetch(source, ("test",), tmp_path)


class TestHub:
    @pytest.fixture
    def hub(self, tmp_path, monkeypatch, shapes):
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        with serving() as running:
            endpoint = f"http://127.0.0.1:{running.server_port}"
            template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, endpoint)
            monkeypatch.setattr(constants, "ENDPOINT", endpoint)
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
            files = {
                str(file.relative_to(shapes)): file.read_bytes()
                for file in shapes.rglob("*")
                if file.is_file()
            }
            running.datasets["clip-benchmark/wds_shapes"] = {"main": files}
            yield running

    def source(self, address="clip-benchmark/wds_shapes"):
        return Source(name="wds/shapes", kind="hub", address=address, layout="webdataset")

    def test_a_data_set_of_the_hub_is_fetched_and_read(self, hub, tmp_path):
        place = fetch(self.source(), ("test",), tmp_path)
        assert (place / "classnames.txt").read_text().startswith("a\n")
        assert len(open_split(self.source(), "test", TASK, tmp_path).samples) == 6

    def test_what_is_there_is_not_asked_for_again(self, hub, tmp_path):
        fetch(self.source(), ("test",), tmp_path)
        hub.fetched.clear()
        hub.datasets.clear()
        fetch(self.source(), ("test",), tmp_path)
        assert hub.fetched == []

    def test_a_name_that_the_hub_does_not_know_is_an_error(self, hub, tmp_path):
        with pytest.raises(DataError, match=r"wds_none: .*no such"):
            fetch(self.source("clip-benchmark/wds_none"), ("test",), tmp_path)

    def test_a_gated_data_set_says_what_to_do(self, hub, tmp_path):
        hub.refusals["clip-benchmark/wds_none"] = "GatedRepo"
        with pytest.raises(DataError, match="HF_TOKEN"):
            fetch(self.source("clip-benchmark/wds_none"), ("test",), tmp_path)

    def test_a_split_that_the_hub_lacks_is_an_error(self, hub, tmp_path):
        with pytest.raises(DataError, match="no split 'val'"):
            fetch(self.source(), ("val",), tmp_path)

    def test_a_hub_that_is_away_is_an_error(self, hub, tmp_path, monkeypatch):
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(DataError, match=r"wds_shapes could not"):
            fetch(self.source(), ("test",), tmp_path)


class TestRun:
    def cell(self, source):
        specification = ClipSpecification(model=MODEL, source=source, task=TASK)
        return Cell(
            suite="clip",
            scenario=source.name,
            variant=TASK,
            adapter="ViT-B-32",
            specification=specification.json_content(),
        )

    def test_a_data_set_is_fetched_once_for_all_cells_before_any_worker(self, server, tmp_path):
        cells = [self.cell(source_at(server))] * 3
        ClipSuite().fetch(cells, tmp_path, lambda _: None)
        assert server.asked.count("/shapes/test/1.tar") == 1

    def test_what_cannot_be_fetched_keeps_nothing_else_back(self, server, tmp_path):
        said: list[str] = []
        cells = [self.cell(source_at(server, folder=name)) for name in ("none", "shapes")]
        ClipSuite().fetch(cells, tmp_path, said.append)
        assert any("404" in text for text in said)
        assert len(open_split(source_at(server), "test", TASK, tmp_path).samples) == 6
