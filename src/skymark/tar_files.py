"""Tar archives that come from elsewhere: bounded headers, and no end before the last member.

tarfile ends without a word where a header is damaged, and where the file is cut off behind a
member. Neither may look like the end: `members_of` looks at the bytes behind it.
"""

from __future__ import annotations

import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from skymark.model.errors import DataError
from skymark.model.sizes import size_text
from skymark.plain_files import open_regular

LARGEST_HEADER_BYTES = 1 << 20
"""Of the names and attributes that precede a member; tarfile reads them whole."""
LARGEST_MEMBER_BYTES = 1 << 62
LARGEST_PADDING_BYTES = 16 << 20
"""Zeros behind the end of an archive: it is filled up to a multiple of 10 KiB, on tapes to more."""
HEADERS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
ATTRIBUTES = HEADERS - {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
LONG_NUMBER = re.compile(rb"[0-9]{256}")
"""tarfile searches attributes in a time that is quadratic in the length of a number."""
_PIECE = 1 << 16
FOREIGN = (
    tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError, LookupError, TypeError,
    AttributeError, AssertionError, MemoryError, RecursionError, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""All that tarfile was seen to raise on bytes that are no archive."""


class BoundedHeader(tarfile.TarInfo):
    """Member of an archive whose further headers are bounded, and whose place is possible."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Read what follows a header, as tarfile calls this method for subclasses to extend."""
        if not 0 <= self.size <= LARGEST_MEMBER_BYTES:
            raise tarfile.ReadError(f"a member of {self.size:,} bytes")
        if self.type in HEADERS and self.size > LARGEST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        if self.type in ATTRIBUTES:
            self._check_attributes(archive)
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse member, which is not read")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        # Attributes may give another size than the header had.
        end = found.offset_data + -(-found.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        leads_back = archive.offset <= self.offset
        is_possible = 0 <= found.size <= LARGEST_MEMBER_BYTES and not leads_back
        if not is_possible or (found.isreg() and archive.offset != end):
            raise tarfile.ReadError(
                f"a member of {found.size:,} bytes, which its headers contradict"
            )
        return found

    def _check_attributes(self, archive: tarfile.TarFile) -> None:
        file = archive.fileobj
        assert file is not None, "an archive that is read has a file"
        start = file.tell()
        content = file.read(self.size)
        file.seek(start)
        if LONG_NUMBER.search(content):
            raise tarfile.ReadError("an attribute of more digits than any number has")
        if b"GNU.sparse." in content:
            raise tarfile.ReadError("a sparse member, which is not read")


class BoundedArchive(tarfile.TarFile):
    """Archive with such members."""

    tarinfo = BoundedHeader


@contextmanager
def opened_tar(path: Path, mode: Literal["r", "r:"] = "r") -> Iterator[tarfile.TarFile]:
    """Open an archive in a regular file, or a link to one, for `members_of`.

    Args:
        path: where it is.
        mode: ``r:`` for plain archives alone, ``r`` for compressed archives, too.

    Raises:
        DataError: it is no regular file, may not be read, or is no archive.
    """
    try:
        file = os.fdopen(open_regular(path, through_links=True), "rb")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); name another file") from error
    with file:
        if os.fstat(file.fileno()).st_size == 0:
            raise DataError(
                f"{path} is no whole tar file (it is empty); copy it again or remove it"
            )
        try:
            archive = BoundedArchive.open(path, mode, fileobj=file)
        except FOREIGN as error:
            raise not_whole(path, error) from error
        with archive:
            yield archive


def members_of(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members up to the marker that ends an archive: two blocks of zeros (POSIX, ustar).

    Raises:
        DataError: it is damaged, cut off, or goes on behind its end.
    """
    path = Path(str(archive.name))
    while True:
        try:
            member = archive.next()
            if member is None:
                _require_end(archive)
                return
        except FOREIGN as error:
            raise not_whole(path, error) from error
        yield member


def not_whole(path: Path, error: Exception) -> DataError:
    """Return the error of a damaged archive, or of another file."""
    return DataError(
        f"{path} is no whole tar file ({error or type(error).__name__}); copy it again"
    )


def printable(name: str) -> str:
    """Return a member's name as text, with other bytes than UTF-8 escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def _require_end(archive: tarfile.TarFile) -> None:
    """Refuse an archive that stops before a block of zeros, or goes on behind it.

    Raises:
        ReadError: it does.
    """
    file, end = archive.fileobj, archive.offset
    assert file is not None, "an archive that is read has a file"
    file.seek(end)
    block = file.read(tarfile.BLOCKSIZE)
    if not block:
        raise tarfile.ReadError(f"it is cut off at byte {end:,}, before its end marker")
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f"it is cut off in the header at byte {end:,}")
    if any(block):
        raise tarfile.ReadError(f"the header at byte {end:,} is damaged")
    behind = end + len(block)
    while piece := file.read(_PIECE):
        if stripped := len(piece.lstrip(b"\0")):
            raise tarfile.ReadError(
                f"more data follows its end at byte {behind + len(piece) - stripped:,}, as where "
                "archives are joined with cat; give them as files of their own"
            )
        behind += len(piece)
        if behind - end > LARGEST_PADDING_BYTES:
            raise tarfile.ReadError(
                f"it has more than {size_text(LARGEST_PADDING_BYTES)} of padding"
            )
