"""Credentials from profiles below ``~/.aws``, which obstore does not read by itself.

obstore reads environment variables, web identities, container roles and instance roles. Profiles,
single sign-on included, are boto3's matter, and are used where boto3 is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.errors import StoreRefusedError
from skymark.references import load_object

if TYPE_CHECKING:
    from obstore.store import S3Credential

KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PROFILE_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
FRESH_FOR = timedelta(minutes=10)
"""How long credentials are used before boto3 is asked again; it renews what is about to expire."""


class ProfileCredentials:
    """Provider of a profile's credentials for obstore, from boto3; reads nothing before a call."""

    def __init__(self) -> None:
        self._found: Any = None

    def __call__(self) -> S3Credential:
        """Return credentials; raises boto3's own errors, which obstore passes on as text."""
        if self._found is None:
            self._found = _session().get_credentials()
        if self._found is None:
            raise LookupError("boto3 found no credentials")
        frozen = self._found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + FRESH_FOR,
        }


def has_keys(variables: Mapping[str, str]) -> bool:
    """Return whether the variables hold the keys."""
    return all(variables.get(name) for name in KEY_VARIABLES)


def wants_profile(variables: Mapping[str, str]) -> bool:
    """Return whether there is a profile, and no credentials that boto3 would prefer to it."""
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
    """Return the region of the chosen profile, None where there is none. Needs boto3."""
    try:
        region: str | None = _session().region_name
    except load_object("botocore.exceptions:BotoCoreError"):  # said when keys are asked for
        return None
    return region


def has_boto3() -> bool:
    """Return whether boto3, which reads profiles, is installed."""
    from importlib.util import find_spec

    return find_spec("boto3") is not None


def require_findable(variables: Mapping[str, str]) -> None:
    """Refuse variables that ask for credentials which cannot be had.

    Raises:
        StoreRefusedError: a key is set but empty, one is there without the other, or a profile is
            named and boto3, which reads it, is not installed.
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


def _session() -> Any:
    return load_object("boto3.session:Session")()
