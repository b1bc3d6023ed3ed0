"""Answers in S3's words: pages of a bucket's objects, and why something is refused.

A bucket is a folder, its objects are the files below it. Lists are those of ListObjectsV2 (Amazon
S3 API reference, 2006-03-01) without groups of keys, which no reader of data sets asks for.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from xml.etree import ElementTree as ET

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
MOST_KEYS = 1000
"""Of one page, however many are asked for."""

ERROR_CODES = {
    HTTPStatus.NOT_FOUND: "NoSuchKey",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "InvalidRange",
    HTTPStatus.NOT_IMPLEMENTED: "NotImplemented",
}


def entity_tag(status: os.stat_result) -> str:
    """Return a file's entity tag, another one when it has changed."""
    return f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def listing(bucket: Path, query: Mapping[str, str]) -> bytes:
    """Return one page of a bucket's objects, in the order of their keys.

    Args:
        bucket: its folder, whose files do not change.
        query: ``prefix``, ``max-keys``, and ``continuation-token`` of the page before, each of
            which may be left out.

    Raises:
        ValueError: something else is asked for.
    """
    if query.get("list-type") != "2" or query.get("delimiter"):
        raise ValueError(f"only a plain ListObjectsV2 is answered, not {dict(query)}")
    prefix, token = query.get("prefix", ""), query.get("continuation-token", "")
    most = min(int(query.get("max-keys", MOST_KEYS)), MOST_KEYS)
    keys = keys_of(bucket)
    first = bisect_right(keys, token) if token else bisect_left(keys, prefix)
    found = [key for key in keys[first : first + most + 1] if key.startswith(prefix)]
    page, goes_on = found[:most], len(found) > most > 0
    root = ET.Element("ListBucketResult", xmlns=NAMESPACE)
    add(root, Name=bucket.name, Prefix=prefix, MaxKeys=str(most), KeyCount=str(len(page)))
    add(root, IsTruncated=str(goes_on).lower())
    if goes_on:
        add(root, NextContinuationToken=page[-1])
    for key in page:
        status = (bucket / key).stat()
        changed = datetime.fromtimestamp(int(status.st_mtime), UTC)
        contents = ET.SubElement(root, "Contents")
        add(contents, Key=key, LastModified=changed.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
        add(contents, ETag=entity_tag(status), Size=str(status.st_size), StorageClass="STANDARD")
    return document(root)


@cache
def keys_of(bucket: Path) -> list[str]:
    """Return the keys of all objects, sorted; files are looked for once."""
    paths = (path for path in bucket.rglob("*") if path.is_file())
    return sorted(path.relative_to(bucket).as_posix() for path in paths)


def refusal(status: HTTPStatus, object_bytes: int | None = None) -> bytes:
    """Return the body of a refusal.

    Args:
        status: one of `ERROR_CODES`.
        object_bytes: the size of the object that a range lies outside of; by it clients tell an
            empty object from a mistake.
    """
    root = ET.Element("Error")
    add(root, Code=ERROR_CODES[status], Message=status.description)
    if object_bytes is not None:
        add(root, ActualObjectSize=str(object_bytes))
    return document(root)


def add(parent: ET.Element, **fields: str) -> None:
    """Add fields to an answer, in order."""
    for name, text in fields.items():
        ET.SubElement(parent, name).text = text


def document(root: ET.Element) -> bytes:
    """Return an answer as it is sent."""
    written: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return written
