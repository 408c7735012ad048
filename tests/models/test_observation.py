"""Observations, and the kernel's view of their contexts: points, and averages over several."""

import numpy as np
import pytest

from drbo import RBF, Matern
from drbo.kernels import Kernel
from drbo.models.curve import Embedding
from drbo.models.data import Observation, averaged
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

RNG = np.random.default_rng(0)
TAKEN = [
    Observation.of(RNG.random(1), RNG.random(2), 1.0),
    Observation(RNG.random(1), RNG.random((3, 2)), RNG.dirichlet(np.ones(3)), None),
    Observation.of(RNG.random(1), RNG.random(2), None),
    Observation(RNG.random(1), RNG.random((5, 2)), RNG.dirichlet(np.ones(5)), -0.5),
]


def embedding(kernel: Kernel) -> Embedding:
    points = np.array([observation.contexts[0] for observation in TAKEN])
    return Embedding(kernel, points, {i: o for i, o in enumerate(TAKEN) if len(o.weights) > 1})


def test_one_outcome_in_one_context() -> None:
    one = Observation.of(np.array([0.1]), np.array([0.2, 0.3]), 4.0)
    np.testing.assert_array_equal(one.contexts, [[0.2, 0.3]])
    np.testing.assert_array_equal(one.weights, [1.0])
    assert one.outcome == 4.0


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern((0.4, 0.8), 1.5, nu=1.5)], ids=repr)
def test_an_average_is_met_by_the_mean_of_the_kernel(kernel: Kernel) -> None:
    contexts = np.random.default_rng(1).random((6, 2))
    expected = [o.weights @ kernel(o.contexts, contexts) for o in TAKEN]
    np.testing.assert_allclose(embedding(kernel)(contexts), expected, atol=CLOSED_FORM)
    gram = [[a.weights @ kernel(a.contexts, b.contexts) @ b.weights for b in TAKEN] for a in TAKEN]
    np.testing.assert_allclose(embedding(kernel).gram(), gram, atol=CLOSED_FORM)


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern((0.4, 0.8), 1.5, nu=1.5)], ids=repr)
def test_the_slope_is_that_of_finite_differences(kernel: Kernel) -> None:
    contexts = np.random.default_rng(1).random((6, 2))
    slope = embedding(kernel).slope(contexts)
    for i in range(2):
        step = np.eye(2)[i] * 1e-6
        difference = (embedding(kernel)(contexts + step) - embedding(kernel)(contexts - step)) / 2e-6
        np.testing.assert_allclose(slope[:, :, i], difference, atol=FINITE_DIFFERENCES)


def test_an_average_has_the_same_bits_whatever_other_columns_there_are() -> None:
    rng = np.random.default_rng(3)
    weights, rows = rng.dirichlet(np.ones(50)), rng.random((50, 40))
    whole = averaged(weights, rows)
    np.testing.assert_allclose(whole, weights @ rows, atol=CLOSED_FORM)
    for first, last in ((0, 1), (7, 8), (3, 20), (11, 40)):
        np.testing.assert_array_equal(averaged(weights, rows[:, first:last].copy()), whole[first:last])
        np.testing.assert_array_equal(averaged(weights, rows[:, first:last]), whole[first:last])
