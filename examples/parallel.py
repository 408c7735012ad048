"""Keep several simulations busy at once: a result is told as soon as it is there, and the next one is asked for."""

import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

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


def main(evaluations: int = 24, workers: int = 3) -> drbo.Recommendation:
    """Return what to deploy after this many simulations, never more than `workers` at a time."""
    rng = np.random.default_rng(0)
    winds = np.column_stack([rng.gumbel(0.0, 0.8, 150), rng.uniform(-3.1, 3.1, 150)])
    opt = drbo.Optimizer(
        actions=drbo.Box(angle=(0.0, 14.0), flap=(0.0, 1.0)),
        contexts=drbo.Samples(winds),
        setting=drbo.Simulator(radius=0.1),
    )
    running: dict[Future[float], drbo.Suggestion] = {}
    with ProcessPoolExecutor(workers) as pool:
        for _ in range(evaluations):
            if len(running) == workers:
                collect(opt, running)
            s = opt.ask()  # differs from everything that is still running
            running[pool.submit(simulate, s.action, s.context)] = s
        while running:
            collect(opt, running)
    return opt.recommend()


def collect(opt: drbo.Optimizer, running: dict[Future[float], drbo.Suggestion]) -> None:
    """Tell the results that are there, in whatever order they came; wait for one if there is none."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        s = running.pop(future)
        if future.exception():
            opt.tell(s, failed=True)
        else:
            opt.tell(s, future.result())


if __name__ == "__main__":
    print(main())
