"""A bucket as a store: against a real server, and through a proxy that goes wrong."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.store.bucket.address import bucket_address
from skymark.store.bucket.store import PROBE, BucketStore, list_runs, open_bucket
from skymark.store.kinds import open_store
from tests.stores.faulty_proxy import faulty_proxy
from tests.stores.s3_server import KEY_ID, SECRET, s3_server

BUCKET = "results"
RECORD = "records/TAB-1.small.numpy.json"
LOG = "logs/TAB-1.small.numpy.log"


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def proxy(server):
    with faulty_proxy(server.endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch, server, tmp_path):
    """The server's variables and nothing of this machine's own."""
    for name in (
        *("R2_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "AWS_PROFILE"),
        *("AWS_SESSION_TOKEN", "AWS_CHECKSUM_ALGORITHM", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def prefix():
    """A prefix of the test's own; the bucket is shared."""
    return f"s3://{BUCKET}/{uuid4().hex}"


@pytest.fixture
def store(prefix):
    opened = open_bucket(prefix, "run-1")
    yield opened
    opened.close()


@pytest.fixture
def faulty(proxy, prefix, monkeypatch):
    """The same store through the proxy, with time for each answer."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    opened = BucketStore(open_bucket(prefix, "run-1").address, answer_s=60)
    yield opened
    opened.close()


def without_keys(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)


def refusal_of(call):
    with pytest.raises(StoreRefusedError) as caught:
        call()
    return str(caught.value)


def unavailability_of(call):
    with pytest.raises(StoreUnavailableError) as caught:
        call()
    return str(caught.value)


# Reading and writing


def test_a_store_opened_by_its_address_gives_back_what_was_put(prefix):
    store = open_store(prefix, "run-1")
    store.put(LOG, b"a line")
    assert store.url == f"{prefix}/run-1"
    assert store.get(LOG) == b"a line"
    store.close()


def test_a_checked_bucket_holds_nothing_of_the_check(store):
    store.check()
    assert list(store._client.list().collect()) == []


def test_names_with_unusual_characters_come_back_as_they_were(store):
    path = "logs/CV-1.small.grain@0.2 ~%25*#+=.log"
    store.put(path, b"x")
    assert store.get(path) == b"x"
    assert store.sizes() == {path: 1}


def test_a_missing_file_is_not_found_and_its_deletion_is_no_error(store):
    with pytest.raises(FileNotFoundError, match=r"run-1/logs/none\.log"):
        store.get("logs/none.log")
    store.delete("logs/none.log")


def test_a_deleted_file_is_gone(store):
    store.put(LOG, b"x")
    store.delete(LOG)
    assert store.sizes() == {}


def test_a_file_beyond_the_limit_is_not_read(store, monkeypatch):
    store.put(LOG, b"eleven byte")
    monkeypatch.setattr("skymark.store.bucket.store.LARGEST_FILE_BYTES", 10)
    assert "has 11 bytes" in refusal_of(lambda: store.get(LOG))


def test_sizes_are_of_this_run_only_by_path_in_it(store, prefix):
    neighbour = open_bucket(prefix, "run-12")
    neighbour.put(LOG, b"x")
    store.put(LOG, b"xyz")
    store.put("manifest.json", b"{}")
    store.put(f"{PROBE}left-behind", b"")
    assert store.sizes() == {LOG: 3, "manifest.json": 2}
    neighbour.close()


def test_all_pages_of_a_long_listing_are_read(server, store):
    keys = [f"{store.address.prefix}/records/{number}.json" for number in range(2500)]
    server.fill(BUCKET, dict.fromkeys(keys, b"four"))
    assert store.sizes() == {f"records/{number}.json": 4 for number in range(2500)}


@pytest.mark.parametrize("name", ["logs/../../other", "logs//x.log", "./x", "bell\a"])
def test_a_name_that_leads_elsewhere_is_refused_with_the_name(server, store, name):
    server.put_object(BUCKET, f"{store.address.prefix}/{name}", b"x")
    message = refusal_of(store.sizes)
    assert store.address.prefix in message
    assert "remove it" in message


def test_many_threads_may_use_a_store_at_a_time(store):
    with ThreadPoolExecutor(store.parallel) as pool:
        list(pool.map(lambda n: store.put(f"logs/{n}.log", b"%d" % n), range(40)))
        assert list(pool.map(lambda n: store.get(f"logs/{n}.log"), range(40))) == [
            b"%d" % n for n in range(40)
        ]


def test_a_closed_store_leaves_no_thread(store):
    store.put(LOG, b"x")
    (thread,) = [t for t in threading.enumerate() if t.name == "bucket-calls"]
    store.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_store_that_is_closed_gives_up_what_is_under_way(faulty, proxy):
    patient = BucketStore(faulty.address)
    proxy.stay_silent()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(patient.get, LOG)
        proxy.wait_for_requests(1)
        patient.close()
        assert "was closed" in unavailability_of(lambda: reading.result(60))
    assert "was closed" in unavailability_of(lambda: patient.get(LOG))


def test_runs_are_named_by_their_manifests(prefix):
    for name in ("run-b", "run-a", "no-run"):
        one = open_bucket(prefix, name)
        one.put("logs/x.log" if name == "no-run" else "manifest.json", b"{}")
        one.close()
    assert list_runs(prefix) == ["run-a", "run-b"]
    assert list_runs(f"{prefix}/nothing") == []


# Two writers of one record


def test_the_same_record_may_be_put_again_and_another_one_replaces_it(store):
    for data in (b"one", b"one", b"two"):
        store.put(RECORD, data)
        assert store.get(RECORD) == data


def test_a_writer_never_replaces_a_record_that_it_has_not_read(store, faulty, proxy):
    store.put(RECORD, b"first")
    proxy.delay(20, method="GET", times=1)
    with ThreadPoolExecutor(1) as pool:
        patient = BucketStore(faulty.address)
        putting = pool.submit(patient.put, RECORD, b"ours")
        proxy.wait_for_requests(2)  # refused as the first, now reading what is there
        proxy.delay(20, method="PUT", times=1)
        proxy.wait_for_requests(3)  # about to replace what it read
        store.put(RECORD, b"theirs, written in between")
        proxy.heal()
        putting.result()
        patient.close()
    conditions = [
        (seen.method, "create" if seen.header("if-none-match") else seen.header("if-match"))
        for seen in proxy.requests
    ]
    tags = [tag for method, tag in conditions if method == "PUT"]
    assert [method for method, _ in conditions] == ["PUT", "GET", "PUT", "GET", "PUT"]
    assert tags[0] == "create"
    assert tags[1] != tags[2]
    assert store.get(RECORD) == b"ours"


def test_of_many_writers_each_is_done_and_one_record_is_whole(store):
    records = [b"%d" % number * 20_000 for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda data: store.put(RECORD, data), records))
    assert store.get(RECORD) in records


def test_a_server_without_conditions_is_written_without(store, faulty, proxy):
    proxy.answer(501, method="PUT", times=2)
    faulty.put(RECORD, b"x")
    assert proxy.requests[-1].header("if-none-match") is None
    assert store.get(RECORD) == b"x"


# What goes wrong on the way


def test_one_broken_answer_is_borne(faulty, proxy):
    proxy.answer(500, times=1)
    faulty.put(LOG, b"x")
    assert faulty.get(LOG) == b"x"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_server_is_unavailable(faulty, proxy, status):
    proxy.answer(status)
    for call in (faulty.check, faulty.sizes, lambda: faulty.put(RECORD, b"x")):
        message = unavailability_of(call)
        assert f"{faulty.url} ({proxy.endpoint}) answered {status}" in message
        assert "try again later" in message
    proxy.heal()
    faulty.check()


def test_a_forbidden_bucket_is_refused_with_what_to_allow(faulty, proxy):
    proxy.answer(403)
    for call in (faulty.check, faulty.sizes, lambda: faulty.get(LOG), lambda: faulty.delete(LOG)):
        message = refusal_of(call)
        assert " 403 AccessDenied: " in message


@pytest.mark.parametrize(
    ("method", "path"), [("GET", PROBE), ("DELETE", PROBE), ("GET", "list-type")]
)
def test_a_check_notices_each_permission_that_lacks(faulty, proxy, method, path):
    proxy.answer(403, method=method, path=path)
    refusal_of(faulty.check)


@pytest.mark.parametrize(
    ("status", "code", "action"),
    [
        (403, "RequestTimeTooSkewed", "machine's clock"),
        (403, "SignatureDoesNotMatch", "check AWS_ACCESS_KEY_ID"),
        (400, "ExpiredToken", "renew the credentials"),
        (400, "AuthorizationHeaderMalformed", "set AWS_REGION"),
        (301, "PermanentRedirect", "set AWS_REGION"),
    ],
)
def test_each_refusal_says_what_to_do_and_no_secret(faulty, proxy, status, code, action):
    told = f"<Message>of {SECRET} and {KEY_ID}</Message><StringToSign>{SECRET}</StringToSign>"
    proxy.answer(status, f"<Error><Code>{code}</Code>{told}</Error>".encode())
    message = refusal_of(faulty.check)
    assert action in message
    assert SECRET not in message
    assert KEY_ID not in message


def test_a_server_that_timed_out_itself_is_unavailable_though_it_says_400(faulty, proxy):
    proxy.answer(400, b"<Error><Code>RequestTimeout</Code></Error>")
    unavailability_of(lambda: faulty.put(LOG, b"x"))


def test_what_is_no_s3_server_is_refused(faulty, proxy):
    proxy.answer(404, b"<html>no such page</html>")
    assert "S3 endpoint?" in refusal_of(faulty.check)


def test_a_closed_port_is_unavailable_until_it_opens(faulty, proxy):
    faulty.put(LOG, b"x")
    proxy.refuse()
    assert "Connection refused" in unavailability_of(lambda: faulty.get(LOG))
    proxy.heal()
    assert faulty.get(LOG) == b"x"


def test_an_unknown_host_is_unavailable_and_named(monkeypatch, prefix):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nowhere.invalid:9000")
    store = open_bucket(prefix, "run-1")
    message = unavailability_of(lambda: store.get(LOG))
    assert "http://nowhere.invalid:9000)" in message
    assert "lookup" in message
    store.close()


def test_a_server_that_never_answers_holds_no_call_longer_than_stated(faulty, proxy):
    faulty.put(LOG, b"x")
    proxy.stay_silent()
    hasty = BucketStore(faulty.address, answer_s=0.3)
    for call in (
        hasty.check,
        hasty.sizes,
        lambda: hasty.put(RECORD, b"x"),
        lambda: hasty.get(LOG),
        lambda: hasty.delete(LOG),
    ):
        started = time.monotonic()
        assert "in time" in unavailability_of(call)
        assert 0.3 <= time.monotonic() - started < 25
    hasty.close()
    proxy.heal()
    assert faulty.get(LOG) == b"x"


def test_a_slow_server_is_waited_for(faulty, proxy):
    proxy.delay(0.2)
    faulty.put(LOG, b"x")
    assert faulty.get(LOG) == b"x"


def test_an_upload_cut_in_the_middle_leaves_nothing_and_is_sent_again(store, faulty, proxy):
    data = bytes(1 << 20)
    proxy.cut_uploads()
    unavailability_of(lambda: faulty.put("samples/x.parquet", data))
    assert store.sizes() == {}
    proxy.cut_uploads(times=1)
    faulty.put("samples/x.parquet", data)
    assert store.get("samples/x.parquet") == data


def test_a_record_whose_upload_was_cut_leaves_the_one_before(store, faulty, proxy):
    store.put(RECORD, b"before")
    proxy.cut_uploads(after_bytes=1000)
    unavailability_of(lambda: faulty.put(RECORD, bytes(100_000)))
    assert store.get(RECORD) == b"before"


def test_a_missing_bucket_is_refused_with_the_command_that_makes_it(server):
    for call in (
        open_bucket("s3://absent/x", "run-1").check,
        open_bucket("s3://absent/x", "run-1").sizes,
        lambda: open_bucket("s3://absent/x", "run-1").get(LOG),
        lambda: list_runs("s3://absent/x"),
    ):
        message = refusal_of(call)
        assert f" s3://absent --endpoint-url {server.endpoint}" in message


def test_no_checksum_goes_with_an_upload_that_some_servers_refuse(faulty, proxy):
    faulty.put(LOG, b"x")
    (request,) = proxy.requests
    names = [line.partition(b":")[0].lower().decode() for line in request.lines[1:]]
    assert not [name for name in names if "checksum" in name or name == "x-amz-trailer"]
    assert request.header("content-encoding") is None


# Where, and as whom


def test_r2_is_its_endpoint_with_region_auto_whatever_aws_is_set_to(server, monkeypatch):
    monkeypatch.setenv("R2_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    store = open_bucket(f"s3://{BUCKET}/r2", "run-1")
    assert store.address.region == "auto"
    store.check()
    store.close()


@pytest.mark.parametrize(
    ("variables", "endpoint", "region"),
    [
        ({}, None, "us-east-1"),
        ({"AWS_ENDPOINT_URL": "", "R2_ENDPOINT_URL": ""}, None, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, None, "eu-west-1"),
        ({"AWS_ENDPOINT_URL": "https://minio:9000/"}, "https://minio:9000", "us-east-1"),
        (
            {"AWS_ENDPOINT_URL": "https://a.r2.cloudflarestorage.com/b", "AWS_REGION": "eu"},
            "https://a.r2.cloudflarestorage.com",
            "auto",
        ),
        (
            {"AWS_ENDPOINT_URL": "https://one", "AWS_ENDPOINT_URL_S3": "https://two"},
            "https://two",
            "us-east-1",
        ),
    ],
)
def test_an_address_is_read_from_the_environment(variables, endpoint, region):
    address = bucket_address("s3://b/some/prefix/", variables)
    assert (address.url, address.endpoint, address.region) == (
        "s3://b/some/prefix",
        endpoint,
        region,
    )


def test_an_endpoint_variable_that_is_empty_leads_to_aws(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    store = open_bucket("s3://b", "run-1")
    assert store._client.config["endpoint"] == "https://s3.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///x", "s3:b/x", "s3://b/../c", "s3://b/x//y", "s3://b/x?y=z", "s3://b:1/"]
)
def test_an_address_without_a_bucket_is_refused(url):
    with pytest.raises(UsageError, match="names no bucket"):
        bucket_address(url, {})


@pytest.mark.parametrize("endpoint", ["minio:9000", "ftp://minio", "https://", "http://h:port"])
def test_an_endpoint_that_is_none_is_refused_by_its_variable(endpoint):
    with pytest.raises(UsageError, match=r"^AWS_ENDPOINT_URL .*https://HOST"):
        bucket_address("s3://b", {"AWS_ENDPOINT_URL": endpoint})


def test_credentials_in_an_address_are_refused_and_not_shown():
    with pytest.raises(UsageError) as caught:
        bucket_address("s3://id:secret@b/x", {})
    assert "secret@" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        bucket_address("s3://b", {"AWS_ENDPOINT_URL": "https://id:secret@host"})
    assert "secret" not in str(caught.value)


def test_the_command_that_makes_a_bucket_fits_the_server():
    r2 = bucket_address("s3://b", {"R2_ENDPOINT_URL": "https://a.r2.cloudflarestorage.com"})
    assert r2.how_to_make == "npx wrangler r2 bucket create b"
    aws = bucket_address("s3://b", {"AWS_REGION": "eu-west-1"})
    assert aws.how_to_make == "aws s3 mb s3://b --region eu-west-1"


def test_a_machine_without_credentials_is_refused_at_the_check(store, proxy, monkeypatch, prefix):
    without_keys(monkeypatch)
    proxy.refuse()
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", proxy.endpoint)
    bare = open_bucket(prefix, "run-1")
    refused = refusal_of(bare.check)
    assert "no credentials" in refused
    assert "AWS_ACCESS_KEY_ID" in refused
    bare.close()


def test_a_key_that_is_empty_is_named(store, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    assert refusal_of(store.check).startswith("AWS_SECRET_ACCESS_KEY is ")


def test_a_profile_gives_keys_and_region(proxy, prefix, monkeypatch, tmp_path):
    without_keys(monkeypatch)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    keys = "aws_access_key_id = KEY-OF-LAB\naws_secret_access_key = any"
    (tmp_path / "credentials").write_text(f"[lab]\n{keys}\n")
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-west-3\n")
    store = open_bucket(prefix, "run-1")
    store.check()
    store.close()
    assert "KEY-OF-LAB/" in proxy.requests[0].header("authorization")
    assert "/eu-west-3/s3/" in proxy.requests[0].header("authorization")


def test_a_profile_that_is_not_there_is_refused_in_boto3s_words(prefix, monkeypatch):
    without_keys(monkeypatch)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    store = open_bucket(prefix, "run-1")
    assert "profile (lab)" in refusal_of(store.check)
    store.close()


def test_a_profile_without_boto3_is_refused_with_what_is_missing(prefix, monkeypatch):
    without_keys(monkeypatch)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setitem(sys.modules, "boto3", None)
    store = open_bucket(prefix, "run-1")
    assert "pip install boto3" in refusal_of(store.check)


def test_without_obstore_a_bucket_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UsageError, match=r"uv pip install .*\[bucket\]"):
        open_store("s3://b", "run-1")
