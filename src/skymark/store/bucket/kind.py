"""Declaration of buckets as a kind of store."""

from __future__ import annotations

from functools import partial

from skymark.references import imported_when_called
from skymark.resources import install_line
from skymark.store.bucket.address import (
    ENDPOINT_VARIABLES,
    KEY_VARIABLES,
    REGION_VARIABLES,
    bucket_and_prefix,
)
from skymark.store.kinds import ClientLibrary, StoreKind

BUCKET = StoreKind(
    scheme="s3",
    address="s3://BUCKET/PREFIX",
    opener=imported_when_called("skymark.store.bucket.store:open_bucket"),
    reader=bucket_and_prefix,
    lister=imported_when_called("skymark.store.bucket.store:list_runs"),
    outlives_machine=True,
    leaves_machine=lambda _: True,
    variables=(*KEY_VARIABLES, "AWS_SESSION_TOKEN", *REGION_VARIABLES, *ENDPOINT_VARIABLES),
    client=ClientLibrary("obstore", partial(install_line, "bucket")),
)
