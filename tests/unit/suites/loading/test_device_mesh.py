"""Where batches lie on a mesh. Its arrays are stood in for: JAX is not in the base environment."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skymark.suites.loading.delivery.on_jax import mesh_variables, misplaced

SHARDING = SimpleNamespace(num_devices=4)


def array(rows: tuple[int, ...], *, equivalent: bool = True) -> SimpleNamespace:
    """Stand in for a JAX array whose shards have so many rows each."""
    shards = [SimpleNamespace(data=np.zeros((count, 2))) for count in rows]
    return SimpleNamespace(
        ndim=2,
        shape=(8, 2),
        sharding=SimpleNamespace(is_equivalent_to=lambda _sharding, _ndim: equivalent),
        addressable_shards=shards,
    )


def test_a_batch_divided_among_all_devices_is_right():
    assert misplaced({"x": array((2, 2, 2, 2))}, SHARDING) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((8, 2)), "'x' is a ndarray"),
        (array((2, 2, 2, 2), equivalent=False), "'x' is placed"),
        (array((8, 8, 8, 8)), "'x' have [8]"),
    ],
)
def test_what_lies_elsewhere_is_named(value, words):
    fault = misplaced({"index": array((2, 2, 2, 2)), "x": value}, SHARDING)
    assert fault is not None
    assert words in fault


def test_flags_that_were_set_stay(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_acl=false")
    flags = mesh_variables()["XLA_FLAGS"].split()
    assert flags == ["--xla_cpu_use_acl=false", "--xla_force_host_platform_device_count=4"]
    monkeypatch.delenv("XLA_FLAGS")
    assert mesh_variables() == {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
