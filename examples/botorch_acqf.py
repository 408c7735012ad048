"""Choose the next evaluation of a BoTorch model by its worst case over an ambiguity set (drbo[botorch])."""

from typing import Any

import numpy as np

import drbo


def simulate(x: Any, c: Any) -> Any:
    """Return the output of a plant at setting x in condition c."""
    return np.sin(5.0 * x) * np.cos(2.0 * c) + 0.5 * c


def main(evaluations: int = 6) -> float | None:
    """Return the setting of the best worst-case lower bound; None if BoTorch is not installed."""
    try:
        from drbo.integrations.botorch import RobustUpperConfidenceBound
    except ImportError as error:
        print(error)
        return None
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    rng = np.random.default_rng(0)
    contexts = np.linspace(0.0, 1.0, 11)[:, None]
    reference = np.linspace(2.0, 1.0, 11) / 16.5  # mild conditions were more frequent
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    points = rng.random((8, 2))  # columns: x, c
    for _ in range(evaluations):
        model = SingleTaskGP(torch.tensor(points), torch.tensor(simulate(*points.T))[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        problem = (model, contexts, drbo.MMD(kernel=drbo.RBF(0.3)), reference, 0.2)
        x, _ = optimize_acqf(RobustUpperConfidenceBound(*problem, beta=2.0), bounds, 1, num_restarts=4, raw_samples=32)
        points = np.vstack([points, [x.item(), rng.random()]])  # nature picks the condition
    best, value = optimize_acqf(
        RobustUpperConfidenceBound(*problem, beta=-2.0), bounds, 1, num_restarts=4, raw_samples=32
    )
    print(f"deploy x = {best.item():.3f}: at least {value.item():.3f} on average in every distribution of the set")
    return float(best.item())


if __name__ == "__main__":
    main()
