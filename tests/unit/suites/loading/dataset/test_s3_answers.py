"""The object server answers what a client of S3 asks of a bucket; boto3 is the client."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from skymark.suites.loading.dataset import object_server
from skymark.suites.loading.dataset.objects import ObjectStore, serving

OBJECTS = {
    "0000/a.bin": b"first",
    "0000/b & c.bin": b"second",
    "0001/a.bin": b"",
    "0001/z.bin": bytes(range(256)),
}


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    for key, content in OBJECTS.items():
        path = tmp_path / "served" / "dataset" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.bin").write_bytes(b"not for you")
    return tmp_path / "served" / "dataset"


@pytest.fixture
def store(bucket: Path) -> Iterator[ObjectStore]:
    with serving(bucket.parent, latency_ms=0.0, bandwidth_mb_s=1000.0) as store:
        yield store


@pytest.fixture
def client(store: ObjectStore) -> Iterator[Any]:
    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, proxies={})
    client = boto3.client("s3", "us-east-1", endpoint_url=store.url, config=config)
    yield client
    client.close()


def refused(call: Callable[[], object]) -> str:
    """Return the code that a call is refused with."""
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def test_a_bucket_is_listed_in_the_order_of_its_keys(client):
    listed = client.list_objects_v2(Bucket="dataset")
    assert {one["Key"]: one["Size"] for one in listed["Contents"]} == {
        key: len(content) for key, content in OBJECTS.items()
    }
    assert [one["Key"] for one in listed["Contents"]] == sorted(OBJECTS)
    assert listed["KeyCount"] == len(OBJECTS)
    assert not listed["IsTruncated"]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1000])
def test_pages_of_any_size_have_every_object_once(client, size):
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="dataset", PaginationConfig={"PageSize": size}
    )
    found = [[one["Key"] for one in page["Contents"]] for page in pages]
    assert list(chain(*found)) == sorted(OBJECTS)
    assert all(len(page) <= size for page in found)


def test_a_page_of_no_keys_is_empty_and_the_last(client):
    listed = client.list_objects_v2(Bucket="dataset", MaxKeys=0)
    assert (listed["KeyCount"], listed["IsTruncated"]) == (0, False)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_prefix_chooses_the_keys_that_begin_with_it(client, size):
    def keys(prefix: str) -> list[str]:
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket="dataset", Prefix=prefix, PaginationConfig={"PageSize": size}
        )
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    assert keys("0000/") == ["0000/a.bin", "0000/b & c.bin"]
    assert keys("0001/z") == ["0001/z.bin"]
    assert keys("0002/") == []


def test_no_page_is_longer_than_s3_makes_them(bucket, monkeypatch):
    monkeypatch.setattr(object_server, "MOST_KEYS", 2)
    page = object_server.listing(bucket, {"list-type": "2", "max-keys": "1000"})
    assert page.count(b"<Key>") == 2
    assert b"<IsTruncated>true</IsTruncated>" in page


def test_objects_are_got_whole_and_by_range(client):
    assert client.get_object(Bucket="dataset", Key="0000/b & c.bin")["Body"].read() == b"second"
    part = client.get_object(Bucket="dataset", Key="0001/z.bin", Range="bytes=10-19")
    assert part["Body"].read() == bytes(range(10, 20))
    assert part["ContentRange"] == "bytes 10-19/256"


def test_an_object_has_one_tag_in_lists_and_answers_until_it_changes(client, bucket):
    def tags() -> set[str]:
        listed = client.list_objects_v2(Bucket="dataset", Prefix="0000/a.bin")["Contents"]
        asked = client.head_object(Bucket="dataset", Key="0000/a.bin")
        got = client.get_object(Bucket="dataset", Key="0000/a.bin")
        assert listed[0]["LastModified"] == asked["LastModified"] == got["LastModified"]
        return {listed[0]["ETag"], asked["ETag"], got["ETag"]}

    before = tags()
    assert len(before) == 1
    (bucket / "0000" / "a.bin").write_bytes(b"another")
    assert tags().isdisjoint(before)


def test_what_is_refused_is_named_as_s3_names_it(client):
    assert refused(lambda: client.get_object(Bucket="dataset", Key="nothing")) == "NoSuchKey"
    assert refused(lambda: client.head_object(Bucket="dataset", Key="nothing")) == "404"
    beyond = {"Bucket": "dataset", "Key": "0000/a.bin", "Range": "bytes=5-"}
    assert refused(lambda: client.get_object(**beyond)) == "InvalidRange"
    grouped = {"Bucket": "dataset", "Delimiter": "/"}
    assert refused(lambda: client.list_objects_v2(**grouped)) == "NotImplemented"
    assert refused(lambda: client.list_objects(Bucket="dataset")) == "NotImplemented"


def test_a_range_of_an_empty_object_is_refused_with_its_size(client):
    with pytest.raises(ClientError) as caught:
        client.get_object(Bucket="dataset", Key="0001/a.bin", Range="bytes=0-99")
    assert caught.value.response["Error"]["ActualObjectSize"] == "0"


@pytest.mark.parametrize("bucket_name", ["../secret", "%2e%2e/secret", "nothing"])
def test_only_folders_of_the_directory_are_buckets(store, bucket_name):
    connection = http.client.HTTPConnection(store.url.removeprefix("http://"))
    connection.request("GET", f"/{bucket_name}?list-type=2")
    response = connection.getresponse()
    assert response.status == 404
    assert b"key.bin" not in response.read()
    connection.close()


def test_lists_are_counted_and_refusals_are_not(client, store):
    client.get_object(Bucket="dataset", Key="0000/a.bin")["Body"].read()
    refused(lambda: client.get_object(Bucket="dataset", Key="nothing"))
    assert store.sent_bytes() == len(OBJECTS["0000/a.bin"])
    client.list_objects_v2(Bucket="dataset")
    assert store.sent_bytes() > len(OBJECTS["0000/a.bin"]) + 100 * len(OBJECTS)
