"""The last words on a rented machine say whether it is there."""

from __future__ import annotations

import pytest

from skymark.cli.rented_ends import show_end
from skymark.cloud.lifecycle.retrieving import GONE
from skymark.cloud.lifecycle.stages import Ended, Finished, Retrieved
from tests.rented_runs import run_of


@pytest.mark.parametrize("gone", [True, False])
def test_a_machine_that_is_gone_is_not_said_to_be_up(tmp_path, capsys, gone):
    finished = Finished(run_of(keep=True))
    ended = Ended(Retrieved(finished, problems=(GONE,) if gone else (), gone=gone))
    assert show_end(ended, tmp_path) == 1
    said = capsys.readouterr().err
    assert ("is up, and ends itself" in said) is not gone
    assert ("the machine was gone" in said) is gone
