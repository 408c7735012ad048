"""The RoBOS function of shared/FIELD.md, where stochastic, robust and worst-case optima all differ."""

from typing import Any

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


# --- an optimizer of it -----------------------------------------------------------------------------------------------

SET = drbo.MMD(C, MMD_KERNEL)
SURROGATE = drbo.GP(GP_KERNEL, noise=0.05)
SETTINGS: list[drbo.Setting] = [
    drbo.General(),
    drbo.DataDriven(radius=drbo.radius.Theoretical(factor=0.1)),
    drbo.Simulator(REFERENCE, RADIUS, pick="uncertain"),
    drbo.Simulator(REFERENCE, RADIUS, pick="informative"),
]


def make(setting: drbo.Setting, **more: Any) -> drbo.Optimizer:
    arguments: dict[str, Any] = {"ambiguity": SET, "surrogate": SURROGATE, **more}
    return drbo.Optimizer(X, C, setting=setting, **arguments)


def ask(opt: drbo.Optimizer) -> drbo.knowledge.Suggestion:
    if isinstance(opt.configuration.setting, drbo.General):
        return opt.ask(reference=REFERENCE, radius=RADIUS)
    return opt.ask()


def tell(opt: drbo.Optimizer, s: drbo.knowledge.Suggestion, rng: np.random.Generator) -> None:
    """Answer with a noisy outcome; nature draws the context from the true distribution unless the setting picked it."""
    noise = 0.05 * rng.normal()
    j = rng.choice(len(C), p=TRUTH)
    if s.context_index is None:
        opt.tell(s, F[s.action_index, j] + noise, context=C[j])
    else:
        opt.tell(s, F[s.action_index, s.context_index] + noise)


def run(opt: drbo.Optimizer, rounds: int, seed: int = 0) -> list[drbo.knowledge.Suggestion]:
    rng = np.random.default_rng(seed)
    suggestions = []
    for _ in range(rounds):
        suggestions.append(ask(opt))
        tell(opt, suggestions[-1], rng)
    return suggestions


def posterior(opt: drbo.Optimizer) -> drbo.models.ExactPosterior:
    """Return the posterior on the grid."""
    on_grid = opt.posterior
    assert isinstance(on_grid, drbo.models.ExactPosterior)
    return on_grid
