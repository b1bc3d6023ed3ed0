"""Tar archives of strangers: none ends early unnoticed, and no header leads astray."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from skymark.model.errors import DataError
from skymark.tar_files import members_of, opened_tar

BLOCK = 512


def archive(count=6, format=tarfile.USTAR_FORMAT, first=0, **attributes):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as opened:
        for number in range(first, first + count):
            member = tarfile.TarInfo(f"{number:04d}.jpg")
            member.size = 700
            member.pax_headers = attributes
            opened.addfile(member, io.BytesIO(bytes([number + 1]) * 700))
    return bytearray(file.getvalue())


def header(size=b"00000001274", kind=b"0", name=b"a.jpg"):
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[100:108], block[108:116], block[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    block[124 : 124 + len(size)] = size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def attribute(text):
    body = text.ljust(-(-len(text) // BLOCK) * BLOCK, b"\0")
    return header(b"%011o" % len(text), b"x") + body


def names(data, tmp_path, mode="r:"):
    path = tmp_path / "0.tar"
    path.write_bytes(data)
    with opened_tar(path, mode) as opened:
        return [member.name for member in members_of(opened)]


WHOLE = archive()
STRIDE = BLOCK + 1024
SOUND = {
    "plain": archive(),
    "GNU": archive(format=tarfile.GNU_FORMAT),
    "attributes": archive(format=tarfile.PAX_FORMAT, comment="a" * 2000, size="700"),
    "one block of zeros": WHOLE[: 6 * STRIDE + BLOCK],
    "padded for a tape": WHOLE + bytes(1 << 20),
    "none": bytes(10_240),
}


@pytest.mark.parametrize("case", SOUND)
def test_a_whole_archive_is_read_to_its_end(case, tmp_path):
    count = 0 if case == "none" else 6
    assert names(SOUND[case], tmp_path) == [f"{number:04d}.jpg" for number in range(count)]


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_a_compressed_archive_is_read_where_that_is_asked_for(suffix, tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{suffix}") as opened:
        opened.addfile(tarfile.TarInfo("a.cls"))
    assert names(file.getvalue(), tmp_path, "r") == ["a.cls"]
    with pytest.raises(DataError, match=r"0\.tar .*tar file \("):
        names(file.getvalue()[:-20], tmp_path, "r")
    with pytest.raises(DataError, match=r"0\.tar .*tar file \("):
        names(file.getvalue(), tmp_path)


def flipped(place):
    changed = bytearray(WHOLE)
    changed[place] ^= 0x15
    return changed


BROKEN = {
    "concatenated": (WHOLE + archive(first=6), "more data follows"),
    "a flipped byte of a checksum": (flipped(3 * STRIDE + 150), "byte 4,608 is damaged"),
    "a flipped byte of a name": (flipped(3 * STRIDE), "byte 4,608 is damaged"),
    "cut within a header": (WHOLE[: 3 * STRIDE + 200], "header at byte 4,608"),
    "cut within a member": (WHOLE[: 3 * STRIDE + 900], "unexpected end of data"),
    "cut within padding": (WHOLE[: 4 * STRIDE - 10], "unexpected end of data"),
    "cut between members": (WHOLE[: 3 * STRIDE], "cut off at byte 4,608"),
    "cut within the end": (WHOLE[: 6 * STRIDE + 100], "is cut off"),
    "a hole": (
        WHOLE[: 3 * STRIDE] + bytes(BLOCK) + WHOLE[3 * STRIDE + BLOCK :],
        "more data follows",
    ),
    "the first header": (flipped(150), "invalid header"),
    "no tar": (b"x" * 2000, r"tar file \("),
    "nothing": (b"", "it is empty"),
    "a size of 2**88": (
        header(b"\x80" + (2**88 - 1).to_bytes(11, "big")) + bytes(1024),
        "a member of",
    ),
    "a size below 0": (header(b"\xff" * 11) + bytes(1024), "a member of"),
    "a long header": (header(b"77777777777", b"x") + bytes(1024), "a header of"),
    "a size below 0 in an attribute": (
        attribute(b"15 size=-1024\n") + header() + bytes(2048),
        "contradict|invalid header",  # as this Python reads it
    ),
    "a large size in an attribute": (
        attribute(b"39 size=" + b"9" * 30 + b"\n") + header() + bytes(2048),
        "contradict",
    ),
    "a size for all that follow": (
        header(b"%011o" % 11, b"g") + b"11 size=99\n".ljust(BLOCK, b"\0") + header() + bytes(2048),
        "contradict",
    ),
    "a long number": (attribute(b"9" * 500_000) + header() + bytes(2048), "more digits"),
    "a sparse member": (header(kind=b"S") + bytes(2048), "sparse"),
    "a sparse attribute": (
        attribute(b"22 GNU.sparse.major=1\n") + header() + bytes(2048),
        "sparse",
    ),
    "headers without a member": (header(b"00000000001", b"L") + bytes(BLOCK), r"tar file \("),
    "a chain of headers": (
        (header(b"00000000001", b"L") + b"x".ljust(BLOCK, b"\0")) * 3000,
        "recursion",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_archive_is_refused_with_its_cause(case, tmp_path):
    data, cause = BROKEN[case]
    with pytest.raises(DataError, match=rf"0\.tar .*({cause})"):
        names(data, tmp_path)


def test_every_cut_and_every_flipped_bit_of_a_header_is_noticed(tmp_path):
    """A count may not shrink in silence, wherever the damage is."""
    end = 6 * STRIDE + BLOCK
    for length in range(0, end, 61):
        with pytest.raises(DataError):
            names(WHOLE[:length], tmp_path)
    for place in range(0, BLOCK, 3):
        with pytest.raises(DataError):
            names(flipped(2 * STRIDE + place), tmp_path)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    path = tmp_path / "0.tar"
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a FIFO"), opened_tar(path):
        pass
    with pytest.raises(DataError, match="cannot be read"), opened_tar(tmp_path / "absent.tar"):
        pass
