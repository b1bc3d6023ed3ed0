"""Address, endpoint and region of a bucket, from a URL and environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from skymark.model.base import Frozen
from skymark.model.errors import UsageError

ENDPOINT_VARIABLES = ("R2_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The first that is set and not empty says where the bucket is; else it is at AWS."""
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
R2_HOST = ".r2.cloudflarestorage.com"


class BucketAddress(Frozen):
    """Place in a bucket. Holds no credentials, so all of it may be shown."""

    bucket: str
    prefix: str = ""
    """Without a slash at either end; empty for the whole bucket."""
    endpoint: str | None = None
    """Scheme, host and port of the server; None for AWS."""
    region: str = "us-east-1"
    is_r2: bool = False

    @property
    def url(self) -> str:
        """This place as ``s3://bucket/prefix``."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def server(self) -> str:
        """The URL of the server, AWS's included."""
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"

    def below(self, name: str) -> BucketAddress:
        """Return a place of the given name below this one."""
        return self.model_copy(update={"prefix": f"{self.prefix}/{name}".strip("/")})

    @property
    def how_to_make(self) -> str:
        """The command that makes the bucket. skymark itself never makes one."""
        if self.is_r2:
            return f"npx wrangler r2 bucket create {self.bucket}"
        place = f"--endpoint-url {self.endpoint}" if self.endpoint else f"--region {self.region}"
        return f"aws s3 mb s3://{self.bucket} {place}"


def bucket_address(
    url: str, variables: Mapping[str, str], profile_region: str | None = None
) -> BucketAddress:
    """Read a bucket's address from a URL and environment variables.

    Args:
        url: ``s3://bucket/prefix``.
        variables: of the environment; see `ENDPOINT_VARIABLES` and `REGION_VARIABLES`.
        profile_region: the region where no variable names one.

    Raises:
        UsageError: the URL or the endpoint cannot be meant so.
    """
    bucket, prefix = bucket_and_prefix(url)
    variable, endpoint = _endpoint(bucket, variables)
    is_r2 = variable == "R2_ENDPOINT_URL" or R2_HOST in (endpoint or "")
    regions = [variables.get(name) for name in REGION_VARIABLES]
    named = next((region for region in [*regions, profile_region] if region), "us-east-1")
    # R2 has one region and refuses the names of AWS's.
    region = "auto" if is_r2 else named
    return BucketAddress(
        bucket=bucket, prefix=prefix, endpoint=endpoint, region=region, is_r2=is_r2
    )


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """Return the parts of an address.

    Raises:
        UsageError: it names no bucket, or holds credentials.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise UsageError(
            "the s3:// address holds credentials; give them as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY as variables, where no log shows them"
        )
    segments = parts.path.strip("/").split("/") if parts.path.strip("/") else []
    wrong = parts.query or parts.fragment or {"", ".", ".."} & set(segments)
    if parts.scheme != "s3" or not parts.netloc or ":" in parts.netloc or wrong:
        raise UsageError(f"{url} names no bucket; write s3://BUCKET or s3://BUCKET/PREFIX")
    return parts.netloc, "/".join(segments)


def _endpoint(bucket: str, variables: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the name of the variable that is set and its endpoint, or None and None."""
    variable = next((name for name in ENDPOINT_VARIABLES if variables.get(name)), None)
    if variable is None:
        return None, None
    try:
        parts = urlsplit(variables[variable])
        port = parts.port
    except ValueError:  # its message would show the address
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise UsageError(
            f"{variable} is no endpoint; it must be https://HOST or https://HOST:PORT "
            "(http:// for a server without TLS), without a user or a password"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    # Cloudflare's own page shows the endpoint with the bucket at its end.
    path = parts.path.rstrip("/").removesuffix(f"/{bucket}")
    return variable, f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"
