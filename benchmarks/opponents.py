"""What one would use without drbo: generic conic solvers for the worst case, generic libraries for the posterior.

Every solver is given its best case: built once and kept for all value vectors, with the low-rank factor F of M = F F'
that drbo computes (a Cholesky factor of the 1000 x 1000 Gram matrix makes them ten times slower).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import clarabel
import cvxpy as cp
import ecos
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

from measure import clock

Array = NDArray[np.float64]
Solver = Callable[[Array], float]
"""Takes values (n,), returns the worst-case expectation, or NaN where the solver gives up."""

HAS_BOTORCH = importlib.util.find_spec("botorch") is not None


def cvxpy_clarabel(factor: Array, reference: Array, radius: float) -> Solver:
    """Return the parametrised model (DPP), solved by Clarabel."""
    return _cvxpy(factor, reference, radius, cp.CLARABEL)


def cvxpy_ecos(factor: Array, reference: Array, radius: float) -> Solver:
    """Return the parametrised model (DPP), solved by ECOS."""
    return _cvxpy(factor, reference, radius, cp.ECOS)


def _cvxpy(factor: Array, reference: Array, radius: float, solver: str) -> Solver:
    n = len(reference)
    v, w = cp.Parameter(n), cp.Variable(n)
    ball = cp.norm(factor.T @ w - factor.T @ reference) <= radius
    problem = cp.Problem(cp.Minimize(v @ w), [w >= 0, cp.sum(w) == 1, ball])
    assert problem.is_dcp(dpp=True)

    def solve(values: Array) -> float:
        v.value = values
        try:
            return float(problem.solve(solver=solver))
        except cp.SolverError:
            return float("nan")

    return solve


def _conic(factor: Array, reference: Array, radius: float) -> tuple[sparse.csc_array, Array]:
    """Return G, h of the cone constraints h - G w in (w >= 0) x (second-order cone of the ball)."""
    n, r = factor.shape
    G = sparse.csc_array(np.vstack([-np.eye(n), np.zeros((1, n)), -factor.T]))
    h = np.concatenate([np.zeros(n), [radius], -factor.T @ reference])
    assert G.shape == (n + 1 + r, n)
    return G, h


def clarabel_direct(factor: Array, reference: Array, radius: float) -> Solver:
    """Return Clarabel without a modelling layer, the factorisation's structure kept from vector to vector."""
    n, r = factor.shape
    G, h = _conic(factor, reference, radius)
    A = sparse.csc_matrix(np.vstack([np.ones((1, n)), G.toarray()]))
    b = np.concatenate([[1.0], h])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n), clarabel.SecondOrderConeT(r + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False  # or the values could not be replaced
    settings.max_threads = 1
    solver = clarabel.DefaultSolver(sparse.csc_matrix((n, n)), np.zeros(n), A, b, cones, settings)

    def solve(values: Array) -> float:
        solver.update(q=values)
        solution = solver.solve()
        return float(solution.obj_val) if solution.status == clarabel.SolverStatus.Solved else float("nan")

    return solve


def ecos_direct(factor: Array, reference: Array, radius: float) -> Solver:
    """Return ECOS without a modelling layer."""
    n, r = factor.shape
    G, h = _conic(factor, reference, radius)
    G_matrix, A, b = sparse.csc_matrix(G), sparse.csc_matrix(np.ones((1, n))), np.ones(1)
    dims = {"l": n, "q": [r + 1]}

    def solve(values: Array) -> float:
        info = ecos.solve(values, G_matrix, h, dims, A, b, verbose=False)["info"]
        return float(info["pcost"]) if info["exitFlag"] == 0 else float("nan")

    return solve


WORST_CASE: dict[str, Callable[[Array, Array, float], Solver]] = {
    "CVXPY + Clarabel": cvxpy_clarabel,
    "CVXPY + ECOS": cvxpy_ecos,
    "Clarabel": clarabel_direct,
    "ECOS": ecos_direct,
}


def sklearn_posterior(points: Array, outcomes: Array, grid: Array, noise: float) -> tuple[Array, Array]:
    """Return mean and standard deviation of f on the grid by scikit-learn, hyper-parameters fixed."""
    gp = GaussianProcessRegressor(kernels.RBF([0.2, 0.2], "fixed"), alpha=noise**2, optimizer=None)
    mean, std = gp.fit(points, outcomes).predict(grid, return_std=True)
    return mean, std


def botorch_posterior(points: Array, outcomes: Array, grid: Array, noise: float) -> tuple[Array, Array]:
    """Return mean and standard deviation of f on the grid by a BoTorch model, hyper-parameters fixed."""
    import gpytorch
    import torch
    from botorch.models import SingleTaskGP

    x, y = torch.tensor(points), torch.tensor(outcomes)[:, None]
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = 0.2
    model = SingleTaskGP(
        x,
        y,
        torch.full_like(y, noise**2),
        covar_module=kernel.to(x),
        mean_module=gpytorch.means.ZeroMean(),
        outcome_transform=None,
        input_transform=None,
    )
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var(False):
        # Jointly in pieces of 500, the fastest way of those tried: point by point takes six times as long.
        pieces = [model.posterior(piece) for piece in torch.split(torch.tensor(grid), 500)]
        mean = torch.cat([piece.mean[:, 0] for piece in pieces])
        variance = torch.cat([piece.variance[:, 0] for piece in pieces])
    return mean.numpy(), variance.clamp_min(0.0).sqrt().numpy()


def botorch_fit_and_acquisition(points: Array, outcomes: Array, d_x: int) -> tuple[float, float]:
    """Return the times of BoTorch's fit and of its `optimize_acqf`, for points (t, d_x + d_c) of the unit cube.

    The acquisition is the upper confidence bound of the expectation over 32 draws of the context: less work than a
    worst case over 214 of them.
    """
    import torch
    from botorch.acquisition import AnalyticAcquisitionFunction
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from botorch.utils.transforms import t_batch_mode_transform
    from gpytorch.mlls import ExactMarginalLogLikelihood

    class ExpectedUpperBound(AnalyticAcquisitionFunction):  # type: ignore[misc]  # torch has no types here
        def __init__(self, model: SingleTaskGP, draws: torch.Tensor) -> None:
            super().__init__(model)
            self.draws = draws

        @t_batch_mode_transform(expected_q=1)  # type: ignore[untyped-decorator]  # the same
        def forward(self, X: torch.Tensor) -> torch.Tensor:
            draws = self.draws.expand(*X.shape[:-2], *self.draws.shape)
            z = torch.cat([X.expand(*X.shape[:-2], len(self.draws), X.shape[-1]), draws], dim=-1)
            joint = self.model.posterior(z)
            mean = joint.mean[..., 0].mean(dim=-1)
            variance = joint.distribution.covariance_matrix.mean(dim=(-2, -1))
            return mean + 2.0 * variance.clamp_min(1e-12).sqrt()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.tensor(points), torch.tensor(outcomes)[:, None]
    start = clock()
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    fitted = clock()
    draws = torch.rand(32, points.shape[1] - d_x, dtype=x.dtype)
    bounds = torch.tensor([[0.0] * d_x, [1.0] * d_x], dtype=x.dtype)
    optimize_acqf(ExpectedUpperBound(model, draws), bounds, q=1, num_restarts=4, raw_samples=64)
    return fitted - start, clock() - fitted


def reference_round(
    points: Array, outcomes: Array, grid: Array, n_actions: int, solve: Solver, beta: float, noise: float
) -> tuple[int, float]:
    """Return the chosen action and its certified value: the loop that research code runs every round.

    The posterior on the grid (n_actions n_contexts, 2) from scratch by scikit-learn, one CVXPY solve an action, and one
    for the recommendation.
    """
    mean, std = sklearn_posterior(points, outcomes, grid, noise)
    scores = [solve(row) for row in (mean + beta * std).reshape(n_actions, -1)]
    x = int(np.nanargmax(scores))
    return x, solve((mean - beta * std).reshape(n_actions, -1)[x])
