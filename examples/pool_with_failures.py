"""Keep a pool of processes busy with simulations, some of which fail. Stop it at any time: the same line goes on."""

import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import drbo


def simulate(action: dict[str, float], context: np.ndarray) -> float:
    """Return the lift of a wing, less its drag, in some wind. Some winds take longer than others, and some fail."""
    angle, flap = action["angle"], action["flap"]
    gust, heading = context
    time.sleep(0.02 * (1.0 + abs(gust)))
    if angle > 11.0 and gust > 2.0:
        raise RuntimeError("stall: the solver diverged")
    stall = max(angle + gust - 10.0, 0.0) ** 2
    return float(0.8 * angle - 0.04 * angle**2 - stall - 3.0 * (flap - 0.3 - 0.1 * np.sin(heading)) ** 2)


def main(file: str | Path = "wing.json", evaluations: int = 24, workers: int = 3) -> drbo.analysis.Recommendation:
    """Return what to deploy after this many simulations, never more than `workers` at a time."""
    rng = np.random.default_rng(0)
    winds = np.column_stack([rng.gumbel(0.0, 0.8, 150), rng.uniform(-3.1, 3.1, 150)])
    opt = drbo.Optimizer(
        actions=drbo.Box(angle=(0.0, 14.0), flap=(0.0, 1.0)),
        contexts=drbo.Samples(winds),
        setting=drbo.Simulator(radius=0.1),
    )
    with ProcessPoolExecutor(workers) as pool:
        return drbo.run(opt, simulate, evaluations, executor=pool, workers=workers, save=file)


if __name__ == "__main__":
    print(main())
