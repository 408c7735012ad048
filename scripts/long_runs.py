"""Long runs: thousands of rounds with saves in between; nothing is lost, and what a round costs is printed.

python scripts/long_runs.py grid 3000     # a fixed model on a grid of 50 x 50
python scripts/long_runs.py box 500       # a learned model on a box of three parameters, with samples of two conditions

Eight workers on PostgreSQL, three of them killed: pytest -m slow tests/integrations/test_optuna_databases.py -k eight
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import drbo


def grid() -> drbo.Optimizer:
    """Return an optimizer on a grid of 50 actions and 50 contexts."""
    points = np.linspace(0.0, 1.0, 50)
    kernel = drbo.Product(drbo.RBF(0.2), drbo.RBF(0.2))
    setting = drbo.Simulator(np.full(50, 0.02), 0.1, pick="uncertain")
    return drbo.Optimizer(points, points, setting=setting, surrogate=drbo.GP(kernel, noise=0.1))


def box() -> drbo.Optimizer:
    """Return an optimizer on a box whose model learns."""
    rng = np.random.default_rng(0)
    past = drbo.Samples({"outdoor": rng.normal(5.0, 6.0, 60), "load": rng.random(60)}, support=16)
    actions = drbo.Box(setpoint=(18.0, 24.0), gain=drbo.Log(1e-3, 1.0), stages=drbo.Integer(1, 4))
    return drbo.Optimizer(actions, past, setting=drbo.Simulator(radius=0.1, pick="uncertain"))


def outcome(s: drbo.knowledge.Suggestion, rng: np.random.Generator) -> float:
    """Return a noisy outcome of a suggestion."""
    if isinstance(s.action, dict):
        x, c = s.action, s.context
        cost = (x["setpoint"] - 21.0 - 0.05 * c["outdoor"]) ** 2 + (np.log10(x["gain"]) + 1.5) ** 2
        return float(-cost - 0.3 * (x["stages"] - 2.0 - c["load"]) ** 2 + 0.1 * rng.normal())
    return float(np.sin(6.0 * s.action[0]) * np.cos(4.0 * s.context[0]) + 0.1 * rng.normal())


def run(make: Callable[[], drbo.Optimizer], rounds: int, folder: Path) -> None:
    """Ask, tell and save; load now and then, and at the end compare what is there with what was told."""
    opt, path, rng = make(), folder / "run.drbo", np.random.default_rng(0)
    told: list[float] = []
    times: list[float] = []
    print("| rounds | ms per round, median of the last tenth | largest memory, MB | file, MB | load, s |", flush=True)
    print("|---|---|---|---|---|", flush=True)
    tenth = max(rounds // 10, 1)
    for i in range(1, rounds + 1):
        before = time.process_time()
        s = opt.ask()
        told.append(outcome(s, rng))
        opt.tell(s, told[-1])
        opt.save(path)
        times.append(time.process_time() - before)
        if i % tenth == 0:
            before = time.process_time()
            loaded = drbo.Optimizer.load(path)
            took = time.process_time() - before
            assert [result.outcome for result in loaded.results] == told, f"{i} rounds: a result is lost or wrong"
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size = path.stat().st_size / 1e6
            ms = 1000.0 * float(np.median(times[-tenth:]))
            print(f"| {i:,} | {ms:.1f} | {memory:.0f} | {size:.2f} | {took:.2f} |", flush=True)
    again = drbo.Optimizer.load(path)
    assert again.n_told == rounds
    assert again.pending == ()
    live, anew = opt.recommend(), again.recommend()
    assert live.value == anew.value, (live.value, anew.value)
    print(f"\nnothing lost in {rounds:,} rounds; the loaded run recommends the same, {live.value:.6g}")


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["grid", "box"])
    parser.add_argument("rounds", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run({"grid": grid, "box": box}[options.kind], options.rounds, Path(folder))


if __name__ == "__main__":
    main()
