"""Print how far the covariance of a draw of f, given its random frequencies, is from that of the posterior."""

from __future__ import annotations

import numpy as np

from drbo import Matern, Product
from drbo.models import draws

KERNEL = Product(Matern((0.3, 0.3)), Matern(0.3))
NOISE, PLACES, SEEDS = 0.05, 150, 8


def errors(n_observations: int, n_frequencies: int) -> tuple[float, float]:
    """Return the root mean square error, as a share of the prior variance: actions of a box, and contexts, too."""
    rng = np.random.default_rng(0)
    x, c = rng.random((PLACES + n_observations, 2)), rng.random((PLACES + n_observations, 1))
    K_X, K_C = KERNEL.action(x, x), KERNEL.context(c, c)
    K = K_X * K_C
    seen = slice(PLACES, None)
    weights = np.linalg.solve(K[seen, seen] + NOISE**2 * np.eye(n_observations), K[seen, :PLACES]).T
    move = np.concatenate([np.eye(PLACES), -weights], axis=1)  # Matheron's rule, without the noise: it has no error
    draws.FREQUENCIES = n_frequencies
    found = []
    for seed in range(SEEDS):
        drawn = np.random.default_rng(seed)
        phi, psi = draws.Fourier(KERNEL.action, 2, drawn)(x), draws.Fourier(KERNEL.context, 1, drawn)(c)
        off = (phi.T @ phi * K_C - K, (phi.T @ phi) * (psi.T @ psi) - K)
        found.append([np.sqrt(np.mean((move @ one @ move.T) ** 2)) for one in off])
    box, both = np.mean(found, axis=0) / KERNEL.variance
    return float(box), float(both)


if __name__ == "__main__":
    for observed in (0, 20, 100):
        for frequencies in (64, 256, 512, 1024, 2048):
            box, both = errors(observed, frequencies)
            print(f"{observed:4d} outcomes, {frequencies:5d} frequencies: box {box:.4f}, box and range {both:.4f}")
