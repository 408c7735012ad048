"""Learn on the running plant: the conditions are seen after the choice, and the computer may reboot at any time."""

import sys
from pathlib import Path

import numpy as np

import drbo


def start() -> drbo.Optimizer:
    """Return an optimizer that knows the conditions of the last forty shifts, and no outcome."""
    rng = np.random.default_rng(0)
    past = np.column_stack([rng.normal(15.0, 4.0, 40), rng.normal(0.3, 0.05, 40)])
    return drbo.Optimizer(
        actions=drbo.Box(feed=(2.0, 8.0), temperature=(150.0, 190.0)),
        contexts=drbo.Samples(past, names=["ambient", "moisture"]),
        setting=drbo.DataDriven(radius=drbo.radius.Bootstrap(delta=0.1)),  # every shift teaches it the distribution
    )


def run_shift(action: dict[str, float], number: int) -> tuple[float, dict[str, float]]:
    """Return the yield of a shift, and the conditions that it turned out to have."""
    rng = np.random.default_rng(number)
    seen = {"ambient": 15.0 + 0.2 * number + 4.0 * rng.normal(), "moisture": 0.3 + 0.05 * rng.normal()}
    best_feed = 6.0 - 8.0 * (seen["moisture"] - 0.3)
    best_temperature = 175.0 - 0.6 * (seen["ambient"] - 15.0)
    loss = (action["feed"] - best_feed) ** 2 + 0.01 * (action["temperature"] - best_temperature) ** 2
    return 90.0 - loss + 0.2 * float(rng.normal()), seen


def main(file: Path = Path("plant.json"), shifts: int = 12) -> drbo.analysis.Recommendation:
    """Return what to keep doing after this many further shifts. Run it again, and it goes on where it stopped."""
    opt = drbo.Optimizer.load(file) if file.exists() else start()
    for _ in range(shifts):
        s = opt.pending[0] if opt.pending else opt.ask()  # a shift that a reboot interrupted is run again
        opt.save(file)
        yielded, seen = run_shift(s.action, s.number)
        opt.tell(s, yielded, context=seen)
        opt.save(file)  # appends one record: what was saved before is safe whatever happens
    return opt.recommend()


if __name__ == "__main__":
    print(main(*map(Path, sys.argv[1:])))  # the file may be named; `drbo show plant.json` follows it
