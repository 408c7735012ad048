"""The problems that are timed: values as an optimizer sees them, on contexts as the paper has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drbo import GP, MMD, RBF, Product
from drbo.models import ExactPosterior
from world import Array, SamplePath, gaussian, grid

BETA, NOISE = 2.0, 0.05
GP_KERNEL = Product(RBF(0.2), RBF(0.2))
N_OBSERVATIONS = 60


@dataclass(frozen=True, eq=False)
class WorstCases:
    """Minimise <w, v> over the MMD ball, for each row v of values (m, n)."""

    name: str
    contexts: Array
    mmd: MMD
    kernel: RBF
    values: Array
    previous: Array
    """The same bounds a round earlier: one observation fewer."""
    reference: Array
    radius: float

    @property
    def dense_factor(self) -> Array:
        """The Cholesky factor (n, n) of the Gram matrix, as one writes it without drbo."""
        return cholesky(self.kernel(self.contexts, self.contexts))


def cholesky(gram: Array) -> Array:
    """Return the Cholesky factor of a Gram matrix (n, n), with the jitter that it needs."""
    return np.asarray(np.linalg.cholesky(gram + 1e-10 * np.eye(len(gram))), dtype=np.float64)


def posterior_of_a_sample(actions: Array, contexts: Array, n_observations: int, seed: int) -> Iterator[ExactPosterior]:
    """Yield the posterior on the grid after each of the random noisy observations of a sample path; one object."""
    rng = np.random.default_rng(seed)
    f = SamplePath(rng)
    posterior = ExactPosterior.prior(GP(GP_KERNEL, NOISE), actions, contexts)
    for _ in range(n_observations):
        x, c = actions[rng.integers(len(actions))], contexts[rng.integers(len(contexts))]
        posterior = posterior.with_outcome(x, c, f(x, c) + NOISE * rng.normal())
        yield posterior


def worst_cases(
    n: int, lengthscale: float = 0.1, radius_share: float = 1.0, n_actions: int = 100, seed: int = 0
) -> WorstCases:
    """Return the instance of the table on n contexts; its variants by lengthscale and share of the radius.

    Reference N(0.5, 0.05), radius the exact MMD to N(0.45, 0.1), values the upper confidence bounds of `n_actions`
    actions after 60 random observations.
    """
    contexts = grid(n)
    kernel = RBF(lengthscale)
    mmd = MMD(contexts, kernel)
    reference = gaussian(contexts, 0.5, 0.05)
    radius = radius_share * mmd.distance(reference, gaussian(contexts, 0.45, 0.1))
    bounds = [p.mean + BETA * p.std for p in posterior_of_a_sample(grid(n_actions), contexts, N_OBSERVATIONS, seed)]
    name = f"n={n}, lengthscale {lengthscale}" + ("" if radius_share == 1.0 else f", {radius_share:g} of the radius")
    return WorstCases(name, contexts, mmd, kernel, bounds[-1], bounds[-2], reference, radius)
