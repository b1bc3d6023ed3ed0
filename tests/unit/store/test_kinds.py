"""Kinds of stores: each declared once, found by its scheme, and added by another package."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import pytest

from skymark.model.errors import UsageError
from skymark.store.fetching import fetch
from skymark.store.kinds import (
    ClientLibrary,
    StoreKind,
    default_urls,
    is_address,
    kind_of,
    known_addresses,
    open_source,
    open_store,
    runs_at,
)
from skymark.store.upload import Upload
from tests.stores.installed import ZIP_STORE, install, install_zip_store, packages_in

KEY = {"WANDB_API_KEY": "w"}
EVERYTHING = {
    **KEY,
    "WANDB_PROJECT": "p",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_REGION": "",
    "R2_ENDPOINT_URL": "https://r2",
    "HOME": "/root",
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory of installed packages of the test's own."""
    with packages_in(tmp_path / "site", monkeypatch) as site:
        yield site


def test_a_kind_of_another_package_is_written_read_back_fetched_and_listed(
    site, directory, tmp_path
):
    install_zip_store(site)
    address = f"zip://{tmp_path}"
    with closing(open_store(address, "run-1")) as store:
        store.check()
        upload = Upload(store, directory)
        assert upload.drain(60) == []
        upload.stop()
        assert " 6 files" in store.complete(directory)
    assert runs_at(address) == ["run-1"]
    with closing(open_source(f"{address}/run-1")) as source:
        assert fetch(source, tmp_path / "back") == []
    for path in store.sizes():
        assert (tmp_path / "back" / path).read_bytes() == (directory / path).read_bytes()


def test_a_kind_of_another_package_is_known_wherever_the_built_in_ones_are(site):
    install_zip_store(site)
    assert known_addresses().endswith("zip:///DIRECTORY")
    with pytest.raises(UsageError, match=r"known are .*zip:///DIRECTORY/RUN-ID"):
        open_source("gopher://x")
    variables = {"ZIP_STORE": "zip:///mnt", "HOME": "/root"}
    assert default_urls(variables) == ("zip:///mnt",)
    kind = kind_of("zip:///mnt")
    assert kind.secrets(variables) == {"ZIP_STORE": "zip:///mnt"}
    assert kind.outlives_machine
    assert not kind.leaves_machine(variables)
    assert kind.leaves_machine({"ZIP_MOUNTED": "yes"})


@pytest.mark.parametrize("scheme", ["zip", "s3"])
def test_a_scheme_that_two_packages_have_is_refused_with_both(site, scheme):
    install_zip_store(site)
    install(site, "other", f"{scheme} = other:KIND")
    with pytest.raises(UsageError, match=rf"'{scheme}': \S+ and \S+;"):
        kind_of("wandb")


@pytest.mark.parametrize(
    ("entry", "module", "said"),
    [
        ("zip = absent:ZIP", None, r"\(absent:ZIP\) does not load: No module named 'absent'"),
        ("zip = zip_store:NONE", ZIP_STORE, "does not load"),
        ("zip = zip_store:ZipStore", ZIP_STORE, r"zip_store:ZipStore .*StoreKind .*'zip'"),
        ("tar = zip_store:ZIP", ZIP_STORE, r"zip_store:ZIP .*StoreKind .*'tar'"),
    ],
)
def test_a_package_that_does_not_keep_its_word_is_named(site, entry, module, said):
    install(site, "broken", entry, module)
    with pytest.raises(UsageError, match=said):
        kind_of(entry.partition(" ")[0])


def test_a_store_whose_client_is_not_installed_is_refused_with_the_command(tmp_path):
    kind = StoreKind(
        scheme="far",
        address="far://PLACE",
        opener=lambda *_: pytest.fail("it was opened"),
        lister=lambda _: pytest.fail("it was listed"),
        outlives_machine=True,
        leaves_machine=lambda _: True,
        client=ClientLibrary("no_such_client", lambda: "pip install far"),
    )
    for use in (lambda: kind.open("far://x", "r"), lambda: kind.open_run("far://x/r")):
        with pytest.raises(UsageError, match="pip install far"):
            use()
    with pytest.raises(UsageError, match="pip install far"):
        kind.list_runs("far://x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wandb", True),
        ("s3://bucket", True),
        ("gopher://x", True),  # so that the message names the stores
        ("results/figures.csv", False),
        ("", False),
    ],
)
def test_an_address_is_told_from_a_file_s_name(text, expected):
    assert is_address(text) is expected


@pytest.mark.parametrize("url", ["s3://bucket", "file:///", "wandb://entity/project"])
def test_an_address_that_names_no_run_is_refused_with_the_form(url):
    with pytest.raises(UsageError, match=r"RUN-ID|ABSOLUTE"):
        open_source(url)


@pytest.mark.parametrize(
    ("url", "expected"), [("s3://b", True), ("file:///mnt", False), ("wandb", False)]
)
def test_a_managed_job_goes_on_from_what_is_on_no_machine_of_its_own(url, expected):
    assert kind_of(url).outlives_machine is expected


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("s3://b", {}, True),
        ("file:///mnt", {}, False),
        ("wandb", {}, False),
        ("wandb", KEY, True),
        ("wandb", KEY | {"WANDB_MODE": "online"}, True),
        ("wandb", KEY | {"WANDB_MODE": "offline"}, False),
        ("wandb", KEY | {"WANDB_MODE": "dryrun"}, False),
        ("wandb", KEY | {"WANDB_MODE": "disabled"}, False),
    ],
)
def test_results_leave_a_machine_where_its_variables_let_them(url, variables, expected):
    assert kind_of(url).leaves_machine(variables) is expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ()),
        ({"WANDB_API_KEY": ""}, ()),
        (KEY, ("wandb",)),
        (KEY | {"WANDB_MODE": "offline"}, ("wandb",)),
        (KEY | {"WANDB_MODE": "disabled"}, ()),
    ],
)
def test_w_and_b_is_used_by_default_where_its_key_is_set(variables, expected):
    assert default_urls(variables) == expected


def test_a_machine_is_sent_the_variables_of_its_stores_and_no_others():
    assert kind_of("wandb").secrets(EVERYTHING) == {"WANDB_API_KEY": "w", "WANDB_PROJECT": "p"}
    assert kind_of("s3://b").secrets(EVERYTHING) == {
        "AWS_ACCESS_KEY_ID": "a",
        "R2_ENDPOINT_URL": "https://r2",
    }
    assert kind_of("file:///mnt").secrets(EVERYTHING) == {}


def test_w_and_b_s_variables_stay_here_without_a_key():
    assert kind_of("wandb").secrets({"WANDB_PROJECT": "p", "WANDB_API_KEY": ""}) == {}


def test_no_client_is_loaded_to_know_the_kinds():
    program = (
        "import json, sys\n"
        "from skymark.store.kinds import default_urls, known_addresses\n"
        "default_urls({'WANDB_API_KEY': 'k'}), known_addresses()\n"
        "print(json.dumps(list(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = json.loads(done.stdout)
    assert "skymark.store.bucket.address" in loaded
    assert not {"obstore", "wandb", "boto3", "asyncio", "psutil"} & set(loaded)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/prefix?token=abc", "names no bucket"),
        ("s3://bucket/prefix#abc", "names no bucket"),
        ("s3://user:abc@bucket/prefix", "holds credentials"),
    ],
)
def test_an_address_with_a_key_in_it_is_refused_wherever_a_store_is_named(address, said):
    for asked in (kind_of, open_source, lambda url: open_store(url, "run")):
        with pytest.raises(UsageError, match=said):
            asked(address)
