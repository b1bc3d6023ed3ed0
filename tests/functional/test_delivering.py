"""Batches delivered to a device, by real frameworks: on this machine, their CPU devices."""

from __future__ import annotations

import pytest

from skymark.model.record import Status
from tests.functional.conftest import run_in

FRAMEWORKS = {"grain": "jax", "pytorch": "torch", "tfdata": "tensorflow"}
ADAPTERS = (*FRAMEWORKS, "numpy")


@pytest.mark.libraries
def test_batches_go_to_the_device_of_each_framework_and_are_verified(tmp_path):
    ran = run_in(
        *(tmp_path, "run", "--scenarios", "TAB-1", "--adapters", *ADAPTERS, "--deliver", "device"),
        *("--effort", "check", "--timeout", "300"),
    )
    assert ran.status == 0, ran.stderr
    records = {record.cell.adapter: record for record in ran.records.values()}
    for slug in FRAMEWORKS:
        record = records[slug]
        assert record.status is Status.OK, record.cause
        assert record.verification.compared_elements > 0
        assert record.conditions["deliver"] == "device"
        assert record.metrics["delivery_bytes_per_s"].value > 0
        assert record.metrics["copy_bytes_per_s"].value > 0
    assert records["numpy"].status is Status.UNSUPPORTED
    assert records["numpy"].cause.kind == "lacks-framework"


@pytest.mark.libraries
def test_a_run_to_the_device_is_not_compared_with_one_to_the_host(tmp_path):
    shared = ("--scenarios", "TAB-1", "--adapters", "pytorch", "--effort", "check")
    for deliver in ("host", "device"):
        (tmp_path / deliver).mkdir()
        ran = run_in(tmp_path / deliver, "run", *shared, "--deliver", deliver)
        assert ran.status == 0, ran.stderr
    compared = run_in(tmp_path, "compare", "host/out", "device/out")
    assert compared.status == 2
    assert "deliver" in compared.stderr
