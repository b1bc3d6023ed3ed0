"""Tar archives that come from elsewhere: bounded headers, and no end before the last member."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import DataError

LARGEST_HEADER_BYTES = 1 << 20
"""Of the names and attributes that precede a member; tarfile reads them whole."""
LARGEST_MEMBER_BYTES = 1 << 50
HEADERS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
_PIECE = 1 << 20


class BoundedHeader(tarfile.TarInfo):
    """Member of an archive whose sizes are bounded."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Read what follows a header, as tarfile calls this method for subclasses to extend."""
        if not 0 <= self.size <= LARGEST_MEMBER_BYTES:
            raise tarfile.ReadError(f"a member of {self.size:,} bytes")
        if self.type in HEADERS and self.size > LARGEST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return found


@contextmanager
def opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive, compressed or not, for `members_of`.

    Raises:
        DataError: it is none, or a part of it is damaged.
    """
    if path.stat().st_size == 0:
        raise DataError(f"{path} is no whole tar file (it is empty); copy it again or remove it")
    try:
        with tarfile.open(path, tarinfo=BoundedHeader) as archive:
            yield archive
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
        raise DataError(f"{path} is no whole tar file ({error}); copy it again") from error


def members_of(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members up to the marker that ends an archive: two blocks of zeros (POSIX, ustar).

    tarfile ends without a word where a header is damaged, and where the file is cut off behind a
    member. Neither may look like the end.

    Raises:
        tarfile.ReadError: the archive ends elsewhere, or there is more behind its end.
    """
    yield from archive
    file, at = archive.fileobj, archive.offset
    assert file is not None
    file.seek(at)
    block = file.read(tarfile.BLOCKSIZE)
    if not block:
        raise tarfile.ReadError(f"it is cut off at byte {at:,}, before its end marker")
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f"it is cut off in the header at byte {at:,}")
    if any(block):
        raise tarfile.ReadError(f"the header at byte {at:,} is damaged")
    behind = at + len(block)
    while piece := file.read(_PIECE):
        if stripped := len(piece.lstrip(b"\0")):
            behind += len(piece) - stripped
            raise tarfile.ReadError(
                f"more data follows its end at byte {behind:,}, as where archives are joined with "
                "cat; give them as files of their own"
            )
        behind += len(piece)
