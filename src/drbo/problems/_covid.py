"""COVID-19 test allocation (Tay et al., ICML 2022): the share of tests per group, under unknown conditions.

f interpolates 4,085 runs of an epidemic simulation, as in the paper: f(z) = sum_i a_i k(z, z_i) with z = (x, c) and an
RBF kernel with lengthscale 0.2 in each of the five dimensions. The file holds the weights a_i, computed with 1e-3 on
the diagonal of the kernel matrix. `scripts/build_covid_data.py` makes the file. Its licence is in the same folder.
"""

from __future__ import annotations

import functools
from importlib import resources

import numpy as np

from drbo import RBF, Product
from drbo.problems._benchmarks import grid, mmd
from drbo.problems._problem import Problem
from drbo.validation import FloatArray

_INTERPOLATION = RBF(0.2)


def covid_allocation() -> Problem:
    """Return the allocation of COVID-19 tests to three groups of people: 55 actions, 550 contexts.

    The action is the share of tests for the first two groups; the third group gets the rest. Actions are the points of
    a 10 x 10 grid with x1 + x2 <= 1. Contexts are the points of a 10 x 10 x 10 grid with c1 + c2 <= 1. Reference:
    normal density with mean 0 and covariance 0.02 I; true: uniform. The radius is their MMD, 0.740891. The outcome is
    standardised; its noise has variance 0.001. The stochastic solution (0, 0) has the worst case -2.2547, the robust
    one (2/9, 1/9) has -1.2219.
    """
    axis = np.linspace(0.0, 1.0, 10)
    square, cube = grid(axis, axis), grid(axis, axis, axis)
    actions, contexts = (points[points[:, 0] + points[:, 1] <= 1.0 + 1e-9] for points in (square, cube))
    density = np.exp(-0.5 * (contexts**2).sum(axis=1) / 0.02)
    reference, true_distribution = density / density.sum(), np.full(len(contexts), 1.0 / len(contexts))
    mmd_kernel = RBF(0.2)
    return Problem(
        name="covid_allocation",
        description="COVID-19 tests for three groups; the conditions spread out",
        actions=actions,
        contexts=contexts,
        function=_interpolated,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(contexts, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=Product(RBF(0.2, amplitude=1.2), RBF(0.2)),
        noise=float(np.sqrt(0.001)),
    )


@functools.cache
def _samples() -> tuple[FloatArray, FloatArray]:
    """Return the points (n, 5) and the weights (n,) of the interpolation."""
    with resources.as_file(resources.files("drbo.problems") / "data" / "covid_allocation.npz") as file:
        held = np.load(file)
        return held["points"].astype(float), held["weights"]


def _interpolated(x: FloatArray, c: FloatArray) -> FloatArray:
    points, weights = _samples()
    parts = []
    for given, own in ((x, points[:, :2]), (c, points[:, 2:])):  # the kernel is a product over the dimensions
        parts.append(_INTERPOLATION(given.reshape(-1, own.shape[1]), own).reshape(*given.shape[:-1], len(own)))
    return np.asarray(np.einsum("...i,...i->...", parts[0] * weights, parts[1]))
