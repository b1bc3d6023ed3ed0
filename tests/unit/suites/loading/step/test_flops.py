"""Peaks of accelerators, found by the names that frameworks give them."""

from __future__ import annotations

import pytest

from skymark.suites.loading.step.calibration import peak_flops_per_s


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA GH200 480GB", 990e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("TPU v5 lite", 197e12),
        ("TPU v5p", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("Tesla T4", None),
        ("cpu", None),
    ],
)
def test_a_device_has_the_peak_of_its_name_and_one_that_is_not_known_has_none(name, peak):
    assert peak_flops_per_s(name) == peak
