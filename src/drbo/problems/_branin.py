"""Two published problems made of the Branin function, on 2-d actions and 2-d contexts in [0, 1]^2.

B(u, v) = (v - 5.1 u^2 / (4 pi^2) + 5 u / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos(u) + 10,  B >= 0.397887.
"""

from __future__ import annotations

import numpy as np

from drbo import RBF, Matern, Product
from drbo.problems._grids import clamped_normal, grid, mmd
from drbo.problems._problem import Problem
from drbo.validation import FloatArray


def modified_branin() -> Problem:
    """Return the modified Branin problem on 17 x 17 actions and 11 x 11 contexts.

    f(x, c) = -sqrt(B(15 x1 - 5, 15 c1) B(15 c2 - 5, 15 x2))

    Reference: both coordinates independent N(0.5, 0.1), clamped; true: N(0.5, 0.2), clamped; both are published. Over
    all x and c the stochastic optimum is -9.6039 under the reference and -16.0643 under the true one (published as
    -9.599 and -16.062, which no action attains).
    """
    axis = np.linspace(0.0, 1.0, 11)
    contexts = grid(axis, axis)
    narrow, wide = clamped_normal(axis, 0.5, 0.1), clamped_normal(axis, 0.5, 0.2)
    reference, true_distribution = np.outer(narrow, narrow).ravel(), np.outer(wide, wide).ravel()
    mmd_kernel = RBF(0.2)
    return Problem(
        name="modified_branin",
        description="modified Branin, 2-d contexts; the spread doubles",
        actions=grid(*[np.linspace(0.0, 1.0, 17)] * 2),
        contexts=contexts,
        function=_modified_branin,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(contexts, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=Product(Matern(0.5, amplitude=80.0), Matern(0.4)),
        noise=0.5,
    )


def branin_williams() -> Problem:
    """Return the Branin-Williams problem (BoRisk) on 33 x 33 actions and its 12 weighted contexts.

    f(x, c) = -B(15 x1 - 5, 15 c1) B(15 c2 - 5, 15 x2)

    Published as a minimisation of B B, hence the sign. Contexts: c1 in {0.2, 0.4, 0.6, 0.8}, c2 in {0.25, 0.5, 0.75},
    with weights (0.0375, 0.0875, 0.0875, 0.0375) for c2 = 0.25 and 0.75, doubled for c2 = 0.5. The true distribution,
    uniform on the 12 contexts, is our own choice.
    """
    contexts = grid(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.25, 0.5, 0.75]))
    reference = np.outer([0.0375, 0.0875, 0.0875, 0.0375], [1.0, 2.0, 1.0]).ravel()
    true_distribution = np.full(12, 1.0 / 12.0)
    mmd_kernel = RBF(0.2)
    return Problem(
        name="branin_williams",
        description="Branin-Williams, 12 weighted contexts; the weights even out",
        actions=grid(*[np.linspace(0.0, 1.0, 33)] * 2),
        contexts=contexts,
        function=_branin_williams,
        reference=reference,
        true_distribution=true_distribution,
        radius=mmd(contexts, mmd_kernel, reference, true_distribution),
        mmd_kernel=mmd_kernel,
        gp_kernel=Product(Matern(0.6, amplitude=15000.0), Matern(0.8)),
        noise=20.0,
    )


def _branin(u: FloatArray, v: FloatArray) -> FloatArray:
    valley = v - 5.1 * u**2 / (4.0 * np.pi**2) + 5.0 * u / np.pi - 6.0
    return valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(u) + 10.0


def _branin_williams(x: FloatArray, c: FloatArray) -> FloatArray:
    first = _branin(15.0 * x[..., 0] - 5.0, 15.0 * c[..., 0])
    second = _branin(15.0 * c[..., 1] - 5.0, 15.0 * x[..., 1])
    return -first * second


def _modified_branin(x: FloatArray, c: FloatArray) -> FloatArray:
    return -np.sqrt(-_branin_williams(x, c))
