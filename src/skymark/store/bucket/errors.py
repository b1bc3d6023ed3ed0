"""Translation of obstore's errors into skymark's, without secrets.

Servers repeat parts of a signed request in their answers, and obstore repeats the answers. So none
of its text is passed on: only the status, S3's error code and message, and the kind of failure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from skymark.model.errors import StoreError, StoreRefusedError, StoreUnavailableError
from skymark.store.bucket.address import BucketAddress
from skymark.store.bucket.credentials import has_boto3, wants_profile

NOT_IMPLEMENTED = 501
REFUSED_STATUSES = {301, 307, 400, 401, 403, 404, 405, 411, 413}
MAY_PASS_CODES = {"RequestTimeout", "SlowDown"}
"""S3 sends these with status 400 and 503: the same request may succeed later."""

SIGN_IN = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if any)"
ACTIONS = {
    "AccessDenied": "allow these credentials to list, get, put and delete objects there",
    "AuthorizationHeaderMalformed": "set AWS_REGION to the bucket's region",
    "ExpiredToken": "renew the credentials",
    "InvalidRegionName": "set AWS_REGION to a region that the server knows",
    "PermanentRedirect": "set AWS_REGION to the bucket's region",
    "RequestTimeTooSkewed": "set this machine's clock",
}
"""What to do, by S3's error code."""

SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_ACCESS_KEY_ID")
LONGEST_CAUSE = 300

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_PROVIDER = re.compile(r"External AWS credential provider: (.*)")
_SYSTEM = re.compile(r'(?:message|error): "([^"]+)"')
_MACHINE_ROLE = re.compile(r"/latest/(?:api/token|meta-data/)|//169\.254\.170\.")


class ConditionUnknownError(StoreRefusedError):
    """Error of a server that does not know an operation, such as writing on a condition."""


@contextmanager
def explained(address: BucketAddress, path: str) -> Iterator[None]:
    """Translate obstore's errors into skymark's; a condition that did not hold stays obstore's.

    Raises:
        FileNotFoundError: the bucket is there and has no such object.
        StoreUnavailableError: no connection, no answer in time, or an answer such as 429 or 5xx.
        StoreRefusedError: credentials, permission, region, certificate, or no such bucket.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield
    except (StoreError, AlreadyExistsError, PreconditionError):
        raise
    except TimeoutError as error:
        raise StoreUnavailableError(
            f"{_place(address)} did not answer in time; it may be slow or overloaded: "
            "try again later"
        ) from error
    except FileNotFoundError as error:
        if "<Code>NoSuchKey<" in str(error) or "<Code>" not in str(error):
            raise FileNotFoundError(f"{address.below(path).url} is not there") from None
        _raise(address, str(error))
    except (BaseError, ValueError) as error:
        _raise(address, str(error))


def _raise(address: BucketAddress, text: str) -> NoReturn:
    """Raise skymark's error for a text of obstore's, which is not kept as a cause."""
    place = _place(address)
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    code = found[1] if (found := _CODE.search(text)) else None
    if (provider := _PROVIDER.search(text)) or _MACHINE_ROLE.search(text):
        said = f" ({_shown(provider[1])})" if provider else ""
        raise StoreRefusedError(f"{place}: there are no credentials{said}; {_how_to_sign_in()}")
    if "invalid path" in text:
        name = text.partition("Path ")[2].partition('"')[2].partition('"')[0]
        raise StoreRefusedError(
            f"{place}: there is an object with the name {_shown(name)!r}, which skymark never "
            "writes; remove it or choose another prefix"
        )
    if code == "NoSuchBucket":
        raise StoreRefusedError(
            f"{place}: there is no bucket {address.bucket}; make it with: {address.how_to_make}"
        )
    if "Received redirect" in text:
        raise StoreRefusedError(f"{place}: wrong region; {ACTIONS['PermanentRedirect']}")
    if status is None:
        _raise_for_connection(place, text)
    message = f": {_shown(found[1])}" if (found := _MESSAGE.search(text)) and found[1] else ""
    answer = f"{place} answered {status}{f' {code}' if code else ''}{message}"
    if status == NOT_IMPLEMENTED:
        raise ConditionUnknownError(f"{answer}; use a server that speaks S3")
    if status in REFUSED_STATUSES and code not in MAY_PASS_CODES:
        usual = SIGN_IN if status in {401, 403} else "check the endpoint and the region"
        raise StoreRefusedError(f"{answer}; {ACTIONS.get(code or '', usual)}")
    raise StoreUnavailableError(f"{answer}; the server is busy or broken: try again later")


def _raise_for_connection(place: str, text: str) -> NoReturn:
    """Raise for a request that got no answer."""
    if "certificate" in text.lower():
        raise StoreRefusedError(
            f"{place}: its certificate is not trusted; point SSL_CERT_FILE at the authority's file"
        )
    if "TimedOut" in text or "kind: Timeout" in text:
        cause = "no answer in time"
    else:
        said = _SYSTEM.findall(text)
        cause = _shown(said[-1]) if said else "the connection broke"
    raise StoreUnavailableError(
        f"{place}: {cause}; check the endpoint and the network, or try again later"
    )


def _how_to_sign_in() -> str:
    how = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if wants_profile(os.environ) and not has_boto3():
        return f"{how}, or pip install boto3, which reads the profiles in ~/.aws"
    return how


def _place(address: BucketAddress) -> str:
    return f"{address.url} ({address.server})"


def _shown(text: str) -> str:
    """Return a server's text fit to be printed: short, on one line, without our secrets."""
    for name in SECRET_VARIABLES:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return "".join(c if c.isprintable() else " " for c in text)[:LONGEST_CAUSE].strip()
