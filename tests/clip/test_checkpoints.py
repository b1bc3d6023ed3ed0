"""A checkpoint is data: nothing in it runs, whatever the environment says."""

from __future__ import annotations

import zipfile

import pytest

torch = pytest.importorskip("torch")

from skymark.model.errors import DataError  # noqa: E402
from skymark.suites.clip.encoding.loading import load_model  # noqa: E402

ORDERED = b"ccollections\nOrderedDict\n)R"
FAILS = {
    "at once": b"",
    # A state in two parts: pickle takes it, PyTorch's own reader ends in a TypeError, and
    # open_clip then reads the file again, without asking for weights only.
    "in a TypeError": ORDERED + b"(N}tb0",
}


def checkpoint(path, before, made):
    """Write an archive of PyTorch's whose pickle makes a directory as it is read."""
    with zipfile.ZipFile(path, "w") as archive:
        call = b"cos\nmkdir\n(V" + str(made).encode() + b"\ntR"
        archive.writestr("archive/data.pkl", b"\x80\x02" + before + call + b".")
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")


@pytest.mark.parametrize("forced", ["", "1", "y", "true"])
@pytest.mark.parametrize("how", FAILS)
def test_a_checkpoint_runs_no_code(bench, tmp_path, monkeypatch, forced, how):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", forced)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    checkpoint(tmp_path / "evil.pt", FAILS[how], tmp_path / "made")
    model = bench.model_of("tiny-ViT", tmp_path / "evil.pt")
    with pytest.raises(DataError):
        load_model(model, torch.device("cpu"), 0)
    assert not (tmp_path / "made").exists()
