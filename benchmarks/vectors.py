"""One evaluation, many contexts: 200 evaluations of 50 contexts, fitted and asked; checked at 20 x 50."""

from __future__ import annotations

import numpy as np

from drbo import Box, LearnedGP, Matern, Optimizer, Samples, Simulator
from drbo.models.data import Outcomes
from drbo.models.likelihood import Correlation, DenseLikelihood, KroneckerLikelihood
from measure import clock
from rows import Row

EQUAL = 1e-8
"""How far log likelihood and gradient may differ from the dense ones, relative to their size."""


def _outcomes(T: int, k: int) -> tuple[Outcomes, np.ndarray]:
    """Return T evaluations in the same k contexts, with a shock each, and the contexts."""
    rng = np.random.default_rng(0)
    x, c = rng.random((T, 1)), np.linspace(0.0, 1.0, k)
    y = np.sin(5.0 * x) + x * np.cos(3.0 * c) + 0.1 * rng.normal(size=(T, 1)) + 0.05 * rng.normal(size=(T, k))
    rows = np.repeat(np.arange(T), k)
    return Outcomes.of(x[rows], np.tile(c, T), y.ravel(), None, rows), c


def _check_equality() -> None:
    """Raise unless log likelihood and gradient of 20 x 50 are those of the dense model."""
    outcomes, _ = _outcomes(20, 50)
    common = outcomes.common()
    assert common is not None
    kernels = (Correlation(Matern(nu=2.5), None),) * 2
    theta = np.array([-0.5, -1.0, 0.3, -1.5, 0.0])
    dense = DenseLikelihood(kernels, outcomes)(theta, 0.5)
    ours = KroneckerLikelihood(kernels, outcomes, common)(theta, 0.5)
    off = max(abs(ours[0] / dense[0] - 1.0), float(np.abs(ours[1] - dense[1]).max() / np.abs(dense[1]).max()))
    if off > EQUAL:
        raise AssertionError(f"the Kronecker likelihood differs from the dense one by {off:.2g}")


def vector_rows(quick: bool) -> list[Row]:
    """Return the first fit and ask of 10,000 outcomes on a box, and an ask that needs no fit."""
    _check_equality()
    best = [float("inf")] * 2
    for _ in range(2 if quick else 4):  # the first one also loads compiled code
        outcomes, contexts = _outcomes(200, 50)
        past = Samples({"c": np.random.default_rng(1).random(150)})
        opt = Optimizer(Box(x=(0.0, 1.0)), past, setting=Simulator(radius=0.1, pick="uncertain"), surrogate=LearnedGP())
        for i in range(200):
            rows = slice(50 * i, 50 * (i + 1))
            opt.tell({"x": float(outcomes.x[50 * i, 0])}, outcomes.y[rows], contexts=contexts[:, None])
        for j in range(2):
            start = clock()
            opt.ask()
            best[j] = min(best[j], clock() - start)
    return [
        Row("200 evaluations in 50 contexts each: first fit and ask", best[0], 1.0, note="10,000 outcomes on a box"),
        Row("200 evaluations in 50 contexts each: an ask without a fit", best[1], None),
    ]
