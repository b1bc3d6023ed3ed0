"""Store in an S3-compatible bucket: AWS S3, Cloudflare R2, MinIO, Google's XML API."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.layout import MANIFEST
from skymark.store.bucket.address import (
    BucketAddress,
    bucket_address,
    profile_credentials,
    profile_region,
    reads_profile,
    require_findable,
)
from skymark.store.bucket.calls import (
    ANSWER_S,
    SLOWEST_BYTES_PER_S,
    Calls,
    ConditionUnknownError,
    explained,
)
from skymark.store.kinds import Store

if TYPE_CHECKING:
    from obstore import PutMode
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
        credential_provider=profile_credentials() if reads_profile(os.environ) else None,
    )


AT_ONCE = 16
"""Useful number of parallel requests; see tests/benchmarks/test_stores.py."""
CONTESTS = 8
"""Attempts to write a record that another writer changed in the meantime."""
NAMES_PER_PAGE = 1000
PROBE = ".probe-"


class BucketStore(Store):
    """Files of one run below a prefix of a bucket.

    A request fails after `skymark.store.bucket.calls.ANSWER_S` and the time that its bytes may
    take. `get` and `delete` take one request, `sizes` one per 1000 files, and `check` four. `put`
    takes one; a record takes up to three, and again after each concurrent writer.
    """

    parallel = AT_ONCE

    def __init__(self, address: BucketAddress, answer_s: float = ANSWER_S) -> None:
        """Make the client; contacts nobody.

        Args:
            address: where the run lies.
            answer_s: how long the server may take for one request, besides the time of its bytes.
        """
        self.address = address
        self._client = s3_client(address)
        self._calls = Calls(answer_s)

    @property
    def url(self) -> str:
        """The run's address: ``s3://bucket/prefix/run-id``."""
        return self.address.url

    def check(self) -> None:
        """Prove that the bucket can be written, read, listed and cleaned: by a probe object.

        Raises:
            StoreRefusedError: credentials are missing or refused, or there is no such bucket.
            StoreUnavailableError: the server is away, or gave back other bytes.
        """
        require_findable(os.environ)
        path = f"{PROBE}{secrets.token_hex(8)}"
        data = secrets.token_bytes(32)
        self.put(path, data)
        try:
            if self.get(path) != data:
                raise StoreUnavailableError(f"{self.url} gave back other bytes than were written")
        except FileNotFoundError:
            raise StoreUnavailableError(
                f"{self.url} does not have what was written a moment ago; is another server "
                f"meant than {self.address.server}?"
            ) from None
        finally:
            self.delete(path)
        self._calls.run(self._list(pages=1))

    def put(self, path: str, data: bytes) -> None:
        """Write one file, whole or not at all.

        One request writes it, so nothing half-sent stays behind. A record is written only if it is
        absent or still the version that was read before. The last writer wins, but no writer
        replaces a record that it has not seen. Servers without conditional requests get a plain
        write.
        """
        conditional = path.startswith("records/")
        self._calls.run(self._put_seen(path, data) if conditional else self._put(path, data))

    def get(self, path: str) -> bytes:
        """Read one file.

        Raises:
            FileNotFoundError: there is none.
            StoreRefusedError: it is larger than `LARGEST_FILE_BYTES`; it was not read.
        """
        data, _ = self._calls.run(self._get(path))
        return data

    def sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of every file of the run by path, probes left out."""
        return self._calls.run(self._list())

    def delete(self, path: str) -> None:
        """Remove one file; no error if there is none."""
        self._calls.run(self._delete(path))

    def close(self) -> None:
        """End the thread that speaks with the bucket."""
        self._calls.close()

    def runs(self) -> list[str]:
        """Return the names of the runs directly below, in order."""
        return self._calls.run(self._runs())

    # In the event loop

    async def _put_seen(self, path: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: PutMode = "create"
        for _ in range(CONTESTS):
            try:
                return await self._put(path, data, mode)
            except ConditionUnknownError:
                return await self._put(path, data)
            except (AlreadyExistsError, PreconditionError):
                try:
                    theirs, tag = await self._get(path)
                except FileNotFoundError:  # removed in the meantime
                    mode = "create"
                    continue
            if theirs == data:
                return None
            mode = {"e_tag": tag}
        raise StoreUnavailableError(f"{self.url}/{path} is written by others all the time")

    async def _put(self, path: str, data: bytes, mode: PutMode = "overwrite") -> None:
        try:
            with explained(self.address, path):
                put = self._client.put_async(path, data, mode=mode, use_multipart=False)
                await self._calls.in_time(put, len(data))
        except FileNotFoundError:
            raise StoreRefusedError(
                f"{self.address.server} has no place for {self.url}; is it an S3 endpoint?"
            ) from None

    async def _get(self, path: str) -> tuple[bytes, str | None]:
        with explained(self.address, path):
            answer = await self._calls.in_time(self._client.get_async(path))
            size = answer.meta["size"]
            if size > LARGEST_FILE_BYTES:
                raise StoreRefusedError(
                    f"{self.url}/{path} has {size:,} bytes, more than any file of skymark's; "
                    "it was not read. Remove it"
                )
            return bytes(await self._calls.in_time(answer.bytes_async(), size)), answer.meta[
                "e_tag"
            ]

    async def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError), explained(self.address, path):
            await self._calls.in_time(self._client.delete_async(path))

    async def _list(self, pages: int | None = None) -> dict[str, int]:
        """Return sizes by path, of all pages or the first ones."""
        sizes: dict[str, int] = {}
        listing = self._client.list(chunk_size=NAMES_PER_PAGE)
        with explained(self.address, ""):
            while pages is None or pages > 0:
                try:
                    page = await self._calls.in_time(anext(listing))
                except StopAsyncIteration:
                    break
                names = {listed["path"]: listed["size"] for listed in page}
                sizes |= {path: n for path, n in names.items() if not path.startswith(PROBE)}
                pages = None if pages is None else pages - 1
        return sizes

    async def _runs(self) -> list[str]:
        with explained(self.address, ""):
            listing = await self._calls.in_time(self._client.list_with_delimiter_async())
        names = [prefix.rpartition("/")[2] for prefix in listing["common_prefixes"]]
        slots = asyncio.Semaphore(AT_ONCE)
        held = await asyncio.gather(*(self._holds_run(name, slots) for name in names))
        return sorted(name for name, holds in zip(names, held, strict=True) if holds)

    async def _holds_run(self, name: str, slots: asyncio.Semaphore) -> bool:
        path = f"{name}/{MANIFEST}"
        async with slots:
            try:
                with explained(self.address, path):
                    await self._calls.in_time(self._client.head_async(path))
            except FileNotFoundError:
                return False
        return True


def open_bucket(url: str, run_id: str) -> BucketStore:
    """Open the store of a run in a bucket; contacts nobody yet.

    Args:
        url: ``s3://bucket/prefix``. The endpoint is `R2_ENDPOINT_URL`, `AWS_ENDPOINT_URL_S3` or
            `AWS_ENDPOINT_URL`, else AWS; the region `AWS_REGION` or `AWS_DEFAULT_REGION`. Keys
            come from variables, a profile (with boto3) or the machine's role.
        run_id: the run's name; its files are ``prefix/run-id/PATH``.

    Raises:
        UsageError: the URL or the endpoint is none.
    """
    return BucketStore(_address(url).below(run_id))


def list_runs(url: str) -> list[str]:
    """Return the ids of the runs below ``s3://bucket/prefix``.

    Raises:
        UsageError: as `open_bucket`.
        StoreError: the bucket cannot be read.
    """
    store = BucketStore(_address(url))
    try:
        return store.runs()
    finally:
        store.close()


def _address(url: str) -> BucketAddress:
    region = profile_region() if reads_profile(os.environ) else None
    return bucket_address(url, os.environ, region)
