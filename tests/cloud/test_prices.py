"""The offers and prices that SkyPilot's own code finds in a known catalogue, offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
import trustme

from sky_rehearsal.world import CATALOGS
from skymark.execute.planner import load_profile, profile_paths

ROOT = Path(__file__).parents[2]
FETCHED = datetime(2026, 10, 3, 12, tzinfo=UTC)

GPU = """"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]}\""""
VAST = f"""\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region
1x-A100,A100,1,32,64.0,{GPU},0.76,0.00,"Bavaria, DE, EU"
1x-A100,A100,1,32,64.0,{GPU},0.80,0.00,"Georgia, US, NA"
1x-H100,H100,1,32,64.0,{GPU},1.87,0.00,"Texas, US, NA"
"""

COLUMNS = "AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice"
GCP = f"""\
InstanceType,vCPUs,MemoryGiB,{COLUMNS}
,,,tpu-v5litepod-4,1,tpu-v5litepod-4,us-west1,us-west1-c,4.8,
n1-highmem-8,8.0,52.0,,,,us-central2,us-central2-b,0.47321,0.09962
"""

pytestmark = pytest.mark.skipif(find_spec("sky") is None, reason="SkyPilot is not installed here")


PROGRAM = """
import contextlib, io, json, sys
from skymark.cli.main import main
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["cost", *json.loads(line)])
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def make_home(directory: Path) -> Path:
    """A home with a catalogue of three providers, and of one that is no more."""
    catalogue = directory / ".sky" / "catalogs" / "v8"
    shutil.copytree(CATALOGS, catalogue)
    for cloud, text in (("vast", VAST), ("gcp", GCP)):
        (catalogue / cloud).mkdir()
        (catalogue / cloud / "vms.csv").write_text(text)
    shutil.copytree(catalogue / "vast", catalogue / "bankrupt")  # SkyPilot knows no such cloud
    for path in catalogue.glob("*/*.csv"):
        os.utime(path, (FETCHED.timestamp(), FETCHED.timestamp()))
    return directory


HOST = "raw.githubusercontent.com"
"""Of SkyPilot's catalogues (sky.skylet.constants.HOSTED_CATALOG_DIR_URL)."""


class Mirror(BaseHTTPRequestHandler):
    """A proxy that answers for the host of SkyPilot's catalogues, with a certificate for it."""

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def do_GET(self) -> None:
        name = self.path.partition("/catalogs/v8/")[2]
        self.server.asked.append(name)
        content = (self.server.there / name).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextmanager
