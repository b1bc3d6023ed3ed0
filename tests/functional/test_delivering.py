"""Batches delivered to a device, by real frameworks: on this machine, their CPU devices."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from skymark.cache.location import cache_directory
from skymark.execute.venvs import Venvs, import_root
from skymark.model.record import Status
from skymark.suites.loading.suite import venv_of
from tests.functional.conftest import run_in

FRAMEWORKS = {"grain": "jax", "pytorch": "torch", "tfdata": "tensorflow"}
OF_THEIR_OWN = ("dali", "deeplake")
"""Libraries of the host, which have PyTorch for this."""


SLUGS = {"ahead": (*FRAMEWORKS, *OF_THEIR_OWN), "plain": tuple(FRAMEWORKS)}


@pytest.fixture(scope="module")
def delivered(tmp_path_factory):
    """A run to the device in each way to copy."""
    return {
        copies: run_in(
            *(tmp_path_factory.mktemp(copies), "run", "--scenarios", "TAB-1:tiny"),
            *("--adapters", *slugs, "numpy", "--deliver", "device"),
            *("--set", f"copies={copies}", "--effort", "check", "--timeout", "300"),
        )
        for copies, slugs in SLUGS.items()
    }


@pytest.mark.libraries
@pytest.mark.parametrize(("copies", "slugs"), SLUGS.items())
def test_batches_go_to_the_device_of_each_framework_and_are_verified(delivered, copies, slugs):
    ran = delivered[copies]
    assert ran.status == 0, ran.stderr
    records = {record.cell.adapter: record for record in ran.records.values()}
    for slug in slugs:
        record = records[slug]
        assert record.status is Status.OK, record.cause
        assert record.verification.compared_elements > 0
        assert record.conditions["deliver"] == "device"
        assert record.conditions["copies"] == copies
        assert record.metrics["delivery_bytes_per_s"].value > 0
        assert record.metrics["copy_bytes_per_s"].value > 0
    assert records["numpy"].status is Status.UNSUPPORTED
    assert records["numpy"].cause.kind == "lacks-framework"


def site_packages(venv) -> list[Path]:
    """Where a venv's packages lie: SPDL's has no PyTorch on a machine without a GPU."""
    return list(venv.directory.glob("lib/*/site-packages"))


def with_stand_in() -> str:
    """Return the path of imports of a process that may import `cuda_stand_in`."""
    places = (import_root(cache_directory()), Path(__file__).parent)
    return os.pathsep.join(map(os.fspath, places))


COPIES = """
import json, sys
import numpy as np
from skymark.suites.loading.delivery.loader import FRAMEWORKS
from skymark.suites.loading.devices import devices_of, on_host

raw = np.ones(100_064, np.uint8)
start = -raw.ctypes.data % 64
aligned = raw[start:start + 100_000]
counted = np.arange(1000, dtype=np.int64)
fields = {"aligned": aligned, "backwards": counted[::-1], "read-only": counted + 2**40}
fields["read-only"].flags.writeable = False
wanted = {name: value.copy() for name, value in fields.items()}
framework = FRAMEWORKS[sys.argv[1]]("cpu", 5)
if sys.argv[2] == "page-locked":
    from skymark.suites.loading import devices
    from skymark.suites.loading.delivery.on_jax import page_locked_memory

    framework.page_locked = page_locked_memory(framework.device)
    buffer = framework.buffer(8)
    assert buffer.sharding.memory_kind == "pinned_host"
    assert framework.bytes_to_move(buffer) == 8
    (there,) = framework.place({"buffer": buffer}).fields.values()
    assert there.sharding.memory_kind == "device"
    devices.HOST = "the host"
    assert devices_of({"buffer": buffer}) == {"the host"} != devices_of({"there": there})
    devices.HOST = "cpu"
elif sys.argv[2] == "cuda":
    import cuda_stand_in

    framework = cuda_stand_in.StandIn("gpu", 0)
elif sys.argv[2] == "spdl":
    sys.path += sys.argv[3:]
    import cuda_stand_in, torch
    from skymark.suites.loading.adapters.spdl import torch_with_spdl

    torch.Tensor.to = cuda_stand_in.moved
    framework = torch_with_spdl("gpu", 5)
size = sum(map(framework.bytes_to_move, fields.values()))
made = framework.place(fields)
assert made.copy_ns > 0
placed = made.fields
framework.receive(placed)
if sys.argv[2] == "cuda":
    locked, events = ["page-lock"] * 3, ["event", "event", "wait for event"]
    assert cuda_stand_in.calls == [*locked, *events, *["used by stream"] * 3]
elif sys.argv[2] == "spdl":
    copies = ["page-lock", "to cuda:1"] * 3
    around = ["event", *copies, "wait for stream", "event", "wait for event"]
    assert cuda_stand_in.calls[3:-3] == around, cuda_stand_in.calls
aligned[:] = counted[:] = 9
print(json.dumps({
    "size": size,
    "types": sorted({type(value).__module__.partition(".")[0] for value in placed.values()}),
    "places": sorted(devices_of(placed)),
    "equal": [bool(np.array_equal(wanted[n], np.array(on_host(v)))) for n, v in placed.items()],
    "dtypes": [str(np.array(on_host(value)).dtype) for value in placed.values()],
}))
"""


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("slug", "way"),
    [
        *((slug, "cpu") for slug in FRAMEWORKS),
        ("grain", "page-locked"),
        ("pytorch", "cuda"),
        ("pytorch", "spdl"),
    ],
)
def test_a_delivered_batch_shares_no_memory_with_that_of_the_library(slug, way):
    venvs = Venvs(cache_directory())
    built = venvs.ensure(venv_of(slug))
    framework = FRAMEWORKS[slug]
    spdl = site_packages(venvs.ensure(venv_of("spdl"))) if way == "spdl" else []
    done = subprocess.run(
        [built.python, "-W", "error::UserWarning", "-c", COPIES, framework, way, *spdl],
        env={**os.environ, "PYTHONPATH": with_stand_in()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["equal"] == [True, True, True]
    assert found["dtypes"] == ["uint8", "int64", "int64"]
    assert found["size"] == 100_000 + 8000 + 8000
    assert found["places"] == ["cpu"]
    assert found["types"] == [{"jax": "jaxlib"}.get(framework, framework)]


@pytest.mark.libraries
def test_a_run_to_the_device_is_not_compared_with_one_to_the_host(delivered, tmp_path):
    what = ("--scenarios", "TAB-1:tiny", "--adapters", "pytorch")
    ran = run_in(tmp_path, "run", *what, "--effort", "check", "--timeout", "300")
    assert ran.status == 0, ran.stderr
    compared = run_in(tmp_path, "compare", "out", str(delivered["plain"].output))
    assert compared.status == 2
    assert " loading.TAB-1.tiny.pytorch differ" in compared.stderr
