"""Results do not depend on where arrays lie in memory, not even in their last digit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.ambiguity import _many_features, _mmd_atoms, _mmd_solver
from drbo.models import likelihood
from layout import by_layout, sums_that_write

SOURCE = Path(drbo.__file__).parent

SLOPPY = """
@jit
def shifted(values, weights, out):
    total = 0.0
    for i in range(len(values)):
        out[i] = 2.0 * values[i]
        total += weights[i] * out[i]
    return total

@jit
def first(values, out):
    for i in range(len(values)):
        out[0] += values[i]

@jit
def fine(values, weights, out):
    total, count = 0.0, 0
    for i in range(len(values)):
        out[i] += 2.0 * values[i]
        count += 1
    for i in range(len(values)):
        total += weights[i] * out[i]
    return total

@in_order
def one_by_one(values, out):
    total = 0.0
    for i in range(len(values)):
        out[i] = total = total + values[i]
    return total
"""


def test_no_loop_adds_up_numbers_and_writes_to_an_array() -> None:
    """The last digits of a worst case depended on how far its values were from an array of the solver."""
    assert sums_that_write(SLOPPY) == ["shifted: total += weights[i] * out[i]", "first: out[0] += values[i]"]
    compiled = [path for path in SOURCE.rglob("*.py") if "@jit" in path.read_text(encoding="utf-8")]
    assert len(compiled) > 5
    assert {path.name: sums_that_write(path.read_text(encoding="utf-8")) for path in compiled} == {
        path.name: [] for path in compiled
    }


def calls(n: int, r: int) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Return compiled functions that write to arrays, and arguments of about n contexts and r features."""
    rng = np.random.default_rng([n, r])
    k = min(r, 5)
    Q = np.ascontiguousarray(np.linalg.qr(rng.normal(size=(r, r)))[0][:k])
    R = np.triu(rng.normal(size=(k, k))) + 3.0 * np.eye(k)
    active, lam, d = np.arange(k), rng.dirichlet(np.ones(k)), rng.normal(size=n + 1)
    b, hull, point = rng.normal(size=(n + 1, r)), 0.1 * rng.normal(size=k), 0.01 * rng.normal(size=r)
    M, room = b[:n] @ b[:n].T, np.zeros(n + r)
    pairs = n * (n - 1) // 2
    s, decay, value, slope = rng.random((2, pairs)), rng.random(pairs), (1.0, 1.0, 1.0 / 3.0), (-0.5, -0.8)
    return {
        "split": (_mmd_atoms.split, [Q, k, b[0], b[1], np.zeros(r), np.zeros(k)]),
        "append": (_mmd_atoms.append, [Q, R, k - 1, b[0], lam, 1.7, hull, point]),
        "delete": (_mmd_atoms.delete, [Q, R, active, lam, k, 1, hull, point]),
        "price_all": (_mmd_atoms.price_all, [d, np.ascontiguousarray(b[:n].T), b[0], True, np.zeros(n + 1)]),
        "solve on hull": (
            _mmd_solver._solve_on_hull,
            [d, b, 0.5, True, k, active, lam, Q, R, hull, point, np.zeros(r), room, room, room],
        ),
        "price": (_many_features._price, [M, M[0], 0.3, d, active, lam, k, 0.7, np.zeros(n + 1)]),
        "arguments": (likelihood._arguments, [np.ascontiguousarray(b[:n].T), b[0], True, s[0], decay]),
        "fill": (likelihood._fill, [np.zeros((n, n)), s[0], s[1], decay, value, value, 1.0]),
        "of pairs": (
            likelihood._of_pairs,
            [M, d[:n], s[0], s[1], decay, (value, value), (slope, slope), np.zeros(pairs), np.zeros(pairs)],
        ),
    }


@pytest.mark.parametrize("name", calls(12, 6))
def test_bits_do_not_depend_on_where_arrays_lie(name: str) -> None:
    for n, r in ((5, 3), (12, 12), (40, 30)):
        function, arguments = calls(n, r)[name]
        assert len(by_layout(function, arguments)) == 1, (n, r)


def test_that_test_can_fail() -> None:
    def distance(one: np.ndarray, other: np.ndarray) -> bool:
        return abs(one.ctypes.data - other.ctypes.data) < 256

    assert len(by_layout(distance, [np.zeros(4), np.ones(4)])) == 2
