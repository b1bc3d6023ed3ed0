"""Set-up of obstore's client for a bucket."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from skymark.store.bucket.address import BucketAddress
from skymark.store.bucket.calls import ANSWER_S, SLOWEST_BYTES_PER_S
from skymark.store.bucket.credentials import ProfileCredentials, reads_profile
from skymark.whole_files import LARGEST_FILE_BYTES

if TYPE_CHECKING:
    from obstore.store import S3Store

CONNECT_S = 5


def s3_client(address: BucketAddress) -> S3Store:
    """Return obstore's client of a place in a bucket; contacts nobody."""
    from obstore.store import S3Store

    # AWS's own endpoint is given too: obstore takes an endpoint variable that is set but empty for
    # one. It sends no checksum headers, which some servers refuse, unless AWS_CHECKSUM_ALGORITHM
    # asks for them; the signature covers the digest of the body.
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        endpoint=address.server,
        aws_endpoint_url_s3=address.server,
        region=address.region,
        disable_bulk_delete=True,
        client_options={
            "allow_http": address.server.startswith("http://"),
            "connect_timeout": timedelta(seconds=CONNECT_S),
            # `Calls.in_time` gives a request up; this is the longest that it ever allows.
            "timeout": timedelta(seconds=ANSWER_S + LARGEST_FILE_BYTES / SLOWEST_BYTES_PER_S),
        },
        # One more try, for a kept connection that the server had closed. The caller does the rest.
        retry_config={
            "max_retries": 1,
            "backoff": {"init_backoff": timedelta(seconds=0.1)},
            "retry_timeout": timedelta(seconds=ANSWER_S),
        },
        credential_provider=ProfileCredentials() if reads_profile(os.environ) else None,
    )
