"""Compressed samples: the bound against the MMD by its full double sum, and what a ball around the atoms guarantees."""

import numpy as np
import pytest
from numpy.typing import NDArray

import drbo
from drbo import RBF, Matern
from drbo.contexts.compression import Compression, compress
from drbo.kernels import Kernel
from drbo.validation import EXACT
from tolerances import SOLVER

Array = NDArray[np.float64]
ROUNDING = 1e-5
"""The allowance for rounding in the bound, for amplitude 1; the double sum itself is accurate to 1e-7."""


def mmd(samples: Array, p: Array, c: Compression, kernel: Kernel) -> float:
    """Evaluate sqrt(d' K d), d = (p, -w), on all pairs, in extended precision."""
    z, d = np.vstack([samples, c.atoms]), np.concatenate([p, -c.weights]).astype(np.longdouble)
    return float(max(float(d @ (kernel(z, z).astype(np.longdouble) @ d)), 0.0) ** 0.5)


def check(
    samples: Array, c: Compression, kernel: Kernel, limit: int, p: Array | None = None, slack: float = 1.5
) -> None:
    p = np.full(len(samples), 1.0 / len(samples)) if p is None else p
    assert len(c.atoms) == len(c.weights) == len(c.index) <= limit
    assert np.array_equal(c.atoms, samples[c.index])
    assert len(np.unique(c.atoms, axis=0)) == len(c.atoms)
    assert c.weights.min() > 0.0
    assert abs(c.weights.sum() - 1.0) <= EXACT
    exact = mmd(samples, p, c, kernel)
    rounding = ROUNDING * np.sqrt(kernel.variance)
    assert exact <= c.error <= slack * exact + rounding


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "kernel", [RBF(0.3), RBF(1.0, 20.0), Matern(0.4, nu=2.5), Matern(0.2, 0.1, nu=1.5), RBF(1e-3)], ids=repr
)
def test_the_bound_holds_and_is_tight(kernel: Kernel, d: int) -> None:
    rng = np.random.default_rng(d)
    for samples in (rng.random((900, d)), 1e3 + 0.4 * rng.normal(size=(900, d))):
        check(samples, compress(samples, kernel, atoms=100), kernel, 100)


