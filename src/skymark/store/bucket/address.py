"""Address, endpoint, region and credentials of a bucket, from its URL, variables and profiles.

obstore reads environment variables, web identities, container roles and instance roles. Profiles,
single sign-on included, are boto3's matter, and are used where boto3 is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skymark.model.base import Frozen
from skymark.model.errors import StoreRefusedError, UsageError
from skymark.resources import imported_when_called, install_line, load_object
from skymark.store.kinds import ClientLibrary, StoreKind

if TYPE_CHECKING:
    from obstore.store import S3Credential


ENDPOINT_VARIABLES = ("R2_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The first variable that is set and not empty has the endpoint; else it is AWS."""
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
    """Return the endpoint's variable and value, or None and None."""
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


KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PROFILE_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
FRESH_FOR = timedelta(minutes=10)
"""Time after which credentials are read from boto3 again; boto3 renews expiring credentials."""


def profile_credentials() -> Callable[[], S3Credential]:
    """Return a provider of a profile's credentials for obstore; it reads nothing before a call.

    It raises boto3's own errors, which obstore passes on as text.
    """
    from obstore.auth.boto3 import Boto3CredentialProvider

    @cache
    def provider() -> Boto3CredentialProvider:
        return Boto3CredentialProvider(ttl=FRESH_FOR)

    def credentials() -> S3Credential:
        return provider()()

    return credentials


def has_keys(variables: Mapping[str, str]) -> bool:
    """Return whether the variables hold the keys."""
    return all(variables.get(name) for name in KEY_VARIABLES)


def wants_profile(variables: Mapping[str, str]) -> bool:
    """Return whether a profile is the first of boto3's sources of credentials."""
    if has_keys(variables) or variables.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return False
    return bool(variables.get("AWS_PROFILE")) or any(
        Path(variables.get(name) or default).expanduser().is_file()
        for name, default in PROFILE_FILES.items()
    )


def reads_profile(variables: Mapping[str, str]) -> bool:
    """Return whether credentials come from a profile, by way of boto3."""
    return wants_profile(variables) and has_boto3()


def profile_region() -> str | None:
    """Return the region of the chosen profile, or None. Needs boto3."""
    try:
        region: str | None = load_object("boto3.session:Session")().region_name
    except load_object("botocore.exceptions:BotoCoreError"):  # said when keys are asked for
        return None
    return region


def has_boto3() -> bool:
    """Return whether boto3, which reads profiles, is installed."""
    from importlib.util import find_spec

    return find_spec("boto3") is not None


def require_findable(variables: Mapping[str, str]) -> None:
    """Refuse variables that ask for unavailable credentials.

    Raises:
        StoreRefusedError: a key is empty, only one key is set, or a profile is named without boto3,
            which reads it.
    """
    given = {name: variables[name] for name in KEY_VARIABLES if name in variables}
    if given and not has_keys(variables):
        empty = " and ".join(name for name in KEY_VARIABLES if not given.get(name))
        raise StoreRefusedError(
            f"{empty} is not set or empty; set both {' and '.join(KEY_VARIABLES)}"
        )
    if variables.get("AWS_PROFILE") and wants_profile(variables) and not has_boto3():
        raise StoreRefusedError(
            f"AWS_PROFILE={variables['AWS_PROFILE']} names a profile, and boto3, which reads "
            "profiles, is not installed; pip install boto3, "
            f"or set {' and '.join(KEY_VARIABLES)} instead"
        )


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
