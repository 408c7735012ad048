"""What is refused, whatever function it is given to: the message names the argument."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drbo import validation
from tolerances import ROUNDING

NOT_NUMBERS = [
    ["1", "2"],
    [1 + 2j],
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    [[1.0], [1.0, 2.0]],
    [{}],
    [10**400],
]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_arrays_of_something_else(value: Any) -> None:
    with pytest.raises(TypeError, match="weights must be an array of numbers"):
        validation.finite_array("weights", value)


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="weights must be an array of numbers, got MaskedArray: a masked array"):
        validation.finite_array("weights", np.ma.masked_array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize(
    "value", ["0.1", b"0.1", True, np.True_, 1j, [0.1], np.array("0.1"), None, 10**400, [[1], [1, 2]]]
)
def test_numbers_of_something_else(value: Any) -> None:
    with pytest.raises(TypeError, match="radius must be a number"):
        validation.radius(value)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.array(0.5), np.int64(2), float("inf")])
def test_numbers_of_all_kinds_are_welcome(value: Any) -> None:
    assert validation.radius(value) == float(value)


@pytest.mark.parametrize("value", [[1, 2], np.ones(2, dtype=np.float32), (1.0, 2.0), np.arange(4.0)[::2], range(2)])
def test_arrays_of_all_kinds_are_welcome(value: Any) -> None:
    array = validation.finite_array("x", value, ndim=1)
    assert array.dtype == np.float64
    assert array.flags.c_contiguous


def test_a_single_number_is_no_set_of_points() -> None:
    with pytest.raises(ValueError, match=r"contexts must be points of shape \(n, d\)"):
        validation.points("contexts", 3.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5 + 2e-3], "p must sum to 1"),
        ([0.0, 0.0], "p must sum to 1"),
        ([2.0, 0.5], r"p must sum to 1 \(within 0.001\), or be counts, got the sum 2.5"),
        ([1.5, -0.5], "p must not be negative, got -0.5 at index 1"),
        ([], "p must hold at least one weight"),
        ([np.nan, 1.0], r"p must be finite, got nan at index \[0\]"),
    ],
)
def test_distributions(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validation.distribution("p", weights)


def test_a_sum_within_the_tolerance_is_kept_as_it_is() -> None:
    given = np.array([0.5, 0.5 + 5e-9])
    np.testing.assert_array_equal(validation.distribution("p", given), given)


@pytest.mark.parametrize("given", [[3, 1], [3.0, 1.0], [0.75 + 2e-8, 0.25], [0.7504, 0.2504], (np.int64(6), 2)])
def test_counts_and_rounded_shares_are_divided_by_their_sum(given: Any) -> None:
    found = validation.distribution("p", given)
    np.testing.assert_allclose(found, np.asarray(given, dtype=float) / np.sum(given), rtol=ROUNDING)
    assert found.sum() == pytest.approx(1.0, abs=ROUNDING)


@pytest.mark.parametrize(
    ("check", "value"),
    [(validation.positive_float, 0.0), (validation.probability, 1.0), (validation.finite_float, float("inf"))],
)
def test_ranges(check: Callable[[str, Any], float], value: float) -> None:
    with pytest.raises(ValueError, match="beta must"):
        check("beta", value)


def test_a_frozen_copy_is_nobody_elses() -> None:
    mine = np.ones(2)
    kept = validation.frozen(mine)
    mine[0] = 5.0
    assert kept[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 2.0


def test_large_numbers_are_finite_and_nobody_warns_of_them() -> None:
    large = [1e200, -1.7e308]
    np.testing.assert_array_equal(validation.finite_array("x", large), large)
    np.testing.assert_array_equal(validation.distribution("w", [1e200, 3e200]), [0.25, 0.75])
    with pytest.raises(ValueError, match="w must be finite, got nan at index"):
        validation.distribution("w", [np.nan, 1.0])
    with pytest.raises(ValueError, match="w must be finite, got inf at index"):
        validation.distribution("w", [np.inf, 1.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_entry_that_is_not_finite_is_found_wherever_it_stands(bad: float) -> None:
    """Vector instructions look at several entries at a time, and at those left over by themselves."""
    for n in (1, 2, 7, 8, 9, 31, 64, 101):
        array = 1e308 * np.linspace(-1.0, 1.0, n)
        assert validation.finite_array("it", array) is array
        for i in range(n):
            with pytest.raises(ValueError, match=rf"it must be finite, got {bad} at index \[{i}\]"):
                validation.finite_array("it", np.where(np.arange(n) == i, bad, array))
    assert validation.finite_array("it", np.empty((3, 0))).shape == (3, 0)
