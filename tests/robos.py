"""The RoBOS function of shared/FIELD.md, where stochastic, robust and worst-case optima all differ."""

import numpy as np

import drbo

X = np.linspace(-3.5, 3.5, 8)
C = np.linspace(-12, 12, 50)
MMD_KERNEL = drbo.RBF(5.0)
GP_KERNEL = drbo.Product(drbo.RBF(0.5), drbo.RBF(5.0))


def f(x: float | np.ndarray, c: float | np.ndarray) -> np.ndarray:
    return np.asarray(
        0.75 * np.exp(-4 * (x + 2.5) ** 2) * np.exp(-((c + 2) ** 2) / 100)
        + 0.35 * np.exp(-4 * (x + 0.5) ** 2) * np.exp(-(c**2) / 1000)
        + np.exp(-((x - 2.5) ** 2)) * np.exp(-((c - 2) ** 2) / 12)
    )


def normal(mean: float, std: float) -> np.ndarray:
    density = np.exp(-0.5 * ((C - mean) / std) ** 2)
    return np.asarray(density / density.sum())


F = f(X[:, None], C[None, :])
REFERENCE = normal(2.0, 1.0)
TRUTH = normal(0.0, 5.0)
RADIUS = 0.434330