def hosted_catalogues(there: Path, place: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The host of SkyPilot's catalogues on loopback: the variables that lead there, what it gave.

    Args:
        there: its files.
        place: where its certificate goes.
    """
    authority, certificate = place / "authority.crt", place / "server.pem"
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(str(authority))
    issuer.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        server.there, server.asked = there, []
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(certificate)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.server_port}"
        yield {"HTTPS_PROXY": proxy, "REQUESTS_CA_BUNDLE": str(authority)}, server.asked
        server.shutdown()


@contextmanager
def commands(home: Path, **variables: str) -> Iterator[Callable[..., Done]]:
    """A process that runs `skymark cost` again and again: loading SkyPilot takes seconds.

    No network is behind it: a request to any would fail, and take the price with it.
    """
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    proxies = {**nowhere, **variables}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            **proxies,
            **{k.lower(): v for k, v in proxies.items()},
            "NO_PROXY": "",
            "no_proxy": "",
            "HOME": str(home),
        },
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(*arguments: str) -> Done:
        options = (*arguments, "--history", str(home / "none"))
        child.stdin.write(json.dumps(options) + "\n")
        child.stdin.flush()
        return Done(*json.loads(child.stdout.readline()))

    with child:
        yield run
        child.stdin.close()


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    with commands(make_home(tmp_path_factory.mktemp("home"))) as run:
        yield run


def estimate(cost, *arguments):
    done = cost(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def machines(found):
    keys = ("cloud", "region", "instance_type", "spot", "hourly_price_usd", "price_from")
    return [tuple(one[key] for key in keys) for one in found["offers"]]


LAMBDA = ("us-east-1", "us-west-1", "europe-central-1")


def test_every_alternative_of_a_machine_is_a_candidate_the_cheapest_first(cost):
    found = estimate(cost, "gpu_a100", "--deadline", "60m")
    assert machines(found) == [
        ("vast", "Bavaria, DE, EU", "1x-A100", False, 0.76, "catalogue"),
        ("vast", "Georgia, US, NA", "1x-A100", False, 0.80, "catalogue"),
        *(
            ("lambda", region, "gpu_1x_a100_sxm4", False, 1.29, "catalogue")
            for region in sorted(LAMBDA)
        ),
    ]
    billed_h = found["billed"]["high_s"] / 3600
    assert found["cost"]["high_usd"] == pytest.approx(0.76 * billed_h)
    assert found["offers"][-1]["cost"]["high_usd"] == pytest.approx(1.29 * billed_h)
    assert found["catalogue_date"] == "2026-10-03"


def test_a_spot_price_of_0_is_no_price_and_counts_as_on_demand(cost):
    found = estimate(cost, "gpu_h100", "--infra", "vast", "--spot")
    assert machines(found) == [("vast", "Texas, US, NA", "1x-H100", True, 1.87, "on demand")]


def test_spot_machines_are_candidates_only_where_they_were_asked_for(cost):
    for profile in ("gpu_h100", "gpu_a100"):
        assert not any(one["spot"] for one in estimate(cost, profile)["offers"]), profile


def test_a_provider_without_spot_machines_has_no_candidate_for_them(cost):
    done = cost("gpu_h100", "--infra", "lambda", "--spot")
    assert done.returncode == 2
    assert re.search(r"\bno machine\b.*\blambda\b", done.stderr)


def test_a_tpu_has_its_price(cost):
    found = estimate(cost, "tpu_v5e")
    assert machines(found) == [("gcp", "us-west1", "TPU-VM", False, 4.8, "catalogue")]


def test_a_region_can_be_asked_for(cost):
    found = estimate(cost, "gpu_h100", "--infra", "lambda/us-west-1")
    assert machines(found) == [
        ("lambda", "us-west-1", "gpu_1x_h100_pcie", False, 2.49, "catalogue")
    ]


def test_every_machine_of_several_is_paid_for(cost):
    options = ("cluster_8xh100", "--infra", "lambda", "--deadline", "60m", "--num-nodes")
    one, two = (estimate(cost, *options, nodes) for nodes in ("1", "2"))
    assert one["offers"][0]["hourly_price_usd"] == 23.92
    assert two["cost"]["high_usd"] == pytest.approx(2 * one["cost"]["high_usd"])


def test_a_cluster_of_ones_own_costs_nothing_that_is_known(cost):
    found = estimate(cost, "cluster_8xh100", "--infra", "slurm/mine")
    assert machines(found) == [("slurm", "mine", "own machine", False, 0.0, "own")]
    assert found["catalogue_date"] is None


def test_the_gate_lets_a_run_at_the_ceiling_through_and_stops_one_a_cent_above(cost):
    options = ("gpu_a100", "--deadline", "60m")
    high_usd = estimate(cost, *options)["cost"]["high_usd"]
    assert cost(*options, "--max-cost", f"{high_usd + 0.000001:.6f}").returncode == 0
    refused = cost(*options, "--max-cost", f"{high_usd - 0.01:.6f}")
    assert refused.returncode == 3
    assert "1x-A100 of vast" in refused.stderr
    assert "1x-A100" in refused.stdout  # the table is shown all the same


def test_the_gate_says_no_in_markdown_too(cost):
    refused = cost("tpu_v5e", "--format", "github", "--max-cost", "1")
    assert refused.returncode == 3
    assert re.match(r"### .*`tpu_v5e`\n\n❌ ", refused.stdout)


def test_without_a_catalogue_and_a_network_it_says_what_to_do(tmp_path):
    with commands(tmp_path) as cost:
        done = cost("gpu_a100")
    assert done.returncode == 2
    assert "no price catalogue" in done.stderr
    assert "raw.githubusercontent.com" in done.stderr
    assert "the same command" in done.stderr
    assert done.stdout == ""


def test_a_catalogue_that_is_not_there_is_fetched_once_and_leaves_nothing_running(tmp_path):
    there = make_home(tmp_path / "there") / ".sky" / "catalogs" / "v8"
    home = tmp_path / "here"
    home.mkdir()
    with hosted_catalogues(there, tmp_path) as (proxy, asked), commands(home, **proxy) as cost:
        first = cost("gpu_a100")
        found = estimate(cost, "gpu_a100")
    assert first.returncode == 0, first.stderr
    clouds = ("gcp", "lambda", "vast")
    for cloud in clouds:
        assert f"prices of {cloud} " in first.stderr
    assert {one["cloud"] for one in found["offers"]} == {"lambda", "vast"}
    assert sorted(asked) == [f"{cloud}/vms.csv" for cloud in clouds]
    assert not (home / ".sky" / "api_server").exists()


USERS = {"own_loader"}
"""Profiles without work of their own: a user names the loader."""
SHARED = [one for one in profile_paths() if load_profile(one).machine == "cluster-8xh100"]


@pytest.mark.parametrize("profile", sorted(profile_paths().keys() - SHARED - USERS))
def test_a_profile_is_expected_to_take_an_hour_and_two_dollars_at_most(cost, profile):
    found = estimate(cost, profile)
    assert found["billed"]["expected_s"] < 3600
    assert found["cost"]["expected_usd"] < 2
    said = cost(profile)
    assert said.stderr == ""  # nothing is above the profile's own ceiling
    assert said.stdout.startswith("Deadline ")


def test_one_h100_is_expected_to_take_twenty_minutes_and_85_cents_at_most(cost):
    """Machine, venvs, data, asking, imports, warm-up and verification of every round included."""
    found = estimate(cost, "gpu_h100")
    assert found["billed"]["expected_s"] <= 20 * 60
    assert found["cost"]["expected_usd"] <= 0.85


@pytest.mark.parametrize("profile", SHARED)
def test_eight_h100_are_expected_to_take_an_hour_at_most(cost, profile):
    found = estimate(cost, profile)
    assert found["billed"]["expected_s"] < 3600
    assert found["cost"]["high_usd"] < load_profile(profile).max_cost_usd


def test_everything_is_one_option_away_and_what_it_takes_is_said(cost):
    done = cost("gpu_h100", "--infra", "lambda", "--scenarios", "all", "--deadline", "9h")
    assert done.returncode == 0  # the ceiling is the gate of `skymark launch`
    assert re.search(r"\b2\.50 USD\b.*--max-cost\b.*--deadline\b", done.stderr)
    done = cost("gpu_h100", "--infra", "lambda", "--scenarios", "all", "--rounds", "5")
    assert re.search(r"\bdeadline\b.*\b30 min 0 s\b.*--deadline\b", done.stdout)


def test_a_provider_whose_catalogue_is_absent_is_named(cost):
    done = cost("gpu_h100", "--infra", "aws")
    assert done.returncode == 2
    assert "AWS" in done.stderr


def test_an_old_catalogue_is_read_as_it_is_and_left_as_it_is(tmp_path):
    prices = make_home(tmp_path) / ".sky" / "catalogs" / "v8" / "lambda" / "vms.csv"
    # As SkyPilot leaves a file that it fetched: unchanged since, and due to be fetched again.
    fetched = prices.parents[1] / ".meta" / "lambda" / "vms.csv.md5"
    fetched.parent.mkdir(parents=True)
    fetched.write_text(md5(prices.read_bytes()).hexdigest())
    with commands(tmp_path) as cost:
        found = estimate(cost, "gpu_h100", "--infra", "lambda")
    assert found["catalogue_date"] == "2026-10-03"
    assert prices.stat().st_mtime == FETCHED.timestamp()


@pytest.mark.parametrize("price", ["inf", "text"])
def test_a_price_that_is_no_amount_is_unknown_and_said(tmp_path, price):
    """In one region first, then in all."""
    prices = make_home(tmp_path) / ".sky" / "catalogs" / "v8" / "lambda" / "vms.csv"
    known = re.compile(r"^(gpu_1x_h100_pcie(?:,[^,]*){4},)[^,]*", re.MULTILINE)
    prices.write_text(known.sub(rf"\g<1>{price}", prices.read_text(), count=1))
    with commands(tmp_path) as cost:
        done = cost("gpu_h100", "--infra", "lambda")
        assert done.returncode == 0, done.stderr
        assert re.search(r"\bgpu_1x_h100_pcie\b.*\bus-east-1: .*\bcatalogue\b", done.stdout)
    prices.write_text(known.sub(rf"\g<1>{price}", prices.read_text()))
    with commands(tmp_path) as cost:
        done = cost("gpu_h100", "--infra", "lambda")
    assert done.returncode == 2
    assert re.search(r"\bgpu_1x_h100_pcie\b.*\bus-east-1\b.*\b2 more: .*catalogue", done.stderr)


def test_a_dry_run_of_workers_needs_no_machine_and_counts_all_gpus(tmp_path):
    make_home(tmp_path)
    words = ("clip", "submit", "--profile", "clip_8xh100", "--models", "ViT-B-*", "--datasets")
    done = subprocess.run(
        [sys.executable, "-m", "skymark", *words, "all", "--dry-run", "--max-cost", "100"],
        env={**os.environ, "HOME": str(tmp_path), "HTTPS_PROXY": "http://127.0.0.1:9"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\bcheapest\b.*\bclip_8xh100\b", done.stderr)
    assert re.search(r"\b8\b.*\b8 H100\b.*\b50 workers\b.*\bamp\b", done.stdout)
    assert "most 100.00 USD" in done.stdout


def test_the_page_for_newcomers_shows_what_cost_says(cost):
    page = (ROOT / "docs" / "start" / "run-on-a-rented-gpu.md").read_text("utf-8")
    (shown,) = re.findall(
        r"```sh\nskymark cost gpu_a100\n```\n\n```text\n(.*?)```", page, re.DOTALL
    )
    done = cost("gpu_a100", "--infra", "lambda")
    assert " ".join(shown.split()) in " ".join(done.stdout.split())
