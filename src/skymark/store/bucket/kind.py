"""Declaration of buckets as a kind of store."""

from __future__ import annotations

from skymark.store.bucket.address import (
    ENDPOINT_VARIABLES,
    KEY_VARIABLES,
    REGION_VARIABLES,
    bucket_and_prefix,
)
from skymark.store.kinds import ClientLibrary, StoreKind
from skymark.store.store import Store


def _open(url: str, run_id: str) -> Store:
    from skymark.store.bucket.store import open_bucket

    return open_bucket(url, run_id)


def _list_runs(url: str) -> list[str]:
    from skymark.store.bucket.store import list_runs

    return list_runs(url)


BUCKET = StoreKind(
    scheme="s3",
    address="s3://BUCKET/PREFIX",
    opener=_open,
    reader=bucket_and_prefix,
    lister=_list_runs,
    outlives_machine=True,
    leaves_machine=lambda _: True,
    variables=(*KEY_VARIABLES, "AWS_SESSION_TOKEN", *REGION_VARIABLES, *ENDPOINT_VARIABLES),
    client=ClientLibrary("obstore", "pip install 'skymark[bucket]'"),
)
