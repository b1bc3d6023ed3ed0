"""Errors that say what to do."""

from __future__ import annotations

import pytest

from skymark.model import errors
from skymark.model.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CV1", "CV-1"),
        ("cv-1", "CV-1"),
        ("pytroch", "pytorch"),
        ("PyTorch Dataloader", "PyTorch DataLoader"),
        ("something else entirely", None),
    ],
)
def test_an_unknown_name_names_the_nearest_and_all(name, nearest):
    known = ["CV-1", "NLP-2", "pytorch", "PyTorch DataLoader"]
    message = str(UnknownNameError("thing", name, known))
    assert message.startswith(f"unknown thing {name!r}.")
    assert ("Did you mean" in message) == (nearest is not None)
    if nearest:
        assert f"Did you mean {nearest!r}?" in message
    assert message.endswith("Known: CV-1, NLP-2, PyTorch DataLoader, pytorch")


def test_a_title_leads_to_its_name_and_is_not_listed():
    titles = {"PyTorch DataLoader": "pytorch", "tf.data": "tfdata"}
    message = str(UnknownNameError("adapter", "PyTorch Dataloadr", ["pytorch", "tfdata"], titles))
    assert message.endswith("Did you mean 'pytorch'? Known: pytorch, tfdata")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError, 2),
        (errors.DataError, 2),
        (errors.RunDirectoryError, 2),
        (errors.VenvBuildError, 1),
        (errors.StorageFullError, 1),
        (errors.GateError, 3),
    ],
)
def test_each_error_has_its_exit_status(error, status):
    assert error("words").exit_code == status