@pytest.mark.parametrize("kernel", [RBF(0.1), Matern(0.2, nu=1.5), RBF(1e-4)], ids=repr)
def test_the_bound_holds_over_several_blocks(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo.contexts.compression.PAIRS", 1)  # blocks of 500
    monkeypatch.setattr("drbo.contexts.compression.CANDIDATES", 700)
    samples = np.random.default_rng(0).random((1_800, 2))
    check(samples, compress(samples, kernel, atoms=150), kernel, 150, slack=2.0)


def test_the_check_can_fail() -> None:
    samples = np.random.default_rng(0).random((300, 2))
    c = compress(samples, RBF(0.1), atoms=20)
    with pytest.raises(AssertionError):
        check(samples, Compression(c.atoms, c.weights, 0.9 * c.error, c.index), RBF(0.1), 20)


@pytest.mark.parametrize("kernel", [RBF(0.2), RBF(1e-3), Matern(0.3, nu=1.5)], ids=repr)
def test_never_worse_than_moving_samples_to_their_nearest_atom(kernel: Kernel) -> None:
    samples = np.random.default_rng(1).random((800, 2))
    c = compress(samples, kernel, atoms=40)
    nearest = kernel(samples, c.atoms).max(axis=1)
    assert c.error <= np.mean(np.sqrt(2.0 * kernel.variance - 2.0 * nearest)) + ROUNDING


def test_few_samples_are_all_kept() -> None:
    samples = np.array([[0.5], [0.1], [0.5], [0.9], [0.1], [0.5]])
    c = compress(samples, RBF(0.3), atoms=3)
    assert c.error == 0.0
    assert c.index.tolist() == [1, 0, 3]
    np.testing.assert_allclose(c.weights, [2 / 6, 3 / 6, 1 / 6])
    one = compress([[0.3, 0.4]], RBF(0.3))
    assert (one.atoms.tolist(), one.weights.tolist(), one.error) == ([[0.3, 0.4]], [1.0], 0.0)
    equal = compress(np.full((5_000, 2), 0.7), RBF(0.3), atoms=1)
    assert (equal.index.tolist(), equal.error) == ([0], 0.0)
    np.testing.assert_allclose(equal.weights, [1.0])


def test_repeated_samples_count_as_weight() -> None:
    rng = np.random.default_rng(2)
    distinct = rng.random((400, 2))
    times = rng.integers(1, 6, 400)
    times[0] = 500
    repeated = np.repeat(distinct, times, axis=0)
    kernel = RBF(0.15)
    a = compress(repeated, kernel, atoms=60)
    b = compress(distinct, kernel, times / times.sum(), atoms=60)
    check(repeated, a, kernel, 60)
    np.testing.assert_allclose(a.atoms, b.atoms)
    np.testing.assert_allclose(a.weights, b.weights, atol=SOLVER)


def test_weights_are_respected() -> None:
    rng = np.random.default_rng(3)
    samples, p = rng.random((700, 2)), rng.exponential(size=700) ** 3
    p[:300] = 0.0
    p[300] = 1e-300
    p /= p.sum()
    c = compress(samples, RBF(0.2), p, atoms=50)
    check(samples, c, RBF(0.2), 50, p)
    assert c.index.min() >= 300


def test_counts_are_weights() -> None:
    rng = np.random.default_rng(3)
    samples, counts = rng.random((200, 2)), rng.integers(0, 5, 200)
    a = compress(samples, RBF(0.2), counts, atoms=30)
    b = compress(samples, RBF(0.2), counts / counts.sum(), atoms=30)
    np.testing.assert_array_equal(a.index, b.index)
    np.testing.assert_array_equal(a.weights, b.weights)
    assert a.error == b.error


def test_near_duplicates_and_one_atom() -> None:
    rng = np.random.default_rng(4)
    samples = np.repeat(rng.random((5, 2)), 100, axis=0) + 1e-12 * rng.random((500, 2))
    check(samples, compress(samples, RBF(0.3), atoms=10), RBF(0.3), 10)
    check(samples, compress(samples, RBF(0.3), atoms=1), RBF(0.3), 1)


def test_the_order_of_the_samples_does_not_matter_and_nothing_is_random() -> None:
    rng = np.random.default_rng(5)
    samples = rng.random((600, 3))
    a, again = compress(samples, Matern(0.3), atoms=80), compress(samples, Matern(0.3), atoms=80)
    assert a.error == again.error
    assert np.array_equal(a.weights, again.weights)
    b = compress(samples[rng.permutation(600)], Matern(0.3), atoms=80)
    np.testing.assert_allclose(b.atoms, a.atoms)
    np.testing.assert_allclose(b.weights, a.weights, atol=SOLVER)
    assert b.error == pytest.approx(a.error, rel=1e-6)


def test_the_record_is_read_only() -> None:
    c = compress(np.linspace(0.0, 1.0, 50), RBF(0.3), atoms=5)
    for array in (c.atoms, c.weights, c.index):
        assert not array.flags.writeable


@pytest.mark.parametrize("eps", [0.02, 0.1])
def test_the_worst_case_around_the_atoms_bounds_the_one_around_the_samples(eps: float) -> None:
    rng = np.random.default_rng(6)
    samples, kernel = rng.random((500, 2)), RBF(0.2)
    c = compress(samples, kernel, atoms=60)
    values = np.sin(5.0 * samples[:, 0]) + samples[:, 1] ** 2
    ball = drbo.MMD(samples, kernel)  # the atoms are samples: the union of points is the samples
    reference = np.zeros(500)
    reference[c.index] = c.weights
    full = np.full(500, 1 / 500)
    assert ball.distance(full, reference) <= c.error
    around_samples = ball.worst_case(values, full, eps)
    around_atoms = ball.worst_case(values, reference, eps + c.error)
    assert around_atoms.lower_bound <= around_samples.lower_bound + SOLVER
    assert around_atoms.lower_bound <= around_samples.expectation


def test_a_hundred_thousand_samples() -> None:
    samples = np.random.default_rng(7).random((100_000, 2))
    c = compress(samples, RBF(0.3))
    assert len(c.atoms) <= 300
    assert c.error < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "expected"), [(Matern(0.2, nu=1.5), 0.01), (RBF(1e-3), 0.07)], ids=repr)
def test_a_hundred_thousand_samples_and_a_rough_kernel(kernel: Kernel, expected: float) -> None:
    assert compress(np.random.default_rng(8).random((100_000, 2)), kernel).error < expected


def test_errors_name_the_argument() -> None:
    good = np.random.default_rng(0).random((10, 2))
    with pytest.raises(ValueError, match="samples must be finite"):
        compress([[0.0, np.nan]], RBF(0.3))
    with pytest.raises(ValueError, match="samples must be points"):
        compress(np.empty((0, 2)), RBF(0.3))
    with pytest.raises(TypeError, match="kernel must be a kernel"):
        compress(good, 0.3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights must sum to 1"):
        compress(good, RBF(0.3), np.full(10, 0.09))
    with pytest.raises(ValueError, match="weights must hold 10"):
        compress(good, RBF(0.3), np.full(9, 1 / 9))
    with pytest.raises(ValueError, match="atoms must be at least 1"):
        compress(good, RBF(0.3), atoms=0)
    with pytest.raises(TypeError, match="atoms must be a whole number"):
        compress(good, RBF(0.3), atoms=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lengthscale has 3 entries"):
        compress(good, RBF((0.1, 0.2, 0.3)))
