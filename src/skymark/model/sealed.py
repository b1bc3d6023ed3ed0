"""Sealed JSON: a file that holds the digest of its own content, so that a changed byte shows.

The digest is the file's second line, over all the others: ``sed 2d FILE | sha256sum``.
"""

from __future__ import annotations

import re
from hashlib import sha256

from skymark.model.base import Frozen

KEY = "content_sha256"

SEAL = re.compile(rb'\A\{\n "%s": "([0-9a-f]{64})",\n' % KEY.encode())


def sealed(value: Frozen, *, indent: int | None = 1) -> bytes:
    """Return a value as JSON with the digest of its content, as a file of it is written."""
    return seal(value.model_dump_json(indent=indent))


def seal(text: str) -> bytes:
    """Return the text of a JSON object with the digest of its content."""
    rest = text.strip()[1:].lstrip("\n").encode() + b"\n"
    return b'{\n "%s": "%s",\n%s' % (KEY.encode(), _digest(rest).encode(), rest)


def is_sealed(data: bytes) -> bool:
    """Return whether a file has a seal, be it whole or broken."""
    return SEAL.match(data) is not None


def unsealed(data: bytes) -> bytes:
    """Return the JSON of a sealed file, without the digest.

    Raises:
        ValueError: it has no digest, or another content than it was written with.
    """
    seal = SEAL.match(data)
    if seal is None:
        raise ValueError(f"it lacks the digest of its content ({KEY})")
    rest = data[seal.end() :]
    if _digest(rest) != seal[1].decode():
        raise ValueError(f"its content is not what its digest says ({KEY}); it was changed")
    return b"{\n" + rest


def _digest(rest: bytes) -> str:
    return sha256(b"{\n" + rest).hexdigest()
