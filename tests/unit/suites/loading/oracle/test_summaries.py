"""The reference's sums in a file that grows, whatever lies in its place."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.oracle.summaries import KnownSums

SUMS = [{"x": np.array([[float(n), 2.0]])} for n in range(3)]


def test_sums_are_kept(tmp_path):
    known = KnownSums(tmp_path / "sums.npz", 3)
    known.add(np.array([0, 2]), [SUMS[0], SUMS[2]])
    known.save()
    again = KnownSums(tmp_path / "sums.npz", 3)
    assert again.is_known.tolist() == [True, False, True]
    assert again.fields["x"][2].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "no sums", "other set"])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    path = tmp_path / "sums.npz"
    known = KnownSums(path, 3)
    known.add(np.arange(3), SUMS)
    known.save()
    whole = path.read_bytes()
    damaged = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "changed": whole[:40] + bytes(20) + whole[60:],
        "no sums": b"{}",
        "other set": whole,
    }
    path.write_bytes(damaged[damage])
    elements = 4 if damage == "other set" else 3
    again = KnownSums(path, elements)
    assert (again.is_known.sum(), again.fields) == (0, {})
    again.add(np.arange(3), SUMS)
    again.save()
    assert KnownSums(path, elements).is_known.sum() == 3
