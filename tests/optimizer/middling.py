"""A grid on which large actions do well in the middle of the contexts, and badly at their ends."""

from typing import Any

import numpy as np

from drbo import GP, RBF, General, Optimizer, Product, TotalVariation

ACTIONS, CONTEXTS = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 1.0, 5)


def f(x: float, c: float) -> float:
    return float(1.0 + 0.8 * x - 2.5 * x * (c - 0.3) ** 2 - 0.5 * (1.0 - x) ** 2)


def grid(told: int = 25, *, maximize: bool = True, **options: Any) -> Optimizer:
    given: dict[str, Any] = {
        "ambiguity": TotalVariation(),
        "setting": General(),
        "surrogate": GP(Product(RBF(0.5), RBF(0.5)), 0.05),
        "maximize": maximize,
        **options,
    }
    opt = Optimizer(ACTIONS, CONTEXTS, **given)
    rng = np.random.default_rng(0)
    for _ in range(told):
        i, j = int(rng.integers(9)), int(rng.integers(5))
        opt.tell(ACTIONS[i], (1.0 if maximize else -1.0) * f(ACTIONS[i], CONTEXTS[j]), context_index=j)
    return opt
