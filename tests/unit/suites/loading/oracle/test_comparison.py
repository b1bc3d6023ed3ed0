"""One field against the reference: every kind of fault, and differences of a known size."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.comparison import CHUNK_VALUES, Tolerance, compare, difference

EXACT = Tolerance(0.0)
CLOSE = Tolerance(1e-5)


def values(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def fault_of(got: Array | None, want: Array, tolerance: Tolerance = CLOSE) -> Cause:
    fault = compare("values", got, want, tolerance).fault
    assert fault is not None
    assert "'values'" in fault.message
    return fault


@pytest.mark.parametrize("shape", [(8,), (8, 3), (3, 200, 200, 3), (2, CHUNK_VALUES + 1), (4, 0)])
def test_equal_values_pass_without_a_difference(shape: tuple[int, ...]) -> None:
    want = values(*shape)
    assert compare("values", want.copy(), want, EXACT) == (None, 0.0)


@pytest.mark.parametrize("size", [1, CHUNK_VALUES // 2, 3 * CHUNK_VALUES])
def test_a_difference_of_known_size_is_measured_wherever_it_is(size: int) -> None:
    want = np.zeros((5, size), np.float32)
    got = want.copy()
    got[3, -1] = -0.5
    assert difference(got, want) == pytest.approx((0.5, 0.1 / size, 0.5 / size))


def test_the_largest_difference_within_the_tolerance_is_told() -> None:
    want = values(8, 3)
    got = want.copy()
    got[2, 1] += np.float32(1e-6)
    fault, largest = compare("values", got, want, CLOSE)
    assert fault is None
    assert largest == pytest.approx(1e-6, rel=0.2)


def test_differences_of_float64_are_not_rounded_to_float32() -> None:
    want = np.ones((2, 3))
    assert difference(want + 1e-12, want).largest == pytest.approx(1e-12, rel=1e-3)


def test_differences_of_float16_are_not_rounded_to_float16() -> None:
    want = np.full((2, 3), 60_000, np.float16)
    assert difference(-want, want).largest == 120_000


def test_a_value_beyond_the_tolerance_is_a_fault() -> None:
    want = values(8, 3)
    got = want.copy()
    got[2, 1] += 0.25
    fault = fault_of(got, want)
    assert fault.kind == "content"
    assert re.search(r" 0\.25\b.* 0\.0833\b", fault.message)


def test_a_mean_beyond_its_tolerance_is_a_fault_although_no_value_is() -> None:
    want = values(8, 30)
    got = want.copy()
    got[5] += 0.1
    assert compare("values", got, want, Tolerance(0.5)).fault is None
    assert fault_of(got, want, Tolerance(0.5, mean=0.04)).kind == "content"


def test_a_nan_where_the_reference_has_none_is_a_fault_that_says_so() -> None:
    want = values(8, 3)
    got = want.copy()
    got[[2, 5], 1] = np.nan
    fault = fault_of(got, want, Tolerance(1e9))
    assert fault.kind == "content"
    assert re.search(r" NaN\D+2\D+8 ", fault.message)


def test_a_number_where_the_reference_is_nan_is_a_fault_that_says_so() -> None:
    got = values(8, 3)
    want = got.copy()
    want[4] = np.nan
    fault = fault_of(got, want, Tolerance(1e9))
    assert re.search(r"numbers\D+1\D+8 ", fault.message)


def test_nan_and_infinity_at_the_reference_s_places_pass() -> None:
    want = values(8, 3)
    want[1, 0], want[2, 0], want[3, 0] = np.nan, np.inf, -np.inf
    assert compare("values", want.copy(), want, EXACT) == (None, 0.0)


@pytest.mark.parametrize("wrong", [-np.inf, 0.0])
def test_anything_else_in_the_place_of_infinity_is_a_fault(wrong: float) -> None:
    want = values(8, 3)
    want[2, 0] = np.inf
    got = want.copy()
    got[2, 0] = wrong
    assert "up to inf" in fault_of(got, want, Tolerance(1e9)).message


def test_a_field_that_was_not_delivered_is_named() -> None:
    assert fault_of(None, values(8)).kind == "missing-field"


def test_another_shape_is_named() -> None:
    fault = fault_of(values(8, 1), values(8))
    assert fault.kind == "shape"
    assert re.search(r" \(8, 1\).* \(8,\)", fault.message)


@pytest.mark.parametrize(("got", "want"), [("i4", "f4"), ("f4", "i8"), ("?", "u1")])
def test_another_kind_of_dtype_is_named(got: str, want: str) -> None:
    assert fault_of(np.zeros(8, got), np.zeros(8, want)).kind == "dtype"


@pytest.mark.parametrize(("got", "want"), [("i4", "i8"), ("u1", "i8"), ("f8", "f4")])
def test_integers_of_any_width_and_wider_floats_pass(got: str, want: str) -> None:
    assert compare("values", np.ones(8, got), np.ones(8, want), EXACT).fault is None


def test_elements_with_wrong_integers_are_counted() -> None:
    want = np.arange(24).reshape(8, 3)
    got = want.copy()
    got[2], got[6, 0] = 0, 0
    fault = fault_of(got, want, Tolerance(1e9))
    assert fault.kind == "content"
    assert re.search(r" 2\D+8 elements", fault.message)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_values_that_were_cast_and_cast_back_are_named(kind: str) -> None:
    want = values(3, CHUNK_VALUES)
    if kind == "float16":
        got = want.astype(np.float16).astype(np.float32)
    else:
        got = (want.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    fault = fault_of(got, want, Tolerance(0.1))
    assert fault.kind == "precision"
    assert fault.message.endswith(f" {kind}")


def test_comparing_images_takes_little_memory_beside_them() -> None:
    want = values(32, 96, 96, 3)
    got = want.copy()
    tracemalloc.start()
    compare("values", got, want, CLOSE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < want.nbytes / 4
